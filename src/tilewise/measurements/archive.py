"""The archive: every record under ``lessons/measurements``, found by device and experiment.

In: the lessons' folder. Out: records, text records, and a nested dict of plain values for look-ups from
prose. It reads files only.

Look-ups are spelt ``experiment.variant.case.value`` with the spellings of ``slugs``; where an experiment has
one case its values stand beside the case too (``experiment.variant.median``). Values of a timed row:
``median``, ``p20``, ``p80`` (microseconds), ``gb_per_s``, ``tflop_per_s``, ``bound`` (microseconds),
``share_of_bound``, ``times_first`` (how many times as fast as the first variant of the case; left out where
the spread is larger than the difference), ``share_of_library`` (the best library's time over this one's),
``bytes``, ``flop``. Of a row with counters: ``counters.<name with underscores>``. Of the experiment:
``device``, ``date``, ``driver``, ``rounds`` (how many), ``sm_clock_mhz``, ``sm_count``,
``ceilings.memory_gb_per_s``, ...
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from tilewise.gpu.device import device_name, gpu_here
from tilewise.measurements.current import text_holds
from tilewise.measurements.origin import Recorded
from tilewise.measurements.record import Record, Row, TextRecord, read_record, read_text_record
from tilewise.measurements.rounds import apart
from tilewise.measurements.slugs import case_slug, device_slug, name_slug
from tilewise.models.devices import device
from tilewise.models.roofline import Bound, Ceilings, bound, stated

FOLDER = "measurements"
"""Where records live, under the lessons' folder."""
MACHINES = ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
"""The machines whose records the course shows, by their drivers' names, in this order; others follow."""
TEXT_ENDING = ".txt.json"
"""How the file name of a text record ends."""


def wanted_machine() -> str:
    """The folder of the machine whose records the environment asks for; empty where it asks for none."""
    return device_slug(os.environ.get("TILEWISE_RECORDED_ON", ""))


def lesson_root(file: str | Path | None = None) -> Path:
    """The folder ``lessons`` that a lesson's file lies in.

    Args:
        file: the lesson's file; where it is unknown, the current folder decides.

    Returns:
        ``TILEWISE_LESSONS`` where that is set, else the nearest folder above the file that is called
        ``lessons`` or holds ``measurements``, else ``lessons`` in the current folder.
    """
    if named := os.environ.get("TILEWISE_LESSONS"):
        return Path(named)
    if file is not None:
        for parent in Path(file).absolute().parents:
            if parent.name == "lessons" or (parent / FOLDER).is_dir():
                return parent
    return Path.cwd() / "lessons"


def lesson_id(file: str | Path, root: Path) -> str:
    """A lesson's id from its file: the path under the lessons' folder without ``.py``."""
    path = Path(file).absolute()
    try:
        return path.relative_to(root.absolute()).with_suffix("").as_posix()
    except ValueError:
        return path.stem


def ceilings_of(provenance: Mapping[str, Any]) -> Ceilings | None:
    """The ceilings of a record's device; None for a record without probes.

    Memory and arithmetic have the peaks of the data sheet, which no row can beat; probes only reach what they
    reach. A device that the table does not know has what its probes reached. The launch is always probed.
    """
    kept = provenance.get("ceilings") or {}
    if "memory_gb_per_s" not in kept:
        return None
    known = device(provenance.get("device", ""))
    peaks = stated(known) if known else Ceilings(kept["memory_gb_per_s"], dict(kept.get("tflop_per_s", {})))
    return replace(peaks, launch_us=kept.get("launch_us", 0.0), probes=dict(kept.get("probes", {})))


def bound_of(row: Row, record: Record) -> Bound | None:
    """The least time for a row's work on its record's device; None where the lesson gave no work."""
    ceilings = ceilings_of(record.provenance)
    if ceilings is None or (row.bytes is None and row.flop is None):
        return None
    return bound(ceilings, bytes_moved=row.bytes or 0, flop=row.flop or 0, arithmetic=record.arithmetic)


