"""Pages: golden Markdown for whole lessons, and what Markdown makes of it."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import markdown
import pytest

from tilewise.build import page
from tilewise.build.installation import Package
from tilewise.build.page.code import AROUND, source
from tilewise.build.page.front import clone, first_run, notebooks
from tilewise.build.page.gathered import corrections, questions, recap
from tilewise.build.page.layout import source_path
from tilewise.build.page.reading_time import CODE_LINES_A_MINUTE, MINUTES, WORDS_A_MINUTE, reading_time
from tilewise.build.run.runner import Runner
from tilewise.course.lesson import Lesson, parse
from tilewise.course.order import Course, Part
from tilewise.outputs import Context, KernelOutput
from tilewise.outputs.exercise import ExerciseOutput
from tilewise.outputs.try_it import COUNTS_BEGIN, COUNTS_END, END

PAGES = sorted((Path(__file__).parent / "pages").glob("*.py"))
EXTENSIONS = [
    "attr_list",
    "md_in_html",
    "admonition",
    "footnotes",
    "tables",
    "meta",
    "pymdownx.details",
    "pymdownx.superfences",
    "pymdownx.highlight",
    "pymdownx.tabbed",
    "pymdownx.blocks.html",
    "pymdownx.arithmatex",
]
OPTIONS: dict[str, dict[str, Any]] = {
    "pymdownx.highlight": {"linenums_style": "pymdownx-inline", "line_spans": "__span"},
    "pymdownx.tabbed": {"alternate_style": True},
    "pymdownx.arithmatex": {"generic": True},
}


def html(text: str) -> str:
    """What a site generator makes of a page."""
    made = markdown.markdown(text, extensions=EXTENSIONS, extension_configs=OPTIONS)
    return page.tell_lines(page.hide_marker_lines(made))


def text_of(fragment: str) -> str:
    return re.sub(r"<[^>]+>", "", fragment)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, page.Page]:
    root = tmp_path_factory.mktemp("pages")
    made = {}
    with Runner(root, root / ".cache") as runner:
        for file in PAGES:
            lesson = parse(file.read_text(), f"lessons/part/{file.name}", f"part/{file.stem}")
            made[file.stem] = page.render(lesson, runner.run(lesson), Course.of([lesson]))
    return made


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.stem)
def test_a_lesson_becomes_its_golden_page(file, pages, golden):
    golden(file.with_suffix(".md"), pages[file.stem].markdown)


def two_lessons(project: Any) -> list[Lesson]:
    first = project.lesson(
        '# %% [markdown]\n# ??? definition "Warp | warps"\n#     32 lanes.[^1]\n#\n# [^1]: Note.\n'
    )
    second = project.lesson(
        "# %% [markdown]\n# Many warps, see [one](one.py) and [docs](../../docs/how.md#x).\n",
        "part/two",
        needs="part/one",
    )
    return [first, second]


def test_links_between_lessons_terms_and_pages_follow_the_layout(project):
    first, second = two_lessons(project)
    course = Course.of([first, second])
    text = page.render(second, project.run(second), course).markdown
    assert '[warps](one.py#term-warp "32 lanes."){ .tw-term }' in text
    assert "[one](one.py)" in text and "[docs](../../how.md#x)" in text
    assert 'Prerequisites: <a href="../one/">Title of part/one</a>' in text


def test_the_end_lists_the_terms_added(project):
    first, second = two_lessons(project)
    course = Course.of([first, second])
    added = page.render(first, project.run(first), course).markdown
    assert (
        '??? terms "One term new in this lesson"\n\n    - [Warp](#term-warp){ .tw-term-entry }: 32 lanes.'
        in added
    )
    assert "All terms of the course: [glossary](../../glossary.md)." in added
    later = page.render(second, project.run(second), course).markdown
    assert "## Terms" not in later


def test_the_glossary_holds_each_term_once_with_its_home_and_uses(project):
    course = Course.of(two_lessons(project))
    text = page.glossary(course)
    assert text.count('id="term-warp"') == 1
    assert "32 lanes.\n" in text and "[^1]" not in text
    assert "From [Title of part/one](lessons/part/one.py#term-warp)." in text
    assert "Used in [Title of part/two](lessons/part/two.py)." in text


def test_notes_on_the_sources_stand_together_with_links_from_the_root(project):
    lesson = project.lesson(
        "# %%\nfrom tilewise import publish\n\npublish(add={'median': 3.0})\n\n"
        "# %% [markdown]\n# ## How *many*\n#\n"
        "# Where the sources differ: they say 2, and it is\n# {{ add.median }}.\n#\n"
        "# Not this.\n#\n# ## How far\n#\n# Far.[^far] Near.[^near]\n#\n"
        "# [^far]: *A common misconception:* one says near,\n"
        "#     [here](one.py#there).[^near]\n#\n# [^near]: Nearer than far.\n"
    )
    course = Course.of([lesson])
    path = source_path(lesson.id)
    text = corrections(course, {path: page.render(lesson, project.run(lesson), course)})
    first, second = text.split("\n\n- ")[1:]
    assert first.startswith("They say 2, and it is <span") and ">3</span>.\n" in first
    assert first.endswith(f"In [How many]({path}#how-many)")
    assert second.startswith("One says near, [here](lessons/part/one.py#there).\n")
    assert (
        second.endswith(f"In [How far]({path}#how-far)") and "Not this" not in text and "Nearer" not in text
    )


ASKED = """# %%
from tilewise import publish

