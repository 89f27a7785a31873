"""The archive: every record under ``lessons/measurements``, by device and experiment.

In: the lessons' folder. Out: records, text records, and nested dicts of plain values for look-ups from
prose. It only reads files.

Look-ups are spelt ``experiment.variant.case.value`` with the spellings of ``slugs``; if an experiment has one
case, the case may be left out (``experiment.variant.median``). Values of a timed row:
``median``, ``p20``, ``p80`` (microseconds), ``gb_per_s``, ``tflop_per_s``, ``bound`` (microseconds),
``share_of_bound``, ``times_first`` (the speedup over the first variant of the case; left out if the spread
is larger than the difference), ``share_of_library`` (the best library's time over this one's), ``bytes``,
``flop``. Values of a row with counters: ``counters.<name with underscores>``. Values of the experiment:
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
"""The folder of records, in the lessons' folder."""
MACHINES = ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
"""The machines whose records the course shows first, in order, as their drivers name them."""
TEXT_ENDING = ".txt.json"
"""The ending of a text record's file name."""


def wanted_machine() -> str:
    """The folder of the machine that the environment selects; empty if it selects none."""
    return device_slug(os.environ.get("TILEWISE_RECORDED_ON", ""))


def lesson_root(file: str | Path | None = None) -> Path:
    """The ``lessons`` folder that contains a lesson's file.

    Args:
        file: the lesson's file; without it, the current folder decides.

    Returns:
        ``TILEWISE_LESSONS`` if set, else the nearest folder above the file that is called ``lessons`` or
        contains ``measurements``, else ``lessons`` in the current folder.
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

    Memory and arithmetic have the peaks of the data sheet, which no row can beat, unlike what probes reach.
    For a device that is not in the device table, probes give them. The launch overhead is always probed.
    """
    ceilings = provenance.get("ceilings") or {}
    if "memory_gb_per_s" not in ceilings:
        return None
    known = device(provenance.get("device", ""))
    peaks = (
        stated(known)
        if known
        else Ceilings(ceilings["memory_gb_per_s"], dict(ceilings.get("tflop_per_s", {})))
    )
    return replace(peaks, launch_us=ceilings.get("launch_us", 0.0), probes=dict(ceilings.get("probes", {})))


def bound_of(row: Row, record: Record) -> Bound | None:
    """The lower bound on a row's time on its device; None if the lesson states no bytes or operations."""
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
        """The folder of records."""
        return self.root / FOLDER

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """The folders of devices: those of ``MACHINES`` in order, then the others by name."""
        order = [device_slug(name) for name in MACHINES]
        folders = [name for name in _listed(self.folder) if (self.folder / name).is_dir()]
        return (
            *(name for name in order if name in folders),
            *(name for name in folders if name not in order),
        )

    @property
    def home(self) -> str:
        """The folder of the device that tables show by default: the first of ``devices``."""
        return self.devices[0] if self.devices else device_slug(MACHINES[0])

    @property
    def wanted(self) -> str:
        """The folder of the selected device.

        ``TILEWISE_RECORDED_ON``, else the GPU on which kernels run here, else ``home``.
        """
        return wanted_machine() or self._here or self.home

    @cached_property
    def _here(self) -> str:
        """The folder of the GPU on which kernels run here; empty without a GPU or records of it."""
        name = device_slug(device_name()) if gpu_here() else ""
        return name if name in self.devices else ""

    def _order(self, device: str | None) -> dict[str, None]:
        """The folders to search, the selected one first."""
        return dict.fromkeys([device_slug(device) if device else self.wanted, *self.devices])

    def path(self, experiment: str, device: str) -> Path:
        """The path of an experiment's record, existing or not, for a device's or a folder's name."""
        return self.folder / device_slug(device) / f"{experiment}.json"

    def text_path(self, lesson: str, name: str, device: str) -> Path:
        """The path of a text record, existing or not."""
        return self.folder / device_slug(device) / f"{lesson.replace('/', '.')}.{name}{TEXT_ENDING}"

    def shown(self, path: Path) -> str:
        """A file's path for messages, relative to the parent of the lessons' folder."""
        try:
            return path.absolute().relative_to(self.root.absolute().parent).as_posix()
        except ValueError:
            return path.name

    def find(self, experiment: str, device: str | None = None) -> Path | None:
        """The path of an experiment's first record, current or not.

        Args:
            experiment: its name.
            device: the preferred device; by default ``wanted``.
        """
        return next(self._existing(self.path(experiment, name) for name in self._order(device)), None)

    def _existing(self, paths: Iterable[Path]) -> Iterator[Path]:
        return (path for path in paths if path.name in _listed(path.parent))

    def on_each(self, experiment: str, device: str | None = None) -> Iterator[Record]:
        """An experiment's records by device, the preferred one first as in ``find``.

        Raises:
            RecordError: a file is malformed.
        """
        for path in self._existing(self.path(experiment, name) for name in self._order(device)):
            yield read_record(path, self.shown(path))

    def record(self, experiment: str, device: str | None = None) -> Record | None:
        """The first of ``on_each``; None if there is none."""
        return next(self.on_each(experiment, device), None)

    def records(self, device: str | None = None) -> Iterator[Record]:
        """Every experiment's record, by device and name.

        Args:
            device: a device's or a folder's name; by default, all devices.

        Raises:
            RecordError: a file is malformed.
        """
        for name in self.devices if device is None else (device_slug(device),):
            for path in sorted((self.folder / name).glob("*.json")):
                if not path.name.endswith(TEXT_ENDING):
                    stat = path.stat()
                    yield _cached_record(path, self.shown(path), stat.st_mtime_ns, stat.st_size)

    def text_record(
        self,
        lesson: str,
        name: str,
        cell_source: str | None = None,
        device: str | None = None,
        before: Iterable[str] = (),
    ) -> TextRecord | None:
        """What a cell printed on a GPU: the first current record, in the order of ``find``, else the first.

        Args:
            lesson: the lesson's id.
            name: the cell's ``record="..."``.
            cell_source: the cell; None skips the check whether the record is current.
            device: the preferred device, as in ``find``.
            before: the code cells before it, which may define what it uses.

        Returns:
            The record, ``stale`` if the cell or a definition that it uses has changed since on every device;
            None if there is none.

        Raises:
            RecordError: the file is malformed.
        """
        first = None
        for path in self._existing(self.text_path(lesson, name, folder) for folder in self._order(device)):
            record = replace(read_text_record(path, self.shown(path)), path=self.shown(path))
            if cell_source is None or text_holds(record, cell_source, tuple(before)):
                return record
            first = first or replace(record, stale=True)
        return first

    def lookup(self, experiment: str, device: str | None = None) -> dict[str, Any] | None:
        """An experiment's values as nested dicts of plain values; None if it has no record.

        Raises:
            RecordError: the file is malformed.
        """
        record = self.record(experiment, device)
        return values_of(record) if record else None


