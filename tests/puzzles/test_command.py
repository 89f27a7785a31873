"""``tilewise puzzle``: a file to edit that is never written over, hints in stages, and a verdict."""

from pathlib import Path

import pytest

from tilewise.__main__ import main
from tilewise.puzzles.catalogue import NAMES, named


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_list_names_every_puzzle_and_says_which_are_begun(folder, capsys):
    assert main(["puzzle"]) == 0
    listed = capsys.readouterr().out
    assert [name for name in NAMES if f"{name} " in listed] == list(NAMES)
    assert listed.count("not started") == len(NAMES)
    assert main(["puzzle", "start", "memory/tree"]) == 0
    capsys.readouterr()
    assert main(["puzzle"]) == 0
    listed = capsys.readouterr().out
    assert listed.count("not started") == len(NAMES) - 1
    assert "puzzles/memory/tree.cu" in listed


def test_a_file_is_begun_once_and_what_the_reader_wrote_is_kept(folder, capsys):
    assert main(["puzzle", "start", "kernels/guard"]) == 0
    file = folder / "puzzles/kernels/guard.cu"
    assert file.read_text() == named("kernels/guard").start
    assert "Created puzzles/kernels/guard.cu. Edit it, then check it" in capsys.readouterr().out
    file.write_text("my own work")
    assert main(["puzzle", "start", "kernels/guard"]) == 1
    assert file.read_text() == "my own work"
    assert "this file already exists, so it was left unchanged." in capsys.readouterr().err
    assert sorted(path.name for path in folder.rglob("*")) == ["guard.cu", "kernels", "puzzles"]


def test_an_answer_is_checked_until_it_is_right(folder, capsys):
    found = named("kernels/guard")
    assert main(["puzzle", "kernels/guard"]) == 1
    assert (
        "this file doesn't exist. Create it with `tilewise puzzle start kernels/guard`."
        in capsys.readouterr().err
    )
    assert main(["puzzle", "start", "kernels/guard"]) == 0
    assert main(["puzzle", "kernels/guard"]) == 1
    assert "guard.cu:17: the gaps are still empty." in capsys.readouterr().err
    file = folder / found.file
    file.write_text(file.read_text().split("extern")[0] + found.solution.replace("i < n", "i <= n"))
    assert main(["puzzle", "kernels/guard"]) == 1
    assert "puzzles/kernels/guard.cu:19: out of bounds: thread 232 of block 3" in capsys.readouterr().err
    file.write_text(found.solution)
    before = file.read_bytes()
    assert main(["puzzle", "kernels/guard"]) == 0
    out = capsys.readouterr().out
    assert "solved. Correct for all 5 sizes and within the budget." in out
    assert "Next: tilewise puzzle start kernels/mirror" in out
    assert file.read_bytes() == before
    moved = file.rename(folder / "elsewhere.cu")
    assert main(["puzzle", "kernels/guard", "--file", moved.name]) == 0
    assert "elsewhere.cu: solved." in capsys.readouterr().out


def test_hints_come_one_after_the_other(folder, capsys):
    assert main(["puzzle", "kernels/guard", "--hint"]) == 0
    first = capsys.readouterr().out
    assert first.startswith("Hint 1 of 3: ")
    assert "Hint 2" not in first
    assert "Next hint: tilewise puzzle kernels/guard --hint 2" in first
    assert main(["puzzle", "kernels/guard", "--hint", "3"]) == 0
    assert [line[:6] for line in capsys.readouterr().out.splitlines() if line.startswith("Hint")] == [
        "Hint 1",
        "Hint 2",
        "Hint 3",
    ]
    assert main(["puzzle", "kernels/guard", "--hint", "4"]) == 1
    assert "kernels/guard has no hint 4. Choose 1 to 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["start"], ["kernels/map", "kernels/guard"], ["start", "kernels/map", "--hint"], ["--hint"]],
)
def test_more_or_less_than_one_puzzle_is_refused(words, folder, capsys):
    assert main(["puzzle", *words]) == 1
    assert "the command takes one puzzle at a time. Name one" in capsys.readouterr().err
    assert not list(folder.iterdir())
