"""Blocks of HTML that are put aside before Markdown reads them: the page stays the same."""

import pytest
from markdown import Markdown

from tilewise.site.raw_html import RawHtml

EXTENSIONS = ["attr_list", "md_in_html", "tables", "footnotes", "pymdownx.superfences", "pymdownx.details"]
TAKEN = {
    "a table": '<table class="a" id="rows">\n<tr><td>*1* &amp; `2`</td></tr>\n</table>',
    "nested": "<div><div>a</div>\n<div>b</div></div>",
    "a formula's letters": "<div>$a_b$ \\(x\\) [link](other.md) {: .a }</div>",
}
LEFT = {
    "wants Markdown": '<div markdown="1">\n*word*\n</div>',
    "holds an empty line": "<div>\na\n\nb\n</div>",
    "is never closed": "<div>\n<div>\n</div>",
    "goes on behind": "<div>a</div> and *words*",
    "two of them": "<div>a</div>\n<div>b</div>",
    "in a list": "- item\n\n    <div>a</div>",
    "in a fence": "```html\n\n<div>a</div>\n\n```",
    "inline": "<em>a</em> word",
    "in a paragraph": "word\n<div>a</div>\nword",
}


def _html(text: str, *more: RawHtml) -> str:
    lines = Markdown(extensions=[*EXTENSIONS, *more]).convert(text).splitlines()
    return "\n".join(line for line in lines if line.strip())


@pytest.mark.parametrize("block", [*TAKEN.values(), *LEFT.values()], ids=[*TAKEN, *LEFT])
@pytest.mark.parametrize("around", ["{}", "# Head\n\n{}\n\n*after* it\n", "word\n\n{}\n\n\n\n<p>x</p>\n"])
def test_the_page_is_the_same(block, around):
    text = around.format(block)
    assert _html(text, RawHtml()) == _html(text)


@pytest.mark.parametrize("block", TAKEN.values(), ids=TAKEN)
def test_what_is_put_aside_is_put_back_as_it_was(block):
    assert block in Markdown(extensions=[*EXTENSIONS, RawHtml()]).convert(f"a\n\n{block}\n\nb")


def test_ids_in_it_stay_known():
    raw = RawHtml()
    _html(f'{TAKEN["a table"]}\n\n<div><a name="spot"></a></div>', raw)
    assert raw.anchors == {"rows", "spot"}
    _html("none", raw)
    assert raw.anchors == set()
