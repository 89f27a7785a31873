"""The rule "language": words, clauses as headings, sentences without a verb; few false alarms."""

import re
from pathlib import Path

import pytest

from tilewise.course.rules.language import LANGUAGE, page_faults, words
from tilewise.course.sentences import without_verb

ROOT = Path(__file__).resolve().parents[1]

DIALECT = (
    "Two loads are under way.", "It loads the tile in place of the row.", "The kernel is done sooner.",
    "It is four times as long.", "Tensor cores, or matrix units, multiply tiles.", "It takes 32 clocks.",
    "The copy unit loads it.", "The tiles are dealt out.", "Two consumers take turns.", "This was reckoned.",
    "Left untold, they drift.", "Half is fetched in vain.", "The values lie in memory.",
    "It loads 16 bytes a load.",
    "Launch a block a tile.", "Each has eight accumulators a thread.", "The array stands in shared memory.",
    "That is no reason.", "The warp asks for a sector.", "Why it is so is told below.",
    "The lecture says so.", "The copies are\nunder\nway.", "Launch four blocks an SM.",
    "A thread keeps 64 sums in registers.", "A warp brings a tile.", "It loads 32 numbers.",
    "A tile that is turned is slow.",
)  # fmt: skip
ENGLISH = (
    "The loads are in flight.", "The block gives a thread a row index.", "It is no sooner read than written.",
    "Each warp needs a tile.", "Half a warp waits.", "Use a row of a matrix as a tile.", "GPU clocks vary.",
    "This method stands for others.", "Both lines meet at the ridge point.", "A block loads a tile.",
    "Sort them from the right beside.", "Work is \\under way.", "`under way` is code.",
    "Threads share a tile.", "The scale brings it back to 1.",
    "Loads bring both kernels to the speed of a copy.",
    "It is the number of wavefronts a request needs.",
    "There are two.\n\nA warp is one.", "It takes 3 steps. A thread waits.",
)  # fmt: skip


def faults(source: str) -> list[str]:
    return [fault.message for fault in page_faults("docs/page.md", source)]


@pytest.mark.parametrize("sentence", DIALECT)
def test_a_sentence_of_the_dialect_is_a_fault(sentence):
    assert faults(sentence)


@pytest.mark.parametrize("sentence", ENGLISH)
def test_a_sentence_of_everyday_english_is_none(sentence):
    assert not faults(sentence)


def test_each_word_has_a_better_one_that_is_no_fault_itself():
    assert len(words()) > 40
    for _, better in words():
        assert better
        assert not [pattern.pattern for pattern, _ in words() if pattern.search(better)]


def test_a_fault_names_its_line_the_word_and_the_repair():
    (fault,) = page_faults("docs/page.md", "# Page\n\nOne.\nTwo loads are under\nway.\n")
    assert str(fault) == (
        'docs/page.md:4: "under way" is not what the field says. Write in flight (loads, copies), '
        "outstanding (requests); in prose, \\under way is the everyday word."
    )


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ('show(1, caption="Fast.", title="Loads under way")', 7),
        ('measure(\n    variants={"in turns": 1},\n)', 8),
        ("x = 1\n# loads are under way", 8),
        ('K = Kernel(r"""\n// a comment\n// loads under way\n""")', 9),
    ],
)
def test_strings_and_comments_of_code_are_held(project, body, line):
    lesson = project.lesson(f"# %%\n{body}\n", "part/one")
    found = list(LANGUAGE.faults(lesson))
    assert [fault.line for fault in found] == [line]


def test_a_recorded_cell_keeps_its_strings_for_they_are_in_the_key_of_its_record(project):
    lesson = project.lesson('# %% needs="gpu" record="times"\nprint("loads under way")\n', "part/one")
    assert not list(LANGUAGE.faults(lesson))


def test_a_line_that_a_text_record_rests_on_is_let_be(project):
    body = 'name = "two blocks a row"'
    assert list(LANGUAGE.faults(project.lesson(f"# %%\n{body}\n", "part/one")))
    assert not list(LANGUAGE.faults(project.lesson(f"# %%\n{body}  # as recorded\n", "part/two")))


@pytest.mark.parametrize(
    ("heading", "is_fault"),
    [
        ("What it should take", True),
        ("How blocks are scheduled", True),
        ("That a tile has arrived", True),
        ("How many blocks fit?", False),
        ("How to read the profile", False),
        ("Mbarriers: how a consumer knows that its tile has arrived", False),
        ("Whatever the size", False),
    ],
)
def test_a_heading_is_no_clause(project, heading, is_fault):
    lesson = project.lesson(f"# %% [markdown]\n# ## {heading}\n#\n# Text is here.\n", "part/one")
    assert bool(list(LANGUAGE.faults(lesson))) is is_fault


@pytest.mark.parametrize(
    "sentence",
    [
        "Back to the test kernel.",
        "Now the real thing.",
        "Five languages, one task, one GPU.",
        "First a barrier by itself.",
    ],
)
def test_a_sentence_without_a_verb_is_found(sentence):
    assert [start for start, _ in without_verb(f"It runs. {sentence}")] == [9]
    assert faults(f"It runs. {sentence}")
    assert not faults(f"It runs. \\{sentence}")
    assert not faults(f"- {sentence}")


@pytest.mark.parametrize(
    "sentence",
    [
        "Trace one thread by hand.", "Two warps overlap.", "The lanes read banks 0 and 4.",
        "Each warp loads sectors.",
        "That's half the time.", "Only 12 warps fit.", "Blocks synchronise once.",
        "Next, write kernels of your own: puzzles.",
        "So `x = y` in every lane.",
    ],
)  # fmt: skip
def test_a_sentence_with_a_verb_is_none(sentence):
    assert not faults(sentence)


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.stem)
def test_the_pages_of_docs_keep_the_rule(path):
    name = path.relative_to(ROOT).as_posix()
    assert list(map(str, page_faults(name, path.read_text(encoding="utf-8")))) == []


def test_every_metric_that_the_page_of_symptoms_shortens_is_listed_in_full():
    text = (ROOT / "docs" / "from-symptom-to-lesson.md").read_text(encoding="utf-8")
    body, listed = text.split("```text\n")
    names = set(re.findall(r"`((?:smsp|sm|l1tex|lts|dram|gpu|launch)__\w+|stalled_\w+)`", body))
    assert len(names) > 20
    assert [name for name in sorted(names) if name not in listed] == []
