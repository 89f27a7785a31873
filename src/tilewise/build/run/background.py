"""Runs a course's lessons in the background: open lessons first, the rest in reading order.

In: the current lessons, and which are open. Out: each lesson's outputs so far, at any time; until it has run
again, those of its last run. A callback is notified of every change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tilewise.build.run.job import CellResult
from tilewise.build.run.process import Stopped
from tilewise.build.run.runner import WARM_LESSONS, LessonRun, Runner
from tilewise.course.lesson import Lesson
from tilewise.errors import LessonError

Status = Literal["unknown", "waiting", "running", "done", "failed"]


@dataclass
class _Entry:
    lesson: Lesson
    status: Status = "unknown"
    error: LessonError | None = None
    cells: dict[int, CellResult] = field(default_factory=dict)
    stop: threading.Event | None = None
    run: LessonRun | None = None


def _same_code(old: Lesson, new: Lesson) -> bool:
    cells = ([(cell.source, cell.tab, cell.needs, cell.record) for cell in each.code] for each in (old, new))
    return next(cells) == next(cells)


def _has_read(changed: Collection[Path] | None, entry: _Entry) -> bool:
    """Whether a lesson's last run read one of these files."""
    if entry.status != "done" or entry.run is None:
        return False
    return changed is None or not set(entry.run.inputs).isdisjoint(changed)


class BackgroundRuns:
    """Threads that run lessons."""

    def __init__(self, runner: Runner, at_once: int) -> None:
        self._runner = runner
        self._changed: Callable[[], None] = lambda: None
        self._entries: dict[str, _Entry] = {}
        self._opened: list[str] = []
        self._news = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"lessons-{number}", daemon=True)
            for number in range(at_once)
        ]
        for thread in self._threads:
            thread.start()

    def when_changed(self, tell: Callable[[], None]) -> None:
        """Set the callback for changes of a lesson; it is called from any thread."""
        self._changed = tell

    def update(self, lessons: Sequence[Lesson], changed: Collection[Path] | None = None) -> None:
        """Replace the lessons; those that depend on a changed file are run again.

        Args:
            lessons: all lessons, in reading order.
            changed: the files that may have changed, and their folders; None for any.
        """
        with self._news:
            known, self._entries = self._entries, {}
            for lesson in lessons:
                entry = known.pop(lesson.id, None)
                if entry is not None and entry.status == "running" and _same_code(entry.lesson, lesson):
                    entry.lesson = lesson  # its prose was edited
                elif entry is None or entry.lesson is not lesson:
                    if entry is not None and entry.stop is not None:
                        entry.stop.set()
                    entry = _Entry(lesson)
                elif entry.status == "failed" or _has_read(changed, entry):
                    entry.status = "unknown"
                self._entries[lesson.id] = entry
            for entry in known.values():
                if entry.stop is not None:
                    entry.stop.set()
            self._news.notify_all()

    def open(self, lesson_id: str) -> None:
        """Give a lesson that a reader opened priority, and take snapshots of its next run."""
        with self._news:
            if self._opened[:1] != [lesson_id]:
                self._opened = [lesson_id, *(name for name in self._opened if name != lesson_id)]
                self._news.notify_all()

    def run(self, lesson_id: str) -> LessonRun:
        """A lesson's run, complete or partial.

        Raises:
            LessonError: a record that its prose names is invalid.
        """
        with self._news:
            entry = self._entries[lesson_id]
        if entry.status == "unknown":
            self._look(entry)
        with self._news:
            status, cells, run = entry.status, dict(entry.cells), entry.run
        if run is None or status != "done":
            run = self._runner.so_far(entry.lesson, cells)
        return replace(run, stopped=True, digest=f"{run.digest} stopped") if status == "failed" else run

    def is_running(self, lesson_id: str) -> bool:
        """Whether a lesson is running or about to run."""
        with self._news:
            entry = self._entries.get(lesson_id)
            return entry is not None and entry.status in ("unknown", "waiting", "running")

    def progress(self) -> tuple[int, int, tuple[str, ...]]:
        """The number of lessons that ended, the number of all lessons, and which are running."""
        with self._news:
            entries = list(self._entries.values())
        ended = sum(entry.status in ("done", "failed") for entry in entries)
        return ended, len(entries), tuple(entry.lesson.id for entry in entries if entry.status == "running")

    def failures(self) -> dict[str, LessonError]:
        """The lessons that failed, by id."""
        with self._news:
            return {name: entry.error for name, entry in self._entries.items() if entry.error is not None}

    def runs(self) -> Mapping[str, LessonRun]:
        """The runs of the lessons that are done, by id."""
        with self._news:
            return {name: entry.run for name, entry in self._entries.items() if entry.run is not None}

    def close(self) -> None:
        """Stop every run and end the threads."""
        with self._news:
            self._closed = True
            for entry in self._entries.values():
                if entry.stop is not None:
                    entry.stop.set()
            self._news.notify_all()
        for thread in self._threads:
            thread.join(timeout=2)

    def _look(self, entry: _Entry) -> None:
        """Check, without executing anything, whether a lesson's outputs are cached."""
        run, error = None, None
        try:
            run = self._runner.kept(entry.lesson)
        except LessonError as fault:
            error = fault
        with self._news:
            if entry.status != "unknown":
                return
            is_new = (run.digest if run else "") != (entry.run.digest if entry.run else "") or error
            entry.run, entry.error = run or entry.run, error or (None if run else entry.error)
            entry.status = "failed" if error else "done" if run else "waiting"
            self._news.notify_all()
        if is_new:
            self._changed()

    def _work(self) -> None:
        while True:
            with self._news:
                while (entry := self._next()) is None and not self._closed:
                    self._news.wait()
                if entry is None or self._closed:
                    return
                status = entry.status
                if status == "waiting":
                    entry.status, entry.cells, entry.stop = "running", {}, threading.Event()
            if status == "unknown":
                self._look(entry)
            else:
                self._run(entry)

    def _next(self) -> _Entry | None:
        """The next entry to process: opened lessons first, then reading order."""
        order = {name: place for place, name in enumerate(self._opened)}
        entries = sorted(self._entries.values(), key=lambda entry: order.get(entry.lesson.id, len(order)))
        return next((entry for entry in entries if entry.status in ("unknown", "waiting")), None)

    def _run(self, entry: _Entry) -> None:
        def listen(cells: Mapping[int, CellResult]) -> None:
            with self._news:
                entry.cells = dict(cells)
                is_open = entry.lesson.id in self._opened
            if is_open:
                self._changed()

        run, error, lesson = None, None, entry.lesson
        try:
            run = self._runner.run(lesson, listen, entry.stop, lesson.id in self._opened[:WARM_LESSONS])
        except LessonError as fault:
            error = fault
        except Stopped:
            return
        except Exception as fault:  # a bug of ours must not end the thread silently
            error = LessonError(entry.lesson.path, 0, f"{type(fault).__name__}: {fault}")
        with self._news:
            entry.stop = None
            entry.run, entry.error = run or entry.run, error
            entry.status = "failed" if run is None else "done" if entry.lesson is lesson else "unknown"
            self._news.notify_all()
        self._changed()
