"""What the comparison needs of the simulator: each specimen's counts, and how far its outputs are off.

In: specimens, and a device's counters. Out: a ``SimulatedRow`` for each, and whether a record of them is
current. Running them all is left to ``renewal``, and putting counts side by side to ``comparison``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path

import numpy as np

from tilewise import simulator
from tilewise.cases import Array
from tilewise.gpu.kernel import Kernel
from tilewise.gpu.kernel_source import tokens
from tilewise.hardware.comparison import COUNTS, ComparisonRecord, Distance, SimulatedRow
from tilewise.hardware.differences import REWRITTEN
from tilewise.hardware.record import CountsRecord, Row, array_of
from tilewise.hardware.specimen import Specimen
from tilewise.measurements.key import digest, python_tokens
from tilewise.simulator.toolchain import CLANG


def simulator_key() -> str:
    """A hash of what decides a row beside its specimen and its counters.

    These are the sources of the simulator and of the comparison, without comments and layout, and its clang.
    """
    folder, own = Path(simulator.__file__).parent, Path(__file__)
    found = [
        *sorted(folder.glob("*.py")),
        *sorted(folder.glob("*/*.[ch]")),
        own,
        own.with_name("specimen.py"),
    ]
    sources = [(file.name, _tokens(file)) for file in found]
    counts = {name: count.simulated for name, count in COUNTS.items()}
    edits = {name: edits for name, (edits, _) in REWRITTEN.items()}
    return digest({"clang": CLANG, "sources": sources, "counts": counts, "edits": edits})


def _tokens(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    return python_tokens(text) if file.suffix == ".py" else "\0".join(tokens(text))


def simulate(specimen: Specimen, row: Row) -> SimulatedRow:
    """Run a specimen on the simulator, and compare what it writes with what the hardware wrote.

    Args:
        specimen: what to run.
        row: what a device counted and wrote.

    Raises:
        HazardError: the specimen has a hazard.
    """
    arrays = specimen.launch.case.make()
    counts = specimen.launch.simulate(arrays=arrays).counts
    numbers = {name: int(attrgetter(count.simulated)(counts)) for name, count in COUNTS.items()}
    return SimulatedRow(
        specimen.name,
        specimen.key,
        specimen.idea,
        specimen.tolerance,
        counts.issued,
        {name: number for name, number in numbers.items() if number},
        {name: _distance(specimen, row, name, np.asarray(arrays[name])) for name in specimen.written},
    )


def _distance(specimen: Specimen, row: Row, name: str, ours: Array) -> Distance:
    kept = row.outputs[name]
    if hashlib.sha256(ours.tobytes()).hexdigest() == kept.sha256:
        return Distance(True, True, 0.0)
    if kept.bits is None:
        return _rewritten(specimen, name, ours, kept.sha256)
    theirs = array_of(kept, ours)
    relative, absolute = specimen.tolerance
    fits = np.allclose(ours, theirs, rtol=relative, atol=absolute, equal_nan=True)
    return Distance(False, bool(fits), largest(ours, theirs))


def _rewritten(specimen: Specimen, name: str, ours: Array, sha256: str) -> Distance:
    """The distance to what the rewritten source leaves, where that has the hardware's bits."""
    edits, _ = REWRITTEN.get(specimen.name, ({}, None))
    kernel = specimen.launch.kernel
    source = kernel.source
    for before, after in edits.items():
        source = source.replace(before, after)
    if source == kernel.source:
        return Distance(False, False)
    rewritten = Kernel(source, kernel.name, kernel.defines, kernel.options)
    arrays = specimen.launch.case.make()
    rewritten.on(specimen.launch.case).simulate(arrays=arrays)
    theirs = np.asarray(arrays[name])
    if hashlib.sha256(theirs.tobytes()).hexdigest() != sha256:
        return Distance(False, False)
    return Distance(False, True, largest(ours, theirs))


def largest(ours: Array, theirs: Array) -> float:
    """The largest absolute difference to four digits; equal infinities and two NaNs differ by nothing."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    return float(f"{np.fmax.reduce(apart, axis=None, initial=0.0):.4g}")


def stale(
    record: ComparisonRecord, counts: CountsRecord, groups: Mapping[str, Sequence[Specimen]]
) -> list[str]:
    """Why a record of the comparison is not current, a sentence each; nothing for one that is.

    Args:
        record: the record.
        counts: what its device counted.
        groups: the specimens of today by the title of their group.
    """
    found = []
    if record.simulator != simulator_key():
        found.append("The simulator has changed since.")
    if record.counters != counts.checksum:
        found.append("The device's counters were taken again since.")
    have = {(row.name, row.key) for rows in record.groups.values() for row in rows}
    want = {(one.name, one.key) for specimens in groups.values() for one in specimens}
    if have != want:
        names = sorted({name for name, _ in have ^ want})
        found.append(f"New, changed or gone since: {'; '.join(names)}.")
    return found
