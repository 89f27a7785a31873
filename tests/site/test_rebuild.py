"""After any edit, what is served is what a server that starts from nothing shows, messages included."""

from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import synthetic
from sites import Shown, cold, edit

FIRST, SECOND, LAST = (f"lessons/part_1/lesson_{number:02}.py" for number in (1, 2, 4))
BROKEN = ("broken", "syntax")
COLD_AFTER = ("term", "broken", "rename")
"""Edits after which a server starts from nothing to compare with; after the last one always."""


class Editor:
    """Edits of a project, one of each kind."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.number = 0
        self.names = [f"part_1/lesson_{number:02}" for number in (1, 2, 3, 4)]

    def kinds(self) -> list[Callable[[], None]]:
        """One of each kind; kinds that undo each other in their order."""
        return [
            self.prose, self.code, self.module, self.record, self.docs_page, self.nav, self.term, self.broken,
            self.repaired, self.add, self.rename, self.remove, self.warning, self.title, self.syntax,
            self.repaired,
        ]  # fmt: skip

    def prose(self) -> None:
        self._append(self.names[1], f"\n\n# %% [markdown]\n# Sentence {self._next()}.\n")

    def code(self) -> None:
        self._append(self.names[2], f"\n\n# %%\nprint('printed', {self._next()})\n")

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
        synthetic.write_lesson(self.project, name, 40, self.names[-1])
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
        synthetic.write_config(self.project, self.names)

    def _append(self, name: str, text: str) -> None:
        path = self.project / "lessons" / f"{name}.py"
        path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")

    def _next(self) -> int:
        self.number += 1
        return self.number


def differences(kept: Shown, fresh: Shown) -> list[str]:
    """The first line that differs in each file; files that only one of them has."""
    found = [f"{path}: only in one" for path in sorted(kept.files.keys() ^ fresh.files.keys())]
    for path in sorted(kept.files.keys() & fresh.files.keys()):
        if kept.files[path] != fresh.files[path]:
            pairs = zip_longest(kept.files[path].splitlines(), fresh.files[path].splitlines(), fillvalue=b"")
            number, (a, b) = next((at, pair) for at, pair in enumerate(pairs, start=1) if pair[0] != pair[1])
            found.append(f"{path}:{number}: kept {a[:200]!r}, fresh {b[:200]!r}")
    return found


def test_edits_leave_what_a_server_that_starts_from_nothing_shows(serving, project, tmp_path, web_cache):
    editor = Editor(project)
    first = serving.show()
    assert (first.problems, first.warnings, first.logged) == ({}, [], [])
    edits = editor.kinds()
    for number, change in enumerate(edits, start=1):
        change()
        kept = serving.show()
        name = f"edit {number}, {change.__name__}"
        assert bool(kept.problems) == (change.__name__ in BROKEN), f"{name}: {kept.problems}"
        if change.__name__ not in COLD_AFTER and number < len(edits):
            continue
        fresh = cold(project, tmp_path / f"cold_{number}", web_cache)
        assert kept.problems == fresh.problems, name
        assert kept.warnings == fresh.warnings, name
        page = f"{SECOND.removesuffix('.py')}/index.html"
        if change.__name__ in BROKEN:  # outputs of the last good run are kept, which a fresh server lacks
            kept.files.pop(page), fresh.files.pop(page)
            kept.files.pop("search/search_index.json"), fresh.files.pop("search/search_index.json")
        assert differences(kept, fresh) == [], name


def test_without_a_change_everything_stays_as_it_is(serving):
    assert serving.show() == serving.show()