publish(add={'median': 3.0})

# %% [markdown]
# ## How many
#
# Some.[^some]
#
# ??? question "Why `three`?"
#     It is {{ add.median }}, as [here](#how-many) and [there](two.py#there).[^some]
#
#     - Count them.
#
# ??? definition "Warp"
#     Not this.
#
# ??? question "And code?"
#     It stands below.
#
# ```text
# ??? question "Nor this?"
#     No.
# ```
#
# [^some]: A note.
#
# ## How many
#
# ??? question "And again?"
#     Again.
#
# ## Takeaways
#
# - It is {{ add.median }},
#   as [counted](#how-many).
# - A warp is [there](two.py#there).
#
# That was all.
"""
LATER = "# %% [markdown]\n# ## There\n#\n# ## Takeaways\n#\n# - The last.\n"


def parts_of(project: Any) -> tuple[Course, dict[str, page.Page], list[Part]]:
    """Two lessons in two parts."""
    lessons = [project.lesson(ASKED), project.lesson(LATER, "part/two", needs="part/one")]
    course = Course.of(lessons)
    pages = {source_path(one.id): page.render(one, project.run(one), course) for one in lessons}
    return (
        course,
        pages,
        [Part("First", ("part/one",)), Part("Second", ("part/two",))],
    )


def test_questions_stand_together_by_part_with_links_from_the_root(project):
    course, pages, parts = parts_of(project)
    first, before_code, second = questions(course, parts, pages).split("\n\n### ")[1:]
    assert first.startswith("Why `three`?\n\nIt is <span")
    assert (
        ">3</span>, as [here](lessons/part/one.py#how-many) and [there](lessons/part/two.py#there).\n\n- "
        in first
    )
    assert first.endswith('\n\n<p class="tw-asked" markdown>In [How many](lessons/part/one.py#how-many).</p>')
    assert before_code.startswith("And code?\n\nIt stands below.\n\n<p "), "no code of the lesson behind it"
    assert second.startswith("And again?\n\nAgain.\n\n<p ")
    assert second.endswith(">In [How many](lessons/part/one.py#how-many_1).</p>")
    assert questions(course, parts[1:], pages) == "", "no part without a question has a heading"


def test_takeaways_stand_together_by_part_below_the_lessons_that_showed_them(project):
    course, pages, parts = parts_of(project)
    first, second = recap(course, parts, pages).split("## ")[1:]
    assert first.startswith("First\n\n**[Title of part/one](lessons/part/one.py)**\n\n- It is <span")
    assert (
        "as [counted](lessons/part/one.py#how-many).\n- A warp is [there](lessons/part/two.py#there)."
        in first
    )
    assert "That was all" not in first
    assert second == "Second\n\n**[Title of part/two](lessons/part/two.py)**\n\n- The last."


def diamond(project: Any) -> Course:
    needs = {"part/a": "", "part/b": "part/a", "part/c": "part/a", "part/d": "part/a, part/b, part/c"}
    return Course.of([project.lesson("# %%\nx = 1\n", name, wanted) for name, wanted in needs.items()])


def with_further(project: Any) -> Course:
    """The diamond, with part/b a Further page of part/a."""
    lessons = [
        replace(one, header=replace(one.header, further="part/a")) if one.id == "part/b" else one
        for one in diamond(project).lessons
    ]
    return Course.of(lessons)


def test_the_map_lists_each_lesson_once_below_its_part_and_further_pages_below_their_lesson(
    project,
):
    parts = [Part("First & last", ("part/a", "part/b", "part/d"), "Where 1 < 2."), Part("Next", ("part/c",))]
    made = page.course_map(with_further(project), [*parts, Part("Empty", ("part/b",))])
    tree = ET.fromstring(made)
    links = [node.get("href") for node in tree.iter("a")]
    assert links == [f"lessons/part/{name}/" for name in "abdc"]
    assert [node.text for node in tree.iter("h3")] == ["First & last", "Next"]
    assert [node.text for node in tree.iter("p")] == ["Where 1 < 2."]
    assert [node.text for node in tree.iter("span")] == ["1", "3", "2"], "Further pages have no number"
    assert [node.get("href") for node in tree.findall(".//ul/li/ul/li/a")] == ["lessons/part/b/"]
    assert "\n\n" not in made


def test_a_lesson_leads_to_its_further_pages_and_they_lead_back(project):
    course = with_further(project)
    shown = {
        one.id: page.render(one, project.run(one), course).markdown
        for one in course.lessons
        if one.id != "part/d"
    }
    assert "Further: [Title of part/b](b.py)\n{: .tw-further }" in shown["part/a"]
    assert "Back to lesson 1: [Title of part/a](a.py)\n{: .tw-further }" in shown["part/b"]
    assert 'status: "further"' in shown["part/b"]
    assert "tw-further" not in shown["part/c"] and "status" not in shown["part/c"]
    leads = re.search(r"Leads to: (.*?)</span>", shown["part/a"])
    assert leads and "part/c/" not in leads[1] and "../c/" in leads[1] and "../b/" not in leads[1]


def test_the_front_page_shows_the_first_run_without_its_table(project):
    course = Course.of([project.lesson("# %%\nx = 1\n")])
    run = (
        '<div class="tw-try" id="try-1" data-offer="{}assets/a.json">\n<form></form>'
        '<div class="tw-try-result"><ul></ul>{}</div>\n{}</div>'
    )
    table = f"{COUNTS_BEGIN}<table></table>{COUNTS_END}"
    text = "Before.\n\n" + run.format("../../../", table, END) + "\n\nAfter."
    path = source_path("part/one")
    assert first_run(course, {path: page.Page(text, {})}) == run.format("", "", END).replace(
        'class="tw-try"', 'class="tw-try tw-try-front"'
    )
    kernel = "// c = a\n__global__ void f(int* c) {\n    *c = 1;\n}"
    shown = first_run(course, {path: page.Page(f'SOURCE = r"""\n{kernel}\n"""\n\n{text}', {})})
    assert shown.startswith('<div class="tw-try tw-try-front"')
    assert f'linenums="1" }}\n{kernel}\n' in shown
    assert first_run(course, {path: page.Page("None.", {})}) == first_run(course, {}) == ""


def test_how_to_get_the_course_follows_the_repository(project):
    course = Course.of([project.lesson("# %%\nx = 1\n")])
    assert "you have the course already" in clone(None) and "git" not in clone(None)
    here = Package("https://github.com/owner/na-me", "v1")
    assert clone(here) == "```sh\ngit clone https://github.com/owner/na-me\ncd na-me\nmake serve\n```"
    assert "cd name\n" in clone(Package("https://host.example/owner/name.git", "v1"))
    colab = "https://colab.research.google.com/github/owner/na-me/blob/notebooks/part/one.ipynb"
    assert f'href="{colab}"' in notebooks(course, here)
    for other in (None, Package("https://host.example/owner/name", "v1")):
        assert "colab.research" not in notebooks(course, other)
        assert 'href="lessons/part/one/one.ipynb"' in notebooks(course, other)
    lesson = course.lessons[0]
    assert f'href="{colab}"' in page.render(lesson, project.run(lesson), course, package=here).markdown


REGIONS = """# %%
from tilewise import Kernel, show

