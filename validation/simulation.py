"""Simulates a specimen and compares it with a device's counters.

In: a specimen, and its row of a device's counters. Out: a ``Row`` with the counts of both, and the distances
of the outputs. ``comparison`` adds the reasons.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path

import numpy as np

from tilewise import simulator
from tilewise.cuda.cases import Array
from tilewise.cuda.kernel_source import tokens
from tilewise.kernel.kernel import Kernel
from tilewise.measurements.key import digest, python_tokens
from tilewise.measurements.validation import Distance, Pair, Row
from tilewise.simulator import Counts
from tilewise.simulator.compile.toolchain import CLANG
from validation.differences import REWRITTEN
from validation.record import Counted, array_of
from validation.specimen import Specimen

COUNTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "global load requests": ("global_load.requests", ("global_load_requests",)),
    "global load sectors": ("global_load.sectors", ("global_load_sectors",)),
    "global store requests": ("global_store.requests", ("global_store_requests",)),
    "global store sectors": ("global_store.sectors", ("global_store_sectors",)),
    "global atomic requests": ("global_atomic.requests", ("global_atom_requests", "global_red_requests")),
    "global atomic sectors": ("global_atomic.sectors", ("global_atom_sectors", "global_red_sectors")),
    "local requests": ("local_requests", ("local_load_requests", "local_store_requests")),
    "shared load requests": ("shared_load.requests", ("shared_load_requests", "matrix_load_requests")),
    "shared load wavefronts": ("shared_load.wavefronts", ("shared_load_wavefronts",)),
    "shared store requests": ("shared_store.requests", ("shared_store_requests",)),
    "shared store wavefronts": ("shared_store.wavefronts", ("shared_store_wavefronts",)),
    "shared atomic requests": ("shared_atomic.requests", ("shared_atomic_requests",)),
    "shared atomic wavefronts": ("shared_atomic.wavefronts", ("shared_atomic_wavefronts",)),
}
"""What is compared: the simulator's name of a count, and the hardware counters that it is the sum of.

Instructions are not: PTX and machine code are different languages.
"""


def simulator_key() -> str:
    """A hash of what determines a row, besides its specimen and its counters.

    These are the sources of the simulator and of the comparison, without comments and layout, and clang.
    """
    folder, own = Path(simulator.__file__).parent, Path(__file__)
    found = [
        *sorted(file for file in folder.rglob("*") if file.suffix in {".py", ".c", ".h", ".def"}),
        own,
        own.with_name("specimen.py"),
    ]
    sources = [(file.name, _tokens(file)) for file in found]
    counts = {name: simulated for name, (simulated, _) in COUNTS.items()}
    edits = {name: edits for name, (edits, _) in REWRITTEN.items()}
    return digest({"clang": CLANG, "sources": sources, "counts": counts, "edits": edits})


def _tokens(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    return python_tokens(text) if file.suffix == ".py" else "\0".join(tokens(text))


def simulate(specimen: Specimen, counted: Counted) -> Row:
    """Run a specimen on the simulator, and compare its counts and outputs with the hardware's.

    Args:
        specimen: what to run.
        counted: a device's counters and outputs.

    Raises:
        HazardError: the specimen has a hazard.
    """
    arrays = specimen.launch.case.make()
    counts = specimen.launch.simulate(arrays=arrays).counts
    return Row(
        specimen.name,
        specimen.key,
        idea=specimen.idea,
        tolerance=specimen.tolerance,
        instructions=Pair(counts.issued, counted.counters["instructions"]),
        counts=_pairs(counts, counted.counters),
        outputs={
            name: _distance(specimen, counted, name, np.asarray(arrays[name])) for name in specimen.written
        },
    )


def _pairs(counts: Counts, counters: Mapping[str, int]) -> dict[str, Pair]:
    """The counts for which the device has counters, without those that are zero on both sides."""
    pairs = {
        name: Pair(attrgetter(simulated)(counts), sum(counters[part] for part in parts))
        for name, (simulated, parts) in COUNTS.items()
        if all(part in counters for part in parts)
    }
    return {name: pair for name, pair in pairs.items() if pair.simulated or pair.counted}


def _distance(specimen: Specimen, counted: Counted, name: str, ours: Array) -> Distance:
    kept = counted.outputs[name]
    if hashlib.sha256(ours.tobytes()).hexdigest() == kept.sha256:
        return Distance(True, True, 0.0)
    if kept.bits is None:
        return _rewritten(specimen, name, ours, kept.sha256)
    theirs = array_of(kept, ours)
    relative, absolute = specimen.tolerance
    fits = np.allclose(ours, theirs, rtol=relative, atol=absolute, equal_nan=True)
    return Distance(False, bool(fits), largest(ours, theirs))


def _rewritten(specimen: Specimen, name: str, ours: Array, sha256: str) -> Distance:
    """The distance to the output of the rewritten source, if that has the hardware's bits."""
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
    """The largest absolute difference to four digits; equal infinities and two NaNs do not differ."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    return float(f"{np.fmax.reduce(apart, axis=None, initial=0.0):.4g}")
