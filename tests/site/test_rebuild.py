"""A rebuild after an edit gives the same site as a build from nothing, warnings included."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

import pytest
from sites import Built, Serving, code_of_tilewise, cold, edit

FIRST, SECOND, LAST = (f"lessons/part_1/lesson_{number:02}.py" for number in (1, 2, 4))
COLD_EVERY = 3
"""After how many edits a build from nothing is made to compare with; the last edit always is."""


class Editor:
    """Thirty edits of a project, drawn at random from one of each kind and repeats."""

    def __init__(self, project: Path, synthetic: ModuleType, seed: int) -> None:
        self.project = project
        self.synthetic = synthetic
        self.draw = random.Random(seed)
        self.number = 0
        self.names = [f"part_1/lesson_{number:02}" for number in (1, 2, 3, 4)]
        self.added = 0

    def kinds(self) -> list[Callable[[], None]]:
        """One of each kind in a random order; kinds that undo each other in their order."""
        kinds = [
            self.prose, self.code, self.module, self.record, self.docs_page, self.nav, self.term, self.broken,
            self.repaired, self.add, self.rename, self.remove, self.warning, self.title, self.syntax,
            self.repaired,
        ]  # fmt: skip
        return [
            *kinds,
            *(self.draw.choice([self.prose, self.code, self.docs_page, self.module]) for _ in range(14)),
        ]

    def prose(self) -> None:
        name = self.draw.choice(self.names)
        self._append(name, f"\n\n# %% [markdown]\n# Sentence {self._next()}.\n")

    def code(self) -> None:
        name = self.draw.choice(self.names)
        self._append(name, f"\n\n# %%\nprint('printed', {self._next()})\n")

    def module(self) -> None:
        path = self.project / "lessons" / "part_1" / "_scale.py"
        path.write_text(f'"""A number."""\n\nSCALE = {self._next()}\n', encoding="utf-8")

    def record(self) -> None:
        path = self.project / "lessons" / "part_1" / "numbers.txt"
        path.write_text(str(self._next()), encoding="utf-8")
        lesson = self.project / FIRST
        if "numbers.txt" not in lesson.read_text(encoding="utf-8"):
            code = "from pathlib import Path\nprint('read', Path('lessons/part_1/numbers.txt').read_text())"
            self._append("part_1/lesson_01", f"\n\n# %%\n{code}\n")

    def docs_page(self) -> None:
        path = self.project / "docs" / "index.md"
        path.write_text(path.read_text(encoding="utf-8") + f"\nParagraph {self._next()}.\n", encoding="utf-8")

    def nav(self) -> None:
        edit(self.project / "mkdocs.yml", "  - Lessons:", f"  - Lessons {self._next()}:")
        edit(self.project / "mkdocs.yml", f"Lessons {self.number}:", "Lessons:")
        edit(self.project / "mkdocs.yml", "  - index.md\n", f"  - Start {self._next()}: index.md\n")

    def term(self) -> None:
        edit(self.project / FIRST, 'definition "Quantity01', f'definition "Amount{self._next()} | Quantity01')

    def warning(self) -> None:
        path = self.project / "docs" / "index.md"
        path.write_text(path.read_text(encoding="utf-8") + "\n[gone](gone.md)\n", encoding="utf-8")

    def title(self) -> None:
        edit(self.project / SECOND, "# title: ", f"# title: Renamed {self._next()} ")

    def broken(self) -> None:
        self._append("part_1/lesson_02", "\n\n# %%\nraise ValueError('broken on purpose')\n")

    def syntax(self) -> None:
        self._append("part_1/lesson_02", "\n\n# %%\nthis is no Python\n")

    def repaired(self) -> None:
        path = self.project / SECOND
        text = path.read_text(encoding="utf-8")
        for wrong in ("raise ValueError('broken on purpose')", "this is no Python"):
            text = text.replace(wrong, "repaired = True")
        path.write_text(text, encoding="utf-8")

    def add(self) -> None:
        name = "part_1/added"
        self.synthetic.write_lesson(self.project, name, 40, self.names[-1], self.synthetic.SMALL)
        self.names.append(name)
        self._write_nav()

    def rename(self) -> None:
        (self.project / "lessons/part_1/added.py").rename(self.project / "lessons/part_1/moved.py")
        self.names[-1] = "part_1/moved"
        self._write_nav()

    def remove(self) -> None:
        (self.project / "lessons/part_1/moved.py").unlink()
        self.names.pop()
        self._write_nav()

    def _write_nav(self) -> None:
        self.synthetic.write_config(self.project, self.names)

    def _append(self, name: str, text: str) -> None:
        path = self.project / "lessons" / f"{name}.py"
        path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")

    def _next(self) -> int:
        self.number += 1
        return self.number


def differences(kept: Built, fresh: Built) -> list[str]:
    """The first line that differs in each file of two builds; files that only one of them has."""
    found = [f"{path}: only in one" for path in sorted(kept.files.keys() ^ fresh.files.keys())]
    for path in sorted(kept.files.keys() & fresh.files.keys()):
        if kept.files[path] != fresh.files[path]:
            pairs = zip_longest(kept.files[path].splitlines(), fresh.files[path].splitlines(), fillvalue=b"")
            number, (a, b) = next((at, pair) for at, pair in enumerate(pairs, start=1) if pair[0] != pair[1])
            found.append(f"{path}:{number}: kept {a[:200]!r}, fresh {b[:200]!r}")
    return found


def edited_meanwhile(code: dict[str, str]) -> str:
    """A hint for whoever worked on tilewise while its tests ran: one build had the old code, one the new."""
    now = code_of_tilewise()
    changed = sorted(path for path in code.keys() | now.keys() if code.get(path) != now.get(path))
    return f"; tilewise itself was edited while the test ran ({', '.join(changed)})" if changed else ""


@pytest.mark.parametrize("seed", [1])
def test_thirty_edits_leave_what_a_cold_build_makes(
    serving: Serving, project: Path, synthetic: ModuleType, tmp_path: Path, web_cache: Path, seed: int
) -> None:
    editor = Editor(project, synthetic, seed)
    code = code_of_tilewise()
    good = serving.build()
    assert not good.failure
    assert good.warnings == []
    edits = editor.kinds()
    assert len(edits) == 30
    for number, change in enumerate(edits, start=1):
        change()
        kept = serving.build()
        name = f"edit {number}, {change.__name__}"
        if kept.failure:
            assert change.__name__ in ("broken", "syntax"), f"{name}: {kept.warnings}"
            assert kept.files == good.files, f"{name}: the last good site did not stay"
            assert kept.warnings[0].startswith(f"ERROR {SECOND}:"), kept.warnings
            fresh = cold(project, tmp_path / f"cold_{number}", web_cache)
            assert fresh.failure
            assert fresh.warnings == kept.warnings, name
            continue
        assert change.__name__ not in ("broken", "syntax"), name
        good = kept
        if number % COLD_EVERY == 0 or number <= 16 or number == len(edits):
            fresh = cold(project, tmp_path / f"cold_{number}", web_cache)
            assert not fresh.failure
            assert differences(kept, fresh) == [], f"{name}{edited_meanwhile(code)}"
            assert kept.warnings == fresh.warnings, name


def test_a_build_without_a_change_makes_the_same_site(serving: Serving) -> None:
    first = serving.build()
    second = serving.build()
    assert first == second


def test_a_page_that_warned_warns_again(serving: Serving, project: Path) -> None:
    page = project / "docs" / "index.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[gone](gone.md)\n", encoding="utf-8")
    first = serving.build()
    assert any("gone.md" in warning for warning in first.warnings)
    assert serving.build().warnings == first.warnings
