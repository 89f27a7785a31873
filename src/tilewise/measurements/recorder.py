"""The recorder: experiments of a lesson timed on this machine's GPU and written as records.

In: experiments, one by one, as ``measure`` hands them over. Out: record files, whole or not at all; a failed
or interrupted experiment leaves its old record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.cuda.options import carveout
from tilewise.errors import LessonError
from tilewise.gpu import cupy_backend
from tilewise.gpu.timing import FLUSH_BYTES
from tilewise.measurements.archive import Archive
from tilewise.measurements.current import labelled, text_holds
from tilewise.measurements.definitions import uses_key
from tilewise.measurements.key import METHOD_VERSION, text_key
from tilewise.measurements.problems import RecordingStopped, explain
from tilewise.measurements.provenance import provenance
from tilewise.measurements.record import (
    Record,
    RecordError,
    TextRecord,
    read_record,
    read_text_record,
    write_record,
)
from tilewise.measurements.report import assemble, staleness
from tilewise.measurements.round_process import take_rounds
from tilewise.measurements.rounds import pooled, round_facts, spread_notes
from tilewise.models.roofline import Ceilings

if TYPE_CHECKING:
    from tilewise.build.playback import LessonFile
    from tilewise.course.model import Cell
    from tilewise.gpu.device import State
    from tilewise.kernel.launch import Launch
    from tilewise.measurements.experiment import Experiment
    from tilewise.measurements.experiment_timing import ExperimentTimes
    from tilewise.measurements.output import Measurement

NO_LEAD_IN = "none: the GPU is idle at the first event, and what the host takes to launch is in the time"
"""How an experiment with ``with_host`` was timed."""


class GpuSession:
    """This machine's GPU, its name and its ceilings, found once a process."""

    @cached_property
    def name(self) -> str:
        """The device's name as its driver gives it."""
        from tilewise.gpu.device import device_name

        return device_name()

    @cached_property
    def probed(self) -> Ceilings:
        """What probes reach."""
        from tilewise.gpu.ceilings import measure_ceilings

        return measure_ceilings()

    def provenance(self, now: State, notes: list[str]) -> dict[str, Any]:
        """The provenance of a record taken now."""
        from tilewise.gpu.device import properties

        return provenance(self.name, properties(), now, self.probed, notes)


