"""Folds: one line under each output, and one badge for the checks of a page."""

import re

from tilewise.build.page.folds import gather

FIGURE = (
    '<figure class="tw-figure" id="figure"><figcaption>It is.</figcaption>\n'
    '<div class="tw-folds"><details class="tw-figure-alt"><summary>Text version</summary><p>1</p></details>'
    "</div>\n</figure>"
)
CODE = (
    '<details class="code" data-line="3">\n<summary>Code of the figure</summary>\n<p>x = {}</p>\n</details>'
)


def lines(html: str) -> list[list[str]]:
    """The titles of each line."""
    return [
        re.findall(r"<summary>(.*?)</summary>", line)
        for line in re.findall(r'<div class="tw-folds">(.*?)</div>', html, re.S)
    ]


def test_the_code_of_a_figure_joins_the_line_under_it():
    made = gather(f"<p>Before.</p>\n{FIGURE}\n{CODE.format(1)}\n<p>After.</p>")
    assert lines(made) == [["Text version", "Show code"]]
    assert made.index("x = 1") < made.index("</figure>") < made.index("After.")


def test_neighbouring_code_without_a_title_of_its_own_is_one_entry():
    own = CODE.replace("Code of the figure", "The kernel with stamps")
    made = gather("\n".join([CODE.format(1), CODE.format(2), own.format(3)]))
    assert lines(made) == [["Show code", "The kernel with stamps"]]
    assert made.index("x = 1") < made.index("x = 2") < made.index("The kernel with stamps")


def test_what_stands_between_separates_two_lines():
    made = gather(f"{CODE.format(1)}\n<p>Between.</p>\n{CODE.format(2)}\n<h2>Next</h2>\n{CODE.format(3)}")
    assert lines(made) == [["Show code"]] * 3
    assert [made.index(text) for text in ("x = 1", "Between.", "x = 2", "Next", "x = 3")] == sorted(
        made.index(text) for text in ("x = 1", "Between.", "x = 2", "Next", "x = 3")
    )


def test_definitions_share_a_line_and_one_alone_stays_a_block():
    one = '<details class="definition"><summary><em id="term-{0}">{0}</em></summary><p>It is.</p></details>'
    alone = one.format("warp")
    assert gather(alone) == alone
    made = gather("\n".join([one.format("warp"), one.format("lane")]))
    assert made.count("tw-folds") == 1 and made.count("<details") == 2


def test_folds_that_a_reader_asks_by_question_stay_blocks():
    question = '<details class="question"><summary>Why?</summary><p>So.</p></details>'
    assert gather(question) == question


def test_code_shared_by_all_machines_is_marked_and_other_machines_outputs_stay_as_they_are():
    other = f'<template data-machine="nvidia-h200">\n{FIGURE}\n</template>'
    block = f'<div class="tw-machines" data-shown="nvidia-h100">\n{FIGURE}\n{other}\n</div>'
    made = gather(f"{block}\n{CODE.format(1)}")
    assert '<details data-kept="" class="code"' in made
    assert made.index("x = 1") < made.index("<template")
    assert other in made


CHECK = '<div class="tw-check" data-kind="check"><span aria-hidden="true">✓</span> out: {} values</div>'


def test_the_checks_are_listed_in_the_head_with_their_sections():
    page = "\n".join(
        [
            '<h1 id="one">One</h1>\n<div class="tw-lesson">\n<p>How?</p>\n</div>',
            '<h2 id="first">First<a class="headerlink" href="#first">¶</a></h2>',
            f"<div>\n{CHECK.format(1)}\n</div>",
            f"<p>Text.</p>\n{CHECK.format(2)}",
            f'<div class="tw-machines" data-shown="a">\n{CHECK.format(3)}\n<template data-machine="b">\n'
            f"{CHECK.format(4)}\n</template>\n</div>",
            '<div class="tw-lack">Triton with k (needs Triton).</div>',
        ]
    )
    made = gather(page)
    head, rest = made.split("</details>", 1)
    assert "3 checks passed in this build" in head
    assert re.findall(r'out: (\d) values <a href="#first">First</a>', head) == ["1", "2", "3"]
    assert "Not compared in this build:" in head and "needs Triton" in head
    assert "values" not in rest and "tw-machines" not in rest and "<div>" not in rest
    assert rest.lstrip().startswith("</div>"), "the badge ends the head"


def test_checks_of_a_page_without_a_head_stay_where_they_are():
    assert gather(CHECK.format(1)) == CHECK.format(1)