K = Kernel(r\"\"\"
// [all
extern "C" __global__ void k(int* a) {
    // [outer
    int b = 1;

    // [inner
    a[0] = b; // [no marker
    // inner]
    // outer]
}
// all]
\"\"\")

# %%
show(K.region("outer"), K.region("all"))
"""


def test_markers_leave_no_line_and_every_other_line_keeps_its_number(project):
    shown = html(project.page(project.lesson(REGIONS)).markdown)
    kernels = re.findall(r"<div [^>]*data-kernel=.*?</div>", shown, re.DOTALL)
    numbers = [[int(at) for at in re.findall(r'data-linenos=" *(\d+) "', one)] for one in kernels]
    assert numbers == [[2, 4, 5, 7, 10], [4, 5, 7], [2, 4, 5, 7, 10]]
    lines = [text_of(one).strip("\n").split("\n") for one in kernels]
    assert [len(entry) for entry in lines] == [5, 3, 5]
    assert lines[1] == ["    int b = 1;", "", "    a[0] = b; // [no marker"]


def test_blocks_and_code_are_told_their_line_of_the_lessons_file(pages):
    for name in ("prose", "tabs"):
        source = (Path(__file__).parent / "pages" / f"{name}.py").read_text().split("\n")
        made = html(pages[name].markdown)
        assert "<!-- line" not in made
        blocks = re.findall(r'<(p|h2|ul|details|table)\b[^>]*data-line="(\d+)"[^>]*>(.*?)</\1>', made, re.S)
        assert blocks
        for tag, number, inside in blocks:
            first = re.findall(r"[A-Za-z]{3,}", text_of(inside))[0]
            at = int(number) - 1
            assert first in " ".join(source[at : at + 4]), (tag, number, first)


def test_a_text_of_several_kernels_stands_once_as_cuda():
    kernel = 'extern "C" __global__ void {name}(float* out) {{ out[0] = T; }}'
    text = "\n".join(
        [
            '# ---\n# title: "One"\n# needs: []\n# summary: "Once?"\n# ---\n',
            '# %% tab="Pseudocode"\nfill = 1\n',
            '# %% tab="CUDA C"\nBOTH = r"""',
            kernel.format(name="fill"),
            '"""\nFILL = Kernel(BOTH, defines={"T": 1})\nAGAIN = Kernel(BOTH, defines={"T": 2})',
            'OTHER = Kernel(r"""',
            kernel.format(name="other"),
            '""")',
        ]
    )
    lesson = parse(text, "lessons/part/one.py", "part/one")
    texts = {"FILL": "fill", "AGAIN": "fill", "OTHER": "other"}
    known = {name: KernelOutput(name=what, source=kernel.format(name=what)) for name, what in texts.items()}
    context = Context("part/one", 6, lambda suffix, content: "", lambda wanted: wanted)
    shown = source(lesson.code[-1], known, context)
    assert shown.count("void fill(") == shown.count("void other(") == 1
    assert 'r"""' not in shown, "the text is CUDA, not a Python string"
    assert 'title="BOTH"' in shown and 'title="OTHER"' in shown
    assert 'FILL = Kernel(BOTH, defines={"T": 1})\n    AGAIN = Kernel(BOTH, defines={"T": 2})' in shown
    assert shown.index("FILL = ") > shown.index(AROUND) > shown.index("void other("), "Python in a fold below"