@dataclass
class Recorder:
    """Takes the experiments of one lesson."""

    archive: Archive
    session: GpuSession
    progress: Callable[[str], None]
    """Told, in a line, what is going on."""
    lesson: LessonFile
    force: bool = False
    """Whether to record anew what is current."""
    rounds: int | None = None
    """How many rounds to take; None: ``ROUNDS``, and one where that is long."""
    only: frozenset[str] = frozenset()
    """The experiments and text records to take; where it is empty, all."""
    done: list[str] = field(default_factory=list)
    """Experiments and text records that are current now."""
    failed: list[LessonError] = field(default_factory=list)
    """What went wrong."""

    def wanted(self, name: str) -> bool:
        """Whether an experiment or a text record is one to take."""
        return not self.only or name in self.only

    def __call__(self, experiment: Experiment) -> Measurement:
        """Time an experiment and write its record, unless that is current or another one is wanted."""
        kept = self.current(experiment)
        if not self.wanted(experiment.name):
            return assemble(experiment, kept)
        if kept is not None and not self.force:
            self.progress(f"{experiment.name}: its record of {kept.provenance['date']} is current")
            self.done.append(experiment.name)
            return assemble(experiment, kept)
        self.progress(f"{experiment.name}: recording")
        try:
            record = self._with_old_counters(self._record(experiment), kept)
        except LessonError as error:
            self.failed.append(error)
            raise
        except Exception as error:
            problem = explain(error)
            fault = experiment.error(problem.message, problem.repair)
            self.failed.append(fault)
            if problem.stop:
                raise RecordingStopped(fault) from error
            raise fault from error
        write_record(record, self.archive.path(experiment.name, self.session.name))
        self.done.append(experiment.name)
        for row in (one for one in record.rows if one.samples_us):
            shown = ", ".join(f"{name}={value}" for name, value in row.case.items())
            self.progress(
                f"{experiment.name}: {row.variant} ({shown}) {row.median:,.4g} us "
                f"[{row.p20:,.4g}, {row.p80:,.4g}], {len(row.samples_us)} samples in {len(row.rounds) or 1} "
                "rounds"
            )
        return assemble(experiment, record)

    def current(self, experiment: Experiment) -> Record | None:
        """The record of this device, under the lesson's labels, if all of it holds for the experiment."""
        path = self.archive.path(experiment.name, self.session.name)
        try:
            record = read_record(path) if path.is_file() else None
        except RecordError as error:
            self.progress(f"{error} It is recorded anew.")
            return None
        if record is None or staleness(experiment, record) is not None:
            return None
        return labelled(experiment, record)

    def text_is_current(self, cell: Cell) -> bool:
        """Whether the record of what a cell prints on this device holds."""
        path = self.archive.text_path(self.lesson.id, cell.record, self.session.name)
        try:
            kept = read_text_record(path, self.archive.shown(path)) if path.is_file() else None
        except RecordError as error:
            self.progress(f"{error} It is recorded anew.")
            return False
        return kept is not None and text_holds(kept, cell.source, self.lesson.code_before(cell))

    def _record(self, experiment: Experiment) -> Record:
        _ = self.session.probed  # now, not between times and file
        times = list(take_rounds(experiment, self.lesson.file, self.rounds, self.progress))
        return self._of_rounds(experiment, times)

    def _of_rounds(self, experiment: Experiment, rounds: Sequence[ExperimentTimes]) -> Record:
        from tilewise.measurements.experiment_timing import worst

        rows = pooled([one.rows for one in rounds])
        notes = list(dict.fromkeys([*(note for one in rounds for note in one.notes), *spread_notes(rows)]))
        origin = self.session.provenance(worst([one.state for one in rounds]), notes)
        if len(rounds) > 1:
            origin["rounds"] = [round_facts(asdict(one.state), origin["date"]) for one in rounds]
        method = {
            "version": METHOD_VERSION,
            "timer": "CUDA events around each repetition",
            "order": "contenders in turn, repetition by repetition, in one process",
            "l2": f"cold: {FLUSH_BYTES} bytes read before each repetition",
            "lead_in": NO_LEAD_IN if experiment.with_host else "a spinning kernel before the first event",
            "resources": _resources(experiment),
            **({"sampling": rounds[0].sampling} if rounds[0].sampling else {}),
        }
        return Record(
            experiment=experiment.name,
            lesson=experiment.lesson,
            arithmetic=experiment.arithmetic,
            provenance=origin,
            rows=rows,
            method=method,
        )

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
        counted = {(row.variant, tuple(sorted(row.case.items()))): row for row in kept.rows if row.counters}
        rows = []
        for row in made.rows:
            old = counted.pop((row.variant, tuple(sorted(row.case.items()))), None)
            rows.append(replace(row, counters=old.counters) if old else row)
        return replace(made, rows=(*rows, *(row.without_times() for row in counted.values())))

    def record_text(self, cell: Cell, text: str) -> None:
        """Write what a cell printed."""
        from tilewise.measurements.experiment_timing import busy_state

        record = TextRecord(
            lesson=self.lesson.id,
            name=cell.record,
            key=text_key(cell.source),
            provenance=self.session.provenance(busy_state(), []),
            text=text,
            uses=uses_key(cell.source, self.lesson.code_before(cell)),
        )
        write_record(record, self.archive.text_path(self.lesson.id, cell.record, self.session.name))
        self.done.append(cell.record)
        self.progress(
            f"{self.lesson.id}: wrote the text record {cell.record}, {len(text.splitlines())} lines"
        )


def _resources(experiment: Experiment) -> list[dict[str, Any]]:
    """What every launch of an experiment's timed cases takes, each different one once, in their order.

    Returns:
        Mappings with ``kernel``, ``threads`` of a block, ``registers`` of a thread, ``local_bytes`` of a
        thread, ``static_shared_bytes`` and ``dynamic_shared_bytes`` of a block, and the driver's
        ``blocks_per_sm``; also ``carveout``, the percentage that the kernel asks for as shared memory, or
        None.
    """
    found: list[dict[str, Any]] = []
    for parameters in experiment.cases:
        for label in experiment.variants:
            for launch in experiment.launches(label, parameters):
                taken = _resources_of(launch)
                if taken not in found:
                    found.append(taken)
    return found


def _resources_of(launch: Launch) -> dict[str, Any]:
    """What one launch takes of an SM, from the compiled kernel and the driver."""
    import cupy

    kernel = launch.kernel
    function = cupy_backend.compiled(kernel.gpu_source, kernel.name, kernel.options, kernel.wants_module)
    cupy_backend.allow(function, kernel.name, launch.shared_bytes, kernel.function.cluster)
    threads = int(np.prod(launch.block))
    fitting = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
        function.kernel.ptr, threads, launch.shared_bytes
    )
    return {
        "kernel": kernel.name,
        "threads": threads,
        "registers": int(function.num_regs),
        "local_bytes": int(function.local_size_bytes),
        "static_shared_bytes": int(function.shared_size_bytes),
        "dynamic_shared_bytes": launch.shared_bytes,
        "blocks_per_sm": int(fitting),
        "carveout": carveout(kernel.options),
    }
