"""The recorder: experiments of a lesson timed on this machine's GPU and written as records.

In: experiments, one by one, as ``measure`` hands them over. Out: record files, whole or not at all; a failed
experiment leaves its old record, an interrupted one the rounds that were done. Counters are added afterwards
by ``hardware``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewise.errors import LessonError
from tilewise.gpu.timing import FLUSH_BYTES, Plan
from tilewise.lesson.model import Cell
from tilewise.measurements.archive import Archive
from tilewise.measurements.counting import Simulated
from tilewise.measurements.current import labelled, text_holds
from tilewise.measurements.definitions import uses_key
from tilewise.measurements.fresh import Caller, take_rounds
from tilewise.measurements.key import METHOD_VERSION, text_key
from tilewise.measurements.provenance import provenance
from tilewise.measurements.record import (
    Record,
    RecordError,
    Row,
    TextRecord,
    read_record,
    read_text_record,
    write_record,
)
from tilewise.measurements.report import assemble, staleness
from tilewise.measurements.rounds import birth, joined, parts, pooled, spread_notes
from tilewise.measurements.troubles import KEPT, RecordingStopped, as_error, explain, memory_of_gpu
from tilewise.models.roofline import Ceilings

if TYPE_CHECKING:
    from tilewise.gpu.device import State
    from tilewise.measurements.bench import Bench
    from tilewise.measurements.experiment import Experiment
    from tilewise.measurements.output import Measurement
    from tilewise.measurements.playback import LessonFile

Progress = Callable[[str], None]
Tick = Callable[[float], None]


def unheard(share: float) -> None:
    """Tells nobody how far the work is."""


def _in_rounds(row: Row) -> str:
    """What a line of progress adds of a row with several rounds."""
    if not row.rounds:
        return ""
    medians = [part.median for part in parts(row)]
    return f" in {len(medians)} rounds, medians {min(medians):,.4g} to {max(medians):,.4g}"


def _put_back(path: Path, before: bytes | None) -> None:
    """Make a file what it was before."""
    if before is not None:
        path.write_bytes(before)
    else:
        path.unlink(missing_ok=True)


NO_LEAD_IN = "none: the GPU is idle at the first event, and what the host takes to launch is in the time"
"""How an experiment with ``with_host`` was timed."""


class Laboratory:
    """This machine's GPU, its name and its ceilings, found once a process."""

    @cached_property
    def name(self) -> str:
        """The device's name as its driver gives it."""
        from tilewise.gpu.device import device_name

        return device_name()

    @cached_property
    def _probed(self) -> tuple[Ceilings, float]:
        from tilewise.gpu.ceilings import measure_ceilings

        return measure_ceilings()

    @property
    def ceilings(self) -> Ceilings:
        """What probes reach."""
        return self._probed[0]

    @property
    def event_pair_us(self) -> float:
        """Microseconds between two events around nothing."""
        return self._probed[1]

    def provenance(self, now: State, notes: list[str]) -> dict[str, Any]:
        """What a record taken now says about its birth."""
        from tilewise.gpu.device import properties

        return provenance(self.name, properties(), now, self.ceilings, notes)


