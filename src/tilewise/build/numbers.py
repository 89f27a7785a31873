"""Numbers in prose: ``{{ path | format }}`` is looked up and formatted, or rejected with the nearest names.

In: the values that a lesson published, the records that its prose names, and the device table. Out: text for
each quotation. A path is a dotted look-up and nothing is evaluated, so editing prose never executes a lesson.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewise.course.lesson import Lesson
from tilewise.course.prose import Mention
from tilewise.errors import LessonError, nearest
from tilewise.measurements.archive import Archive, wanted_machine
from tilewise.measurements.provenance_links import provenance_id, spread_text
from tilewise.measurements.slugs import name_slug
from tilewise.models import devices
from tilewise.outputs.table import number

DEVICES = "devices"
"""The first name of a path into the device table: ``devices.h100_sxm.memory_gb_per_s``."""

COMPUTED = "computed on this page"
"""The source of a number that a cell published."""

_ENDLESS = re.compile(r"\d{3}")
"""A width or precision of three digits would fill the page."""
_NAME = re.compile(r"[\w-]+")


@dataclass(frozen=True)
class Quoted:
    """A number as prose shows it."""

    text: str
    """The formatted value."""
    path: str
    """Its dotted path."""
    source: str
    """Where it comes from, one sentence for the tooltip."""
    origin: str = ""
    """The id of a recorded number's provenance list; empty for other numbers."""
    spread: str = ""
    """The spread of a recorded time; empty if there is none."""


class Records:
    """The records of a project as nested values, reread only when a file changes.

    Args:
        root: the project's root; records are in its ``lessons/measurements``.
    """

    def __init__(self, root: Path) -> None:
        self._lessons = root / "lessons"
        self._known: dict[tuple[str, str], tuple[tuple[str, int, int], Mapping[str, Any]]] = {}

    def named_by(
        self, lesson: Lesson, published: Mapping[str, Any], shown: Mapping[str, str] | None = None
    ) -> dict[str, Mapping[str, Any]]:
        """The records that a lesson's prose names and its cells did not publish.

        Args:
            lesson: the lesson.
            published: the values that its cells published.
            shown: by experiment, the device whose record the lesson's table shows.

        Returns:
            By experiment, values as nested by ``tilewise.measurements.archive``.

        Raises:
            LessonError: a record is invalid.
        """
        devices = shown or {}
        records = {name: self._values(name, devices.get(name)) for name in _experiments(lesson, published)}
        return {name: values for name, values in records.items() if values is not None}

    def by_machine(
        self, lesson: Lesson, published: Mapping[str, Any]
    ) -> dict[str, dict[str, Mapping[str, Any]]]:
        """By further machine, its records of the experiments that a lesson's prose names.

        Empty if the environment selects a machine.
        """
        archive = Archive(self._lessons)
        records: dict[str, dict[str, Mapping[str, Any]]] = {}
        for machine in () if wanted_machine() else archive.devices[1:]:
            for name in _experiments(lesson, published):
                if archive.path(name, machine).is_file() and (values := self._values(name, machine)):
                    records.setdefault(machine, {})[name] = values
        return records

    def _values(self, name: str, device: str | None) -> Mapping[str, Any] | None:
        archive = Archive(self._lessons)
        path = archive.find(name, device)
        if path is None:
            return None
        stat = path.stat()
        stamp = (str(path), stat.st_mtime_ns, stat.st_size)
        known = self._known.get((name, device or ""))
        if known is None or known[0] != stamp:
            known = (stamp, archive.lookup(name, device) or {})
            self._known[name, device or ""] = known
        return known[1]


def _experiments(lesson: Lesson, published: Mapping[str, Any]) -> list[str]:
    """The first names of paths in prose that may be experiments."""
    names = {_split(mention)[0].split(".")[0] for mention in lesson.prose.numbers}
    return [name for name in sorted(names - {DEVICES} - published.keys()) if _NAME.fullmatch(name)]