def test_what_is_said_to_a_formatter_is_not_shown():
    head = '# ---\n# title: "One"\n# needs: []\n# summary: "Once?"\n# ---\n\n'
    text = f"{head}# %%\na = [1,\n     2]  # fmt: skip\nb = 3  # the rest\n"
    lesson = parse(text, "lessons/part/one.py", "part/one")
    context = Context("part/one", 6, lambda suffix, content: "", lambda wanted: wanted)
    shown = source(lesson.code[-1], {}, context)
    assert "a = [1,\n     2]\nb = 3  # the rest" in shown


def test_reading_time_leaves_out_what_the_page_folds():
    def lesson(cell: str) -> Any:
        head = '# ---\n# title: "One"\n# needs: []\n# summary: "How long?"\n# ---\n\n'
        return parse(head + cell, "lessons/part/one.py", "part/one")

    lines = 'extern "C" __global__ void fill(float* out) {\n' + "    out[0] += 1;\n" * 180 + "}\n"
    assert page.minutes(lesson('# %%\nFILL = Kernel(r"""\n' + lines + '""")')) == 1
    tabs = '# %% tab="Pseudocode"\nx = 1\n\n# %% tab="CUDA C"\nFILL = r"""\n'
    assert page.minutes(lesson(tabs + lines + '"""')) == 1
    assert page.minutes(lesson('# %%\nFILL = Kernel(HELPERS + r"""\n' + lines + '""", name="fill")')) == 1
    assert page.minutes(lesson('# %% fold="All"\n' + "x = 1\n" * 180)) == 1
    assert page.minutes(lesson("# %%\n" + "x = 1\n" * 180)) == 10
    assert page.minutes(lesson('# %%\nFILL = Kernel(r"""\n' + lines[:600] + '""")')) == 2


