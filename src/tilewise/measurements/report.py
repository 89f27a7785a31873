"""The report: an experiment's rows from models, simulator, record and this machine's GPU.

In: an experiment. Out: a ``Measurement``. In a build (``TILEWISE_BUILD=1``) or with
``TILEWISE_BACKEND=simulator`` no GPU is used. If several machines have records, the first current one is
shown. If none is current, the first one is shown and marked; with ``TILEWISE_STALE=error`` that is an error
unless ``pending.json`` lists it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilewise.gpu.device import device_name, gpu_here
from tilewise.measurements.archive import MACHINES, Archive, ceilings_of, rates_of
from tilewise.measurements.counting import simulate
from tilewise.measurements.current import current, labelled
from tilewise.measurements.local import agreement, difference
from tilewise.measurements.machines import driver_name
from tilewise.measurements.origin import Recorded
from tilewise.measurements.output import Measurement
from tilewise.measurements.pending import Entry, read_pending
from tilewise.measurements.provenance_links import provenance_id
from tilewise.measurements.record import Record, Row
from tilewise.measurements.rounds import expected, parts, spread_notes, spread_of
from tilewise.measurements.slugs import device_slug
from tilewise.models.devices import device
from tilewise.models.roofline import Bound, Ceilings, bound, stated

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment, Place


STAND_IN = "H100 SXM"
"""The device whose peaks give the bound if nothing was recorded."""
STATED = f"The bound uses the peaks of an {STAND_IN} (data sheet)."


def report(experiment: Experiment) -> Measurement:
    """Predict, simulate, look up and, with a GPU, time an experiment.

    Raises:
        LessonError: a wrong answer, an unreadable record, or a stale one if that is an error.
    """
    simulated, missing = simulate(experiment)
    archive = Archive(experiment.root)
    local = device_name() if gpu_here() else ""
    shown = choose(experiment, archive, local or None)
    record = labelled(experiment, shown.record) if shown.record else None
    timed: Sequence[Row] = ()
    notes: list[str] = []
    if local:
        timed, clock_mhz, oddities = _time_here(experiment)
        verdict = agreement(timed, record.rows) if record else None
        notes = [difference(local, clock_mhz, record), *([verdict] if verdict else []), *oddities]
    pending = read_pending(archive).get(experiment.name) if shown.stale else None
    if shown.stale and pending is None and os.environ.get("TILEWISE_STALE") == "error":
        raise experiment.error(shown.stale.why, shown.stale.repair)
    if missing:
        notes.append(missing)
    measurement = assemble(
        experiment,
        record,
        simulated=simulated,
        stale=shown.stale,
        timed=timed,
        notes=notes,
    )
    return replace(
        measurement,
        pending=shown.sentence(pending),
        elsewhere="" if local else elsewhere(archive.wanted, record),
        outdated=shown.outdated,
    )


@dataclass(frozen=True)
class Stale:
    """Why recorded figures cannot be shown as current."""

    why: str
    repair: str
    """A sentence with the command that makes them current."""
    rows: frozenset[Place] = frozenset()
    """The rows that are not current."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of their variants and libraries."""
        return tuple(dict.fromkeys(label for label, _ in sorted(self.rows)))

    def __str__(self) -> str:
        return f"{self.why} {self.repair}"


@dataclass(frozen=True)
class Shown:
    """The record that an experiment's table shows."""

    record: Record | None
    """The first current one, else the first."""
    stale: Stale | None
    """Why it is not current; None if it is."""
    outdated: tuple[tuple[str, str], ...]
    """Device and variant of every stale row in any record."""

    def sentence(self, pending: Entry | None) -> str:
        """A sentence on stale figures that are listed as pending; empty if there are none."""
        if self.stale is None or pending is None:
            return ""
        timed = {row.variant for row in self.record.rows if row.median} if self.record else set()
        old = [label for label in self.stale.labels if label in timed]
        new = [label for label in self.stale.labels if label not in timed]
        return pending.of_times(old, new, timed <= set(old))


def choose(experiment: Experiment, archive: Archive, device: str | None = None) -> Shown:
    """The record to show: that of the preferred machine if it is current, else the first current one.

    Args:
        experiment: what was measured.
        archive: the records.
        device: the preferred machine, as in ``Archive.find``.

    Raises:
        RecordError: a record is malformed.
    """
    judged = [
        (candidate, staleness(experiment, candidate))
        for candidate in archive.on_each(experiment.name, device)
    ]
    first = judged[0] if judged else (None, staleness(experiment, None))
    record, stale = next((pair for pair in judged if pair[1] is None), first)
    outdated = tuple(
        (candidate.provenance["device"], label)
        for candidate, stale in judged
        if stale
        for label in stale.labels
    )
    return Shown(record, stale, outdated)


def elsewhere(wanted: str, record: Record | None) -> str:
    """A sentence if the record is from another machine than the selected one; else empty."""
    if record is None or device_slug(record.provenance["device"]) == wanted:
        return ""
    name = next((machine for machine in MACHINES if device_slug(machine) == wanted), wanted)
    recorded_on = driver_name(record.provenance["device"])
    return (
        f"There are no current measurements from the {driver_name(name)}: "
        f"these times are from the {recorded_on}."
    )