def quote(
    mention: Mention, lesson: Lesson, published: Mapping[str, Any], records: Mapping[str, Mapping[str, Any]]
) -> Quoted:
    """The text of one quotation.

    Raises:
        LessonError: the path is unknown or a group of values, or the format does not fit.
    """
    path, form = _split(mention)
    first = path.split(".")[0]
    values: Mapping[str, Any]
    if first in published:
        values, source = published, COMPUTED
    elif first in records:
        values, source = records, _origin(records[first])
    else:
        values, source = {DEVICES: _device_table()}, "stated by the maker"
    value: Any = values
    around: Mapping[str, Any] = {}
    for name in path.split("."):
        around = value if isinstance(value, Mapping) else {}
        value = around.get(name)
        if value is None:
            raise _unknown(mention, path, lesson, published, records)
    if isinstance(value, Mapping):
        names = nearest("", value)
        raise LessonError(
            lesson.path, mention.place.line, f"{{{{ {path} }}}} is a group of values, not one.", names
        )
    text = _formatted(value, form, mention, lesson)
    provenance = _provenance(first, records[first], around) if values is records else ("", "")
    return Quoted(text, path, source, *provenance)


def _provenance(experiment: str, record: Mapping[str, Any], around: Mapping[str, Any]) -> tuple[str, str]:
    """The id of a record's provenance list, and the spread of the time next to a value."""
    if not record.get("device"):
        return "", ""
    spread = ""
    if {"p20", "median", "p80"} <= around.keys():
        spread = spread_text(float(around["p20"]), float(around["median"]), float(around["p80"]))
    return provenance_id(experiment, str(record["device"])), spread


def _split(mention: Mention) -> tuple[str, str]:
    path, _, form = mention.text.partition("|")
    return path.strip(), form.strip()


def _formatted(value: Any, form: str, mention: Mention, lesson: Lesson) -> str:
    if not form:
        return value if isinstance(value, str) else number(value)
    if form == "us" and isinstance(value, int | float):
        return _time(float(value))
    try:
        if _ENDLESS.search(form):
            raise ValueError
        return format(value, form)
    except (ValueError, TypeError, OverflowError):
        raise LessonError(
            lesson.path,
            mention.place.line,
            f'{{{{ {mention.text} }}}}: the format "{form}" does not fit {value!r}.',
            "Formats are Python's, e.g. ,.1f for 1,234.5 or .0% for 50%, or us for a time in microseconds.",
        ) from None


def _time(time_us: float) -> str:
    """A time with its unit, e.g. ``12.3 µs``."""
    for unit, scale in (("s", 1e6), ("ms", 1e3), ("µs", 1.0)):
        if abs(time_us) >= scale:
            return f"{time_us / scale:.3g} {unit}"
    return f"{time_us * 1e3:.3g} ns"


def _origin(record: Mapping[str, Any]) -> str:
    where = ", ".join(str(record[name]) for name in ("device", "date") if record.get(name))
    return f"recorded on {where}" if where else "recorded"


def _unknown(
    mention: Mention,
    path: str,
    lesson: Lesson,
    published: Mapping[str, Any],
    records: Mapping[str, Mapping[str, Any]],
) -> LessonError:
    first, *rest = path.split(".")
    if first in published or first in records or (first == DEVICES and rest):
        within = {DEVICES: _device_table(), **records, **published}
        repair = nearest(path, _paths({first: within[first]}))
    else:
        repair = nearest(path, [*_paths(published), *records, DEVICES])
        repair = repair or "publish() it in a cell, or record the experiment of this name."
    return LessonError(lesson.path, mention.place.line, f"{{{{ {path} }}}} is not known.", repair)


def _paths(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _paths(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


@lru_cache(maxsize=1)
def _device_table() -> Mapping[str, Any]:
    table: dict[str, Any] = {}
    for entry in devices.DEVICES:
        stated = {field.name: getattr(entry, field.name) for field in fields(entry)}
        plain = {name: value for name, value in stated.items() if isinstance(value, int | float | str)}
        table[name_slug(entry.name)] = {**plain, "peak_tflop_per_s": dict(entry.peak_tflop_per_s)}
    return table