def test_working_time_stands_apart_and_counts_exercises_and_puzzles():
    header = '# ---\n# title: "One"\n# needs: []\n# summary: "How long?"\n# ---\n\n'
    lesson = parse(header + "# %%\n" + "x = 1\n" * 180, "lessons/part/one.py", "part/one")
    exercise = ExerciseOutput(title="One", task="Do it.", answer="")
    puzzle = SimpleNamespace(kind="puzzle")
    assert reading_time(lesson).text == "10 min read"
    one = reading_time(lesson, [exercise, KernelOutput(name="fill", source="")])
    assert one.text == "10 min read · about 15 min with the exercise"
    many: Any = [exercise, exercise, puzzle]
    assert reading_time(lesson, many).text == "10 min read · about 35 min with the exercises and puzzle"


def test_how_to_read_says_how_times_are_estimated():
    said = " ".join((Path(__file__).parents[1] / "docs" / "conventions.md").read_text().split())
    assert (
        f"{WORDS_A_MINUTE} words, or {CODE_LINES_A_MINUTE} lines of the code that isn't folded, per minute"
        in said
    )
    assert all(f"{minutes} minutes per {kind}" in said for kind, minutes in MINUTES.items())


def test_a_definition_keeps_the_commands_of_its_formulas_and_loses_the_marks_of_everyday_words(
    project,
):
    lesson = project.lesson(
        "# %% [markdown]\n" + '# ??? definition "Warp"\n#     A \\lane of $P \\circ Q$.\n'
    )
    course = Course.of([lesson])
    (term,) = course.terms.terms
    assert term.first_sentence_markdown == "A lane of $P \\circ Q$."
    assert "A lane of $P \\circ Q$." in page.glossary(course)