def staleness(experiment: Experiment, record: Record | None) -> Stale | None:
    """Why an experiment's record is not current; None if it is."""
    repair = f"Record it on a GPU: tilewise record {experiment.lesson}"
    if record is None:
        return Stale(f"{experiment.name} has no record yet.", repair)
    now = current(experiment, record)
    if not now.stale:
        return None
    stale = Stale("", repair, now.stale)
    part = f" for {', '.join(stale.labels)}" if now.stale != now.rows.keys() else ""
    day = record.provenance["date"]
    why = f"The record of {experiment.name} from {day} is stale{part}: the code has changed since then."
    return replace(stale, why=why)


def _time_here(experiment: Experiment) -> tuple[Sequence[Row], float | None, list[str]]:
    """Times on this machine's GPU, its SM clock in MHz, and notes."""
    from tilewise.measurements.experiment_timing import GLANCE, time_experiment

    plan = replace(GLANCE, with_host=experiment.with_host)
    times = time_experiment(experiment, plan, lambda line: print(line, file=sys.stderr, flush=True))
    return times.rows, times.state.sm_clock_mhz, [*times.notes, *spread_notes(times.rows)]


def assemble(
    experiment: Experiment,
    record: Record | None,
    *,
    simulated: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    stale: Stale | None = None,
    timed: Sequence[Row] = (),
    notes: Sequence[str] = (),
) -> Measurement:
    """The table of an experiment from its parts.

    Args:
        experiment: what was measured.
        record: the record, or None.
        simulated: the simulator's counts by variant.
        stale: why the record is not current, or None.
        timed: rows of this machine's GPU.
        notes: sentences below the table.
    """
    recorded = {experiment.place(row.variant, row.case): row for row in record.rows} if record else {}
    here = {experiment.place(row.variant, row.case): row for row in timed}
    counted = {row.variant: row.counters for row in record.rows if row.counters} if record else {}
    ceilings = ceilings_of(record.provenance) if record else None
    rows = []
    for parameters in experiment.cases:
        for label in [*experiment.variants, *experiment.library]:
            at = experiment.place(label, parameters)
            if label in experiment.library and at not in recorded and at not in here:
                continue
            lower_bound = _bound(experiment, parameters, ceilings or _stated())
            mark = "stale" if stale is not None and at in stale.rows else "measured"
            rates = rates_of(recorded[at], record) if record and at in recorded else {}
            rows.append(
                {
                    "variant": label,
                    "role": "library" if label in experiment.library else "variant",
                    "parameters": dict(parameters),
                    "bound": lower_bound.time_us if lower_bound else None,
                    "limited_by": lower_bound.limited_by if lower_bound else None,
                    "recorded": _recorded(recorded[at], record, mark) if record and at in recorded else None,
                    "stale": mark == "stale",
                    "here": _times(here[at]) if at in here else None,
                    "device": record.provenance["device"] if record else None,
                    "share": rates.get("share_of_bound"),
                    "gb_per_s": rates.get("gb_per_s"),
                    "tflop_per_s": rates.get("tflop_per_s"),
                    "simulated": simulated.get(label),
                    "counted": counted.get(label),
                }
            )
    sentences = [experiment.note] if experiment.note else []
    if ceilings is None and any(row["bound"] is not None for row in rows):
        sentences.append(STATED)
    sentences += [*notes, *(record.provenance.get("notes", []) if record else [])]
    archive = Archive(experiment.root)
    path = archive.path(experiment.name, record.provenance["device"]) if record else archive.folder
    return Measurement(
        name=experiment.name,
        lesson=experiment.lesson,
        count_case=experiment.count_case,
        counts=experiment.counts,
        rows=tuple(rows),
        provenance=record.provenance if record else None,
        stale=str(stale) if stale else "",
        notes=tuple(sentences),
        inputs=(str(path),),
        fold=experiment.fold,
        within=experiment.within,
        reasons=tuple(experiment.reasons.items()),
    )


def _bound(experiment: Experiment, parameters: Mapping[str, Any], ceilings: Ceilings) -> Bound | None:
    """The lower bound on the time of a case; None if the lesson states no bytes or operations."""
    byte_count, operations = experiment.work(parameters)
    if byte_count is None and operations is None:
        return None
    try:
        return bound(
            ceilings, bytes_moved=byte_count or 0, flop=operations or 0, arithmetic=experiment.arithmetic
        )
    except KeyError as error:
        raise experiment.error(f"{error.args[0]}.", "Give another arithmetic=.") from None


def _stated() -> Ceilings:
    fallback = device(STAND_IN)
    assert fallback is not None, "the device table has lost its H100"
    return stated(fallback)


def _times(row: Row) -> dict[str, Any] | None:
    """Percentiles; for several rounds also their medians and the interval for another run."""
    if row.median is None or row.p20 is None or row.p80 is None:
        return None
    times: dict[str, Any] = {"median": row.median, "p20": row.p20, "p80": row.p80}
    further = expected(row)
    if row.rounds and further is not None:
        times["rounds"] = [part.median for part in parts(row)]
        times |= {"low": round(further.low, 3), "high": round(further.high, 3)}
    return times


def _recorded(row: Row, record: Record, mark: str) -> dict[str, Any] | None:
    """A record's times as ``Recorded`` numbers."""
    times = _times(row)
    if times is None:
        return None
    origin, spread = provenance_id(record.experiment, record.provenance["device"]), spread_of(row)
    work = tuple(amount for amount in (row.bytes, row.flop) if amount)
    return times | {
        name: Recorded(times[name], origin, spread, mark, record.experiment, work if name == "median" else ())
        for name in ("median", "p20", "p80")
    }