@lru_cache(maxsize=1024)
def _cached_record(path: Path, shown: str, changed_ns: int, size: int) -> Record:
    """A record, read again only if its file has changed, because a served site requests all of them."""
    return read_record(path, shown)


def _listed(folder: Path) -> list[str]:
    """The names in a folder, sorted; empty if it is missing.

    Listing counts as reading the folder, so whoever watches what was read notices a new record.
    """
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - pathlib would make an object per file
    except (FileNotFoundError, NotADirectoryError):
        return []


def values_of(record: Record) -> dict[str, Any]:
    """A record as nested dicts of plain values, spelt as in the module's docstring."""
    origin = record.provenance
    values: dict[str, Any] = {name: origin[name] for name in origin if name not in ("notes", "rounds")}
    values["rounds"] = len(origin.get("rounds") or (1,))
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
        peers = [peer for peer in timed if peer.case == row.case]
        first = next((peer for peer in peers if peer.role == "variant"), None)
        libraries = [peer.median for peer in peers if peer.role == "library" and peer.median is not None]
        if first is not None and first.median and row.median and (first == row or apart(first, row)):
            values["times_first"] = first.median / row.median
        if libraries and row.median > 0:
            values["share_of_library"] = min(libraries) / row.median
    return {name: entry for name, entry in values.items() if entry is not None}


def rates_of(row: Row, record: Record) -> dict[str, float]:
    """Values derived from a row's median: GB/s, TFLOP/s, the bound in microseconds, the fraction of it."""
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
    """``Archive.text_record`` in the archive of the running lesson."""
    return Archive(lesson_root()).text_record(lesson, name, device=device)


def lookup(experiment: str, device: str | None = None) -> dict[str, Any] | None:
    """``Archive.lookup`` in the archive of the running lesson, for its charts.

    Its numbers know their experiment. Tables show no provenance for them, because it is on another page.
    """
    values = Archive(lesson_root()).lookup(experiment, device)
    return None if values is None else _located(values, experiment)


def _located(values: Mapping[str, Any], experiment: str) -> dict[str, Any]:
    """The values, with floats as ``Recorded`` numbers of their experiment."""
    work = tuple(amount for name in ("bytes", "flop") if (amount := values.get(name)))
    located: dict[str, Any] = {}
    for name, entry in values.items():
        if isinstance(entry, Mapping):
            located[name] = _located(entry, experiment)
        elif isinstance(entry, float):
            own = work if name == "median" else ()
            located[name] = Recorded(entry, None, "", "measured", experiment, own)
        else:
            located[name] = entry
    return located
