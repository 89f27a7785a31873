"""The recorder: times a lesson's experiments on this machine's GPU and writes their records.

In: experiments, one by one, as ``measure`` passes them. Out: record files, written atomically; a failed or
interrupted experiment keeps its old record.
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
    """This machine's GPU, its name and its ceilings, determined once per process."""

    @cached_property
    def name(self) -> str:
        """The device's name as its driver gives it."""
        from tilewise.gpu.device import device_name

        return device_name()

    @cached_property
    def probed(self) -> Ceilings:
        """The ceilings that probes reach."""
        from tilewise.gpu.ceilings import measure_ceilings

        return measure_ceilings()

    def provenance(self, now: State, notes: list[str]) -> dict[str, Any]:
        """The provenance of a record taken now."""
        from tilewise.gpu.device import properties

        return provenance(self.name, properties(), now, self.probed, notes)


@dataclass
class Recorder:
    """Records the experiments of one lesson."""

    archive: Archive
    session: GpuSession
    progress: Callable[[str], None]
    """Called with a line of progress."""
    lesson: LessonFile
    force: bool = False
    """Whether to record again what is current."""
    rounds: int | None = None
    """How many rounds to take; None: ``ROUNDS``, or one if the first takes long."""
    only: frozenset[str] = frozenset()
    """The experiments and text records to take; empty for all."""
    done: list[str] = field(default_factory=list)
    """Experiments and text records that are current now."""
    failed: list[LessonError] = field(default_factory=list)
    """The faults."""

    def wanted(self, name: str) -> bool:
        """Whether an experiment or a text record is to be taken."""
        return not self.only or name in self.only

    def __call__(self, experiment: Experiment) -> Measurement:
        """Time an experiment and write its record, unless it is current or not wanted."""
        current = self.current(experiment)
        if not self.wanted(experiment.name):
            return assemble(experiment, current)
        if current is not None and not self.force:
            self.progress(f"{experiment.name}: its record of {current.provenance['date']} is current")
            self.done.append(experiment.name)
            return assemble(experiment, current)
        self.progress(f"{experiment.name}: recording")
        try:
            record = self._with_old_counters(self._record(experiment), current)
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
        for row in (row for row in record.rows if row.samples_us):
            shown = ", ".join(f"{name}={value}" for name, value in row.case.items())
            self.progress(
                f"{experiment.name}: {row.variant} ({shown}) {row.median:,.4g} us "
                f"[{row.p20:,.4g}, {row.p80:,.4g}], {len(row.samples_us)} samples in {len(row.rounds) or 1} "
                "rounds"
            )
        return assemble(experiment, record)

    def current(self, experiment: Experiment) -> Record | None:
        """This device's record with the lesson's labels, if all of it is current."""
        path = self.archive.path(experiment.name, self.session.name)
        try:
            record = read_record(path) if path.is_file() else None
        except RecordError as error:
            self.progress(f"{error} It is recorded again.")
            return None
        if record is None or staleness(experiment, record) is not None:
            return None
        return labelled(experiment, record)

    def text_is_current(self, cell: Cell) -> bool:
        """Whether this device's record of a cell's output is current."""
        path = self.archive.text_path(self.lesson.id, cell.record, self.session.name)
        try:
            record = read_text_record(path, self.archive.shown(path)) if path.is_file() else None
        except RecordError as error:
            self.progress(f"{error} It is recorded again.")
            return False
        return record is not None and text_holds(record, cell.source, self.lesson.code_before(cell))

    def _record(self, experiment: Experiment) -> Record:
        _ = self.session.probed  # probed now, not between timing and writing
        times = list(take_rounds(experiment, self.lesson.file, self.rounds, self.progress))
        return self._of_rounds(experiment, times)

    def _of_rounds(self, experiment: Experiment, rounds: Sequence[ExperimentTimes]) -> Record:
        from tilewise.measurements.experiment_timing import worst

        rows = pooled([times.rows for times in rounds])
        notes = list(
            dict.fromkeys([*(note for times in rounds for note in times.notes), *spread_notes(rows)])
        )
        origin = self.session.provenance(worst([times.state for times in rounds]), notes)
        if len(rounds) > 1:
            origin["rounds"] = [round_facts(asdict(times.state), origin["date"]) for times in rounds]
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

    def _with_old_counters(self, new: Record, old_record: Record | None) -> Record:
        """A new record with the old one's counters, as far as they still hold.

        The same key, compiled by the same NVRTC for the same device, gives the same machine code.
        """
        if old_record is None or not any(row.counters for row in old_record.rows):
            return new
        compilers = [record.provenance["versions"].get("nvrtc") for record in (new, old_record)]
        if compilers[0] != compilers[1]:
            self.progress(
                f"{new.experiment}: another NVRTC, so the old counters go; --counters takes new ones"
            )
            return new
        counted = {
            (row.variant, tuple(sorted(row.case.items()))): row for row in old_record.rows if row.counters
        }
        rows = []
        for row in new.rows:
            old = counted.pop((row.variant, tuple(sorted(row.case.items()))), None)
            rows.append(replace(row, counters=old.counters) if old else row)
        return replace(new, rows=(*rows, *(row.without_times() for row in counted.values())))

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
    """The resources of all launches of an experiment's timed cases, in order and without duplicates.

    Returns:
        Mappings with ``kernel``, ``threads`` per block, ``registers`` and ``local_bytes`` per thread,
        ``static_shared_bytes`` and ``dynamic_shared_bytes`` per block, the driver's ``blocks_per_sm``, and
        ``carveout``, the percentage of shared memory that the kernel requests, or None.
    """
    resources: list[dict[str, Any]] = []
    for parameters in experiment.cases:
        for label in experiment.variants:
            for launch in experiment.launches(label, parameters):
                usage = _resources_of(launch)
                if usage not in resources:
                    resources.append(usage)
    return resources


def _resources_of(launch: Launch) -> dict[str, Any]:
    """The resources of one launch, from the compiled kernel and the driver."""
    import cupy

    kernel = launch.kernel
    function = cupy_backend.compiled(kernel.gpu_source, kernel.name, kernel.options, kernel.wants_module)
    cupy_backend.allow(function, kernel.name, launch.shared_bytes, kernel.function.cluster)
    threads = int(np.prod(launch.block))
    blocks_per_sm = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
        function.kernel.ptr, threads, launch.shared_bytes
    )
    return {
        "kernel": kernel.name,
        "threads": threads,
        "registers": int(function.num_regs),
        "local_bytes": int(function.local_size_bytes),
        "static_shared_bytes": int(function.shared_size_bytes),
        "dynamic_shared_bytes": launch.shared_bytes,
        "blocks_per_sm": int(blocks_per_sm),
        "carveout": carveout(kernel.options),
    }