@dataclass(frozen=True)
class Archive:
    """The records of one project."""

    root: Path

    @property
    def folder(self) -> Path:
        """Where the records lie."""
        return self.root / FOLDER

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """The folders of devices, in the order of ``MACHINES``, the others after those by name."""
        order = [device_slug(name) for name in MACHINES]
        found = [name for name in _listed(self.folder) if (self.folder / name).is_dir()]
        return (*(name for name in order if name in found), *(name for name in found if name not in order))

    @property
    def home(self) -> str:
        """The folder of the device that tables show where nobody wants another: the first of ``devices``."""
        return self.devices[0] if self.devices else device_slug(MACHINES[0])

    @property
    def wanted(self) -> str:
        """The folder of the device that is wanted.

        ``TILEWISE_RECORDED_ON``, else that of the GPU on which kernels run here, else ``home``.
        """
        return wanted_machine() or self._here or self.home

    @cached_property
    def _here(self) -> str:
        """The folder of the GPU on which kernels run here; empty without one, or without records of it."""
        name = device_slug(device_name()) if gpu_here() else ""
        return name if name in self.devices else ""

    def _order(self, device: str | None) -> dict[str, None]:
        """The folders to look in, the wanted one first."""
        return dict.fromkeys([device_slug(device) if device else self.wanted, *self.devices])

    def path(self, experiment: str, device: str) -> Path:
        """Where an experiment's record on a device, given by its name or its folder's, lies or would lie."""
        return self.folder / device_slug(device) / f"{experiment}.json"

    def text_path(self, lesson: str, name: str, device: str) -> Path:
        """Where a text record lies or would lie."""
        return self.folder / device_slug(device) / f"{lesson.replace('/', '.')}.{name}{TEXT_ENDING}"

    def shown(self, path: Path) -> str:
        """How messages name a file: from the folder above the lessons' folder."""
        try:
            return path.absolute().relative_to(self.root.absolute().parent).as_posix()
        except ValueError:
            return path.name

    def find(self, experiment: str, device: str | None = None) -> Path | None:
        """The first record of an experiment, whether it is current or not.

        Args:
            experiment: its name.
            device: the device wanted; else ``TILEWISE_RECORDED_ON``, else the first that has it.
        """
        return next(self._found(self.path(experiment, name) for name in self._order(device)), None)

    def _found(self, paths: Iterable[Path]) -> Iterator[Path]:
        return (path for path in paths if path.name in _listed(path.parent))

    def on_each(self, experiment: str, device: str | None = None) -> Iterator[Record]:
        """An experiment's records, in the order of the devices, the wanted one first as in ``find``.

        Raises:
            RecordError: a file cannot be believed.
        """
        for path in self._found(self.path(experiment, name) for name in self._order(device)):
            yield read_record(path, self.shown(path))

    def record(self, experiment: str, device: str | None = None) -> Record | None:
        """The first of ``on_each``; None where there is none."""
        return next(self.on_each(experiment, device), None)

    def records(self, device: str | None = None) -> Iterator[Record]:
        """Every experiment's record, by device and name.

        Args:
            device: the one device wanted, by its name or its folder's; every device where not given.

        Raises:
            RecordError: a file cannot be believed.
        """
        for name in self.devices if device is None else (device_slug(device),):
            for path in sorted((self.folder / name).glob("*.json")):
                if not path.name.endswith(TEXT_ENDING):
                    stat = path.stat()
                    yield _kept(path, self.shown(path), stat.st_mtime_ns, stat.st_size)

    def text_record(
        self,
        lesson: str,
        name: str,
        cell_source: str | None = None,
        device: str | None = None,
        before: Iterable[str] = (),
    ) -> TextRecord | None:
        """What a cell printed on a GPU: the first current one, in the order of ``find``, else the first one.

        Args:
            lesson: the lesson's id.
            name: the cell's ``record="..."``.
            cell_source: the cell; None, for who only reads what it printed, judges nothing.
            device: the device wanted, as in ``find``.
            before: the code cells before it, where it may find what it uses.

        Returns:
            The record, ``stale`` where the cell, or a definition it uses, has changed on every device since;
            None where there is none.

        Raises:
            RecordError: the file cannot be believed.
        """
        first = None
        for path in self._found(self.text_path(lesson, name, folder) for folder in self._order(device)):
            found = replace(read_text_record(path, self.shown(path)), path=self.shown(path))
            if cell_source is None or text_holds(found, cell_source, tuple(before)):
                return found
            first = first or replace(found, stale=True)
        return first

    def lookup(self, experiment: str, device: str | None = None) -> dict[str, Any] | None:
        """An experiment's values as nested dicts of plain values; None where it has no record.

        Raises:
            RecordError: the file cannot be believed.
        """
        record = self.record(experiment, device)
        return values_of(record) if record else None


