"""Processes that share the tests: what they take, what begins first, and what only one of them makes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.workers import ORDER, SWEEPS, made_once, unit

ROOT = Path(__file__).resolve().parents[1]


def test_each_case_of_a_sweep_is_taken_alone_and_every_other_test_with_its_file() -> None:
    for start in (*SWEEPS, *ORDER):
        file, _, test = start.partition("::")
        assert (ROOT / file).exists(), "is there under another name"
        assert f"\ndef {test}" in (ROOT / file).read_text(encoding="utf-8") if test else True, start
    assert unit(f"{SWEEPS[0]}::test[1]") == f"{SWEEPS[0]}::test[1]"
    assert unit("tests/test_lessons.py::test_other[1]") == "tests/test_lessons.py"


def _factory(folder: Path) -> Any:
    folder.mkdir(exist_ok=True)
    return SimpleNamespace(getbasetemp=lambda: folder)


def test_of_several_processes_one_makes_what_all_need(tmp_path: Path) -> None:
    made: list[Path] = []
    folders = {made_once(_factory(tmp_path / f"popen-gw{at}"), "site", made.append) for at in (0, 1, 0)}
    assert folders == {tmp_path / "site"}
    assert made == [tmp_path / "site"]
    assert made_once(_factory(tmp_path / "alone"), "site", made.append) == tmp_path / "alone" / "site"