@dataclass
class Recorder:
    """Takes the experiments of one lesson."""

    archive: Archive
    """Where records are looked for."""
    out: Path
    """The folder that holds a folder a device; usually the archive's own."""
    laboratory: Laboratory
    """The GPU."""
    plan: Plan
    """How long timing goes on."""
    progress: Progress
    """Told, in a line, what is going on."""
    file: Path
    """The lesson's file."""
    force: bool = False
    """Whether to record anew what is current."""
    rounds: int | None = None
    """How many rounds to take; None: ``fresh.ROUNDS``, and one where that is long."""
    add: bool = False
    """Whether to add rounds to what is current, e.g. those of another GPU of the same name."""
    only: frozenset[str] = frozenset()
    """The experiments and text records to take; where it is empty, all."""
    done: list[str] = field(default_factory=list)
    """Experiments whose record is current now."""
    tick: Tick = unheard
    """Told the share of the experiment at hand that is done."""
    texts: list[str] = field(default_factory=list)
    """Text records that are current now."""
    failed: list[LessonError] = field(default_factory=list)
    """What went wrong."""

    def path(self, experiment: str) -> Path:
        """Where an experiment's record is written."""
        return self._placed(self.archive.path(experiment, self.laboratory.name))

    def _placed(self, path: Path) -> Path:
        return self.out / path.relative_to(self.archive.folder)

    def wanted(self, name: str) -> bool:
        """Whether an experiment or a text record is one to take."""
        return not self.only or name in self.only

    def __call__(self, experiment: Experiment) -> Measurement:
        """Time an experiment and write its record, unless that is current or another one is wanted."""
        kept = self.current(experiment)
        if not self.wanted(experiment.name):
            return assemble(experiment, Simulated({}), kept, None, (), ())
        if kept is not None and not self.force and not self.add:
            rounds = len(kept.provenance.get("rounds", ())) or 1
            born = f"{kept.provenance['date']}, of {rounds} round{'s' * (rounds > 1)},"
            self.progress(f"{experiment.name}: its record of {born} is current")
            self.done.append(experiment.name)
            return assemble(experiment, Simulated({}), kept, None, (), ())
        path = self.path(experiment.name)
        before = path.read_bytes() if path.is_file() else None
        try:
            record = self._record(experiment, path if kept is None else None)
        except LessonError as error:
            _put_back(path, before)
            self.failed.append(error)
            raise
        except Exception as error:
            _put_back(path, before)
            trouble = explain(error, "", memory_of_gpu())
            fault = as_error(trouble, experiment)
            self.failed.append(fault)
            if trouble.stop:
                raise RecordingStopped(fault) from error
            raise fault from error
        if kept is not None and self.add:
            record = self._added(experiment, kept, record)
        else:
            record = self._with_old_counters(record, kept)
        write_record(record, path)
        self.done.append(experiment.name)
        for row in (one for one in record.rows if one.samples_us):
            shown = ", ".join(f"{name}={value}" for name, value in row.case.items())
            self.progress(
                f"{experiment.name}: {row.variant} ({shown}) {row.median:,.4g} us "
                f"[{row.p20:,.4g}, {row.p80:,.4g}], {len(row.samples_us)} samples{_in_rounds(row)}"
            )
        return assemble(experiment, Simulated({}), record, None, (), ())

    def current(self, experiment: Experiment) -> Record | None:
        """The record of this device, under the lesson's labels, if all of it holds for the experiment."""
        for path in (self.path(experiment.name), self.archive.path(experiment.name, self.laboratory.name)):
            try:
                record = read_record(path) if path.is_file() else None
            except RecordError as error:
                self.progress(f"{error} It is recorded anew.")
                continue
            if record is not None and staleness(experiment, record) is None:
                return labelled(experiment, record)
        return None

    def current_text(self, lesson: LessonFile, cell: Cell) -> TextRecord | None:
        """The record of what a cell prints on this device, if it holds."""
        own = self.archive.text_path(lesson.id, cell.record, self.laboratory.name)
        before = lesson.code_before(cell)
        for path in (self._placed(own), own):
            try:
                kept = read_text_record(path, self.archive.shown(path)) if path.is_file() else None
            except RecordError as error:
                self.progress(f"{error} It is recorded anew.")
                return None
            if kept is not None:
                return kept if text_holds(kept, cell.source, before) else None
        return None

    def _record(self, experiment: Experiment, early: Path | None) -> Record:
        """Time an experiment.

        Args:
            experiment: what to time.
            early: a file that gets the rounds so far after each of them.
        """
        _ = self.laboratory.ceilings  # probed now, not between times and file
        taken: list[Bench] = []
        caller = Caller(self.progress, self.tick)
        for one in take_rounds(experiment, self.file, self.plan, self.rounds, caller):
            taken.append(one)
            made = self._of_rounds(experiment, taken)
            if early is not None:
                write_record(made, early)
        return made

    def _of_rounds(self, experiment: Experiment, taken: Sequence[Bench]) -> Record:
        from tilewise.measurements.bench import worst
        from tilewise.measurements.resources import resources

        rows = pooled([one.rows for one in taken])
        notes = list(dict.fromkeys([*(note for one in taken for note in one.notes), *spread_notes(rows)]))
        kept = self.laboratory.provenance(worst([one.state for one in taken]), notes)
        if len(taken) > 1:
            day = kept["date"]
            kept["rounds"] = [birth(asdict(one.state), day, one.state.driver) for one in taken]
        method = {
            "version": METHOD_VERSION,
            "timer": "CUDA events around each repetition",
            "order": "contenders in turn, repetition by repetition, in one process",
            "l2": f"cold: {FLUSH_BYTES} bytes read before each repetition",
            "lead_in": NO_LEAD_IN if experiment.with_host else "a spinning kernel before the first event",
            "event_pair_us": self.laboratory.event_pair_us,
            "resources": resources(experiment),
            **({"sampling": taken[0].sampling} if taken[0].sampling else {}),
        }
        return Record(
            experiment.name,
            experiment.lesson,
            experiment.arithmetic,
            kept,
            rows,
            method,
        )

    def _added(self, experiment: Experiment, kept: Record, made: Record) -> Record:
        """The record that is there with the rounds just taken.

        Raises:
            LessonError: another NVRTC compiled it, so its rounds are not of the same machine code.
        """
        compilers = [one.provenance["versions"].get("nvrtc") for one in (kept, made)]
        if compilers[0] != compilers[1]:
            fault = experiment.error(
                f"its record was compiled by NVRTC {compilers[0]} and this round by {compilers[1]}: "
                f"they are not added up. {KEPT}",
                "Record it anew: --force instead of --add.",
            )
            self.failed.append(fault)
            raise fault
        return joined(kept, made)

    def _with_old_counters(self, made: Record, kept: Record | None) -> Record:
        """A record that is taken anew with the counters of the one it replaces, where they still hold.

        The same key compiled by the same NVRTC for the same device is the same machine code.
        """
        if kept is None or not any(row.counters for row in kept.rows):
            return made
        compilers = [one.provenance["versions"].get("nvrtc") for one in (made, kept)]
        if compilers[0] != compilers[1]:
            self.progress(
                f"{made.experiment}: another NVRTC, so the old counters go; --counters takes new ones"
            )
            return made
        counted = {row.variant: row for row in kept.rows if row.counters}
        rows = []
        for row in made.rows:
            old = counted.get(row.variant)
            if old is not None and old.case == row.case:
                rows.append(replace(row, counters=counted.pop(row.variant).counters))
            else:
                rows.append(row)
        rows += [row.without_times() for row in counted.values()]
        return replace(made, rows=tuple(rows))

    def record_text(self, lesson: LessonFile, cell: Cell, text: str) -> None:
        """Write what a cell printed, unless the record of it is current."""
        from tilewise.measurements.bench import busy_state

        path = self._placed(self.archive.text_path(lesson.id, cell.record, self.laboratory.name))
        kept = self.current_text(lesson, cell)
        if kept is not None and not self.force and kept.text == text:
            self.texts.append(cell.record)
            self.progress(f"{lesson.id}: the text record {cell.record} is current")
            return
        provenance = self.laboratory.provenance(busy_state(), [])
        uses = uses_key(cell.source, lesson.code_before(cell))
        made = TextRecord(lesson.id, cell.record, text_key(cell.source), provenance, text, uses)
        write_record(made, path)
        self.texts.append(cell.record)
        self.progress(f"{lesson.id}: wrote the text record {cell.record}, {len(text.splitlines())} lines")