@lru_cache(maxsize=1024)
def _kept(path: Path, shown: str, changed_ns: int, size: int) -> Record:
    """A record, read again only when its file has changed: a site that is served asks for all of them."""
    return read_record(path, shown)


def _listed(folder: Path) -> list[str]:
    """The names in a folder, by name; none where it is missing.

    A folder that is listed counts as read, so whoever watches what was read learns of a record that appears.
    """
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - pathlib would say the same with an object a file
    except (FileNotFoundError, NotADirectoryError):
        return []


def values_of(record: Record) -> dict[str, Any]:
    """A record as nested dicts of plain values, spelt as the module's docstring says."""
    kept = record.provenance
    values: dict[str, Any] = {name: kept[name] for name in kept if name not in ("notes", "rounds")}
    values["rounds"] = len(kept.get("rounds") or (1,))
    timed = [row for row in record.rows if row.median is not None]
    for row in record.rows:
        of_variant = values.setdefault(name_slug(row.variant), {})
        of_case = of_variant.setdefault(case_slug(row.case), {})
        of_case.update(_values_of_row(row, record, timed))
    if len({case_slug(row.case) for row in timed}) == 1:
        for row in timed:
            of_variant = values[name_slug(row.variant)]
            values[name_slug(row.variant)] = of_variant[case_slug(row.case)] | of_variant
    return values


def _values_of_row(row: Row, record: Record, timed: list[Row]) -> dict[str, Any]:
    values: dict[str, Any] = {"bytes": row.bytes, "flop": row.flop, **row.case}
    if row.counters:
        values["counters"] = {re.sub(r"\W+", "_", name): entry for name, entry in row.counters.items()}
    if row.median is not None:
        values.update({"median": row.median, "p20": row.p20, "p80": row.p80})
        values.update(rates_of(row, record))
        peers = [other for other in timed if other.case == row.case]
        first = next((other for other in peers if other.role == "variant"), None)
        libraries = [other.median for other in peers if other.role == "library" and other.median is not None]
        if first is not None and first.median and row.median and (first == row or apart(first, row)):
            values["times_first"] = first.median / row.median
        if libraries and row.median > 0:
            values["share_of_library"] = min(libraries) / row.median
    return {name: entry for name, entry in values.items() if entry is not None}


def rates_of(row: Row, record: Record) -> dict[str, float]:
    """What follows from a row's median: GB/s, TFLOP/s, the bound in microseconds, the share reached."""
    rates: dict[str, float] = {}
    if row.median:
        if row.bytes:
            rates["gb_per_s"] = row.bytes / (row.median * 1e-6) / 1e9
        if row.flop:
            rates["tflop_per_s"] = row.flop / (row.median * 1e-6) / 1e12
        least = bound_of(row, record)
        if least is not None and least.time_us > 0:
            rates["bound"] = least.time_us
            rates["share_of_bound"] = least.time_us / row.median
    return rates


def text_record(lesson: str, name: str, device: str | None = None) -> TextRecord | None:
    """What a cell printed on a GPU, by the archive of the lesson that runs; as ``Archive.text_record``."""
    return Archive(lesson_root()).text_record(lesson, name, device=device)


def lookup(experiment: str, device: str | None = None) -> dict[str, Any] | None:
    """``Archive.lookup`` by the archive of the lesson that runs, for its charts.

    Its numbers know their experiment. They show no provenance in a table: the list of it is on another page.
    """
    values = Archive(lesson_root()).lookup(experiment, device)
    return None if values is None else _located(values, experiment)


def _located(values: Mapping[str, Any], experiment: str) -> dict[str, Any]:
    """Values whose fractional numbers know their experiment."""
    work = tuple(done for name in ("bytes", "flop") if (done := values.get(name)))
    found: dict[str, Any] = {}
    for name, entry in values.items():
        if isinstance(entry, Mapping):
            found[name] = _located(entry, experiment)
        elif isinstance(entry, float):
            own = work if name == "median" else ()
            found[name] = Recorded(entry, None, "", "measured", experiment, own)
        else:
            found[name] = entry
    return found
