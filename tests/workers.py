"""How two or more pytest processes share the tests, `pytest -n 2`; a run without `-n` knows nothing of it.

In: the names of tests. Out: what one process does in a row, what begins first, and what is made once.
"""

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SWEEPS = (
    "tests/simulator/trust/test_lesson_bugs.py",
    "tests/test_lessons.py::test_agree_turns_down_a_wrong_line",
    "tests/browser/test_every_page.py",
)
"""Tests whose cases any process may take: each is long, and needs little that the rest of its file made."""
ORDER = ("tests/browser/test_pages.py", "tests/site", *SWEEPS[:2], "tests/simulator", "tests/browser")
"""What begins first. One process builds the whole site; the others have the small sites meanwhile, and what
is long and needs no site. Short files come last, so that no process has much left when the others end."""


def unit(name: str) -> str:
    """What a test is run together with: the rest of its file, whose fixtures are then made once."""
    return name if name.startswith(SWEEPS) else name.partition("::")[0]


def rank(name: str) -> int:
    """When a test begins, among the others."""
    return next((at for at, start in enumerate(ORDER) if name.startswith(start)), len(ORDER))


def scheduler(config: pytest.Config, log: Any) -> Any:
    """xdist's scheduler for whole files, with our units and our order."""
    from xdist.scheduler import LoadScopeScheduling

    class Units(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

    config.option.loadscopereorder = False
    return Units(config, log)


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that ``make`` fills for all processes of a run: the first fills it, others wait for that."""
    base = factory.getbasetemp()
    if base.name.startswith("popen-gw"):  # a process of several has a folder in the run's
        base = base.parent
    folder, done = base / name, base / f"{name}.done"
    with (base / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not done.exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            done.touch()
    return folder
