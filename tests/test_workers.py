"""Processes that share the tests: what they take, what begins first, and what only one of them makes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.workers import APART, ORDER, made_once, rank, unit

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", APART)
def test_each_case_of_a_long_test_is_taken_alone_and_the_rest_of_its_file_together(name: str) -> None:
    file, _, test = name.partition("::")
    assert f"\ndef {test}(" in (ROOT / file).read_text(encoding="utf-8"), "is there under another name"
    assert unit(f"{name}[1]") == f"{name}[1]"
    assert unit(f"{file}::test_other[1]") == file


def test_whoever_builds_the_site_and_the_small_sites_begin_and_then_the_longest() -> None:
    assert all((ROOT / start.partition("::")[0]).exists() for start in ORDER)
    wanted = [
        "tests/browser/test_pages.py::a",
        "tests/site/test_live.py::a",
        f"{APART[0]}[1]",
        f"{APART[2]}[1]",
        "tests/browser/test_print.py::a",
        "tests/test_run.py::a",
    ]
    ranks = [rank(name) for name in wanted]
    assert ranks == sorted(set(ranks))


def _factory(folder: Path) -> Any:
    folder.mkdir(exist_ok=True)
    return SimpleNamespace(getbasetemp=lambda: folder)


def test_of_several_processes_one_makes_what_all_need(tmp_path: Path) -> None:
    made: list[Path] = []
    folders = {made_once(_factory(tmp_path / f"popen-gw{at}"), "site", made.append) for at in (0, 1, 0)}
    assert folders == {tmp_path / "site"}
    assert made == [tmp_path / "site"]
    assert made_once(_factory(tmp_path / "alone"), "site", made.append) == tmp_path / "alone" / "site"


def test_what_could_not_be_made_is_tried_again(tmp_path: Path) -> None:
    def fails(folder: Path) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        made_once(_factory(tmp_path / "popen-gw0"), "site", fails)
    made: list[Path] = []
    made_once(_factory(tmp_path / "popen-gw1"), "site", made.append)
    assert made == [tmp_path / "site"]
