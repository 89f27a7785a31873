"""What differs between two states of a page, block by block."""

from __future__ import annotations

import random

import pytest

from tilewise.mkdocs_plugin.blocks import Article

PAGE = (
    '<html><head><title>T</title></head><body><article class="md">{}</article><footer></footer></body></html>'
)
BLOCKS = {
    "a heading": '<h1 id="a">A <a href="#a" title=">">¶</a></h1>\n',
    "a paragraph": "<p>Two <em>words</em> and a<br>break</p>\n",
    "nested": "<div><div><p>x</p></div><div></div></div>\n",
    "code with tags": '<pre class="x"><code>&lt;div&gt; <b>if (a < b)</b></code></pre>',
    "a script": '<script src="a.js">if ("</div><p>" < 1) {}</script>',
    "a void element": '<hr class="a">',
    "closed at once": '<img src="a.svg"/>',
    "SVG": '<figure><svg><path d="M0 0"/><text>a</text></svg></figure>\n',
    "a comment behind": "<p>before a comment</p><!-- <div> -->",
    "an attribute with a tag": "<p title='<div>'>text</p>",
    "text behind": "<p>x</p> loose text ",
}


def _page(*blocks: str) -> Article:
    return Article.of(PAGE.format("".join(blocks)))


def _applied(before: Article, after: Article) -> list[str]:
    """What a browser makes of the changes."""
    changes = before.changes_to(after)
    assert changes is not None and changes["total"] == len(before.blocks)
    blocks = list(before.blocks)
    for at, count, html in changes["edits"]:
        blocks[at : at + count] = Article.of(PAGE.format(html)).blocks
    return blocks


@pytest.mark.parametrize("html", BLOCKS.values(), ids=BLOCKS)
def test_a_block_is_one_element(html: str) -> None:
    assert _page("<p>before</p>", html, "<p>behind</p>").blocks == ("<p>before</p>", html, "<p>behind</p>")


def test_what_changes_is_sent_and_nothing_else() -> None:
    before = _page("<p>1</p>", "<p>2</p>", "<p>3</p>")
    assert before.changes_to(before) == {"total": 3, "edits": []}
    assert before.changes_to(_page("<p>1</p>", "<p>two</p>", "<p>3</p>")) == {
        "total": 3,
        "edits": [[1, 1, "<p>two</p>"]],
    }


def test_a_line_number_alone_is_no_change() -> None:
    before, after = _page('<h2 data-line="7">a</h2>'), _page('<h2 data-line="8">a</h2>')
    assert before.changes_to(after) == {"total": 1, "edits": []}


@pytest.mark.parametrize("seed", range(10))
def test_changes_make_the_other_state(seed: int) -> None:
    choice = random.Random(seed)
    before, after = (
        _page(*choice.choices(list(BLOCKS.values()), k=choice.randrange(1, 12))) for _ in range(2)
    )
    assert _applied(before, after) == list(after.blocks)


@pytest.mark.parametrize(
    "other",
    [PAGE.replace("<title>T", "<title>U").format("<p>1</p>"), "<p>no article</p>", ""],
    ids=["another title", "no article", "nothing"],
)
def test_what_differs_outside_the_article_is_sent_whole(other: str) -> None:
    assert _page("<p>1</p>").changes_to(Article.of(other)) is None
    assert Article.of(other).changes_to(_page("<p>1</p>")) is None


@pytest.mark.parametrize("html", ["</div></p>", "<p>open", "<pre>never closed", "text alone", "<", "<p <p>"])
def test_broken_html_is_cut_somehow_and_nothing_is_lost(html: str) -> None:
    cut = _page("<p>1</p>", html)
    assert "".join(cut.blocks) == f"<p>1</p>{html}"
