"""Writes down launches of the simulator, for ``test_replay.py`` to repeat in a browser.

``python -m tests.browser.replay FOLDER lesson.py`` runs a lesson; ``FOLDER pytest ...`` runs tests. Each
launch that is not too large is written once: the program, what it got, and what the machine made of it.
"""

import ctypes
import hashlib
import json
import os
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import tilewise.simulator
from tilewise.cuda.tensor_map import TensorMap
from tilewise.figures.kinds.stepped import traced_of
from tilewise.figures.kinds.stepped.run_figure import beyond_shape, fits, of_run, touched
from tilewise.outputs.table import number
from tilewise.simulator import HazardError
from tilewise.simulator import run as simulator_run
from tilewise.simulator.browser.program import program_data
from tilewise.simulator.engine import machine
from tilewise.simulator.engine.memory import Memory
from tilewise.simulator.engine.shared import (
    COUNTERS,
    GLOBAL_BASE,
    GLOBAL_SHIFT,
    HAZARD,
    HAZARD_KINDS,
    numbers,
)

LARGEST_BYTES = 4 << 20
"""Of all arrays of a launch that is written down."""
MOST_ACCESSES = 60_000
"""Of a traced run whose stepped figure is written down, as the page draws it."""
MOST_STEPS = 3_000_000
"""Warp instructions of a launch that is written down: about a second in a browser."""


class Recorder:
    """Stands before ``simulator.launch`` and writes down what goes through it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: set[Any] = set()
        self.left_out = 0
        self._launch, self._run = simulator_run.launch, machine.run
        self._memory: Memory | None = None
        self._variables: list[dict[str, Any]] = []
        self._skews: list[int] = []
        self._ended: dict[str, Any] = {}

    def install(self) -> None:
        """Have every launch come through here, on one core as in a page."""
        os.environ["TILEWISE_CORES"] = "1"
        for module in (tilewise.simulator, simulator_run):
            module.launch = self.launch  # type: ignore[attr-defined]
        simulator_run.Memory = self._remembered  # type: ignore[attr-defined]
        machine.run = self._kept

    def _remembered(self, *given: Any) -> Memory:
        self._memory = memory = Memory(*given)
        first = len(memory.arrays)
        self._variables = [
            {"data": kept.tolist(), "unset": bool(memory.table[number].unset)}
            for number, kept in enumerate(memory.variables, first)
        ]
        self._skews = [int(one.skew) for one in memory.table[:first]]
        return memory

    def _kept(self, launch: Any) -> Any:
        status, accesses, printed = self._run(launch)
        rows = ctypes.string_at(launch.counts, 8 * len(COUNTERS) * launch.n_lines)
        self._ended = {
            "status": status,
            "steps": launch.steps,
            "used_clock": bool(launch.used_clock),
            "counts": np.frombuffer(rows, np.uint64).astype(str).tolist(),
            "hazards": _rows(launch.hazards, launch.n_hazards),
            "notes": _rows(launch.notes, launch.n_notes),
            "printed": printed,
            "accesses": accesses.tobytes(),
        }
        return status, accesses, printed

    def launch(self, entry: Any, arguments: Any, **options: Any) -> Any:
        """Launch, and write it down unless the same has been, or it is too large."""
        given = [_argument(value, number) for number, value in enumerate(arguments)]
        compiled = entry
        if options.get("trace") is not None:
            compiled = replace(entry.module.watched[0].kernels[entry.name], function=entry.function)
        key = (
            entry.name,
            compiled.module.compiled,
            options.get("state"),  # itself: another may get its address once it is gone
            repr(sorted((name, value) for name, value in options.items() if name != "state")),
            repr([one[0] for one in given]),
        )
        wanted = key not in self.seen and sum(len(data) for _, data in given) <= LARGEST_BYTES
        self.seen.add(key)
        self._ended = {}
        run = None
        try:
            run = self._launch(entry, arguments, **options)
            return run
        except HazardError as error:
            run = error.run
            raise
        finally:
            if run is not None:
                self._ended["said"] = _said(run)
                self._ended["stepped"] = _stepped(run)
            if wanted and self._ended and self._ended["steps"] <= MOST_STEPS:
                self._write(compiled, entry, given, options)
            elif wanted and self._ended:
                self.left_out += 1

    def _write(self, compiled: Any, entry: Any, given: Any, options: Any) -> None:
        assert self._memory is not None
        trace = options.get("trace")
        program = json.dumps(program_data(compiled))
        mark = hashlib.sha256(program.encode()).hexdigest()[:16]
        (self.folder / f"{mark}.program").write_text(program)
        said = self._ended.pop("said")
        stepped = self._ended.pop("stepped")
        number = len(list(self.folder.glob("*.json")))
        inside = b"".join(data for _, data in given)
        outside = b"".join(self._memory.copies[at].tobytes() for at in sorted(self._memory.copies))
        accesses = self._ended.pop("accesses")
        (self.folder / f"{number:04}.bin").write_bytes(inside + outside + accesses)
        launch = {
            "kernel": entry.title,
            "program": mark,
            "arguments": [
                {**about, "bytes": len(data), "skew": skew}
                for (about, data), skew in zip(given, self._skews, strict=True)
            ],
            "variables": self._variables,
            "ignored": sum(1 << at for at, kind in HAZARD_KINDS.items() if kind in options.get("ignore", ())),
            "grid": options["grid"],
            "block": options["block"],
            "sharedBytes": options.get("shared_bytes", 0),
            "collect": options.get("hazards") == "collect",
            "maxSteps": options.get("max_steps", simulator_run.MAX_STEPS),
            "trace": None
            if trace is None
            else {
                "blocks": None if trace.blocks is None else [int(one) for one in trace.blocks],
                "warps": None if trace.warps is None else [int(one) for one in trace.warps],
                "maxSteps": trace.max_steps,
            },
            "parts": [len(inside), len(outside), len(accesses)],
            "ended": self._ended,
            "said": said,
            "watched": list(entry.module.watched[1]) if trace else [],
            "stepped": stepped,
        }
        (self.folder / f"{number:04}.json").write_text(json.dumps(launch))


def _argument(value: Any, number: int) -> tuple[dict[str, Any], bytes]:
    if isinstance(value, TensorMap):
        raw = value.described(GLOBAL_BASE + (number << GLOBAL_SHIFT), numbers("TYPE"))
        about = _array(value.source)
        return {**about, "raw": list(raw)}, value.source.tobytes()
    if isinstance(value, np.ndarray) and value.ndim and not (value.dtype.names and value.size == 1):
        return _array(value), value.tobytes()
    if value is None:
        return {"kind": "value", "isNull": True}, b""
    return {"kind": "value", "mayPoint": _may_point(value)}, np.asarray(value).tobytes()


def _array(array: Any) -> dict[str, Any]:
    same = f"{array.ctypes.data} {array.nbytes}"
    width = array.dtype.itemsize
    about = {"kind": "array", "writable": bool(array.flags.writeable), "same": same, "width": width}
    return {**about, "type": array.dtype.str[1:], "mayPoint": _may_point(array)}


def _may_point(value: Any) -> bool:
    return isinstance(value, np.ndarray) and (value.dtype.names is not None or value.dtype == np.uint64)


def _stepped(run: Any) -> dict[str, Any] | None:
    """The stepped figure of a traced run that is no larger than the page draws; None for others."""
    if not 0 < len(run.accesses) <= MOST_ACCESSES:
        return None
    traced = traced_of(run)
    numbers = touched(traced.rows, traced.buffers)
    parts = of_run(traced, numbers, {"start": 0})
    return {
        **parts,
        "fits": fits(traced),
        "beyond": [beyond_shape(traced, number) for number in numbers],
    }


def _said(run: Any) -> dict[str, Any]:
    """What the page says of a run in the same words."""
    found = [[one.kind, one.line, one.is_near, one.message, one.count] for one in run.hazards]
    return {"hazards": found, "notes": list(run.notes), "title": run.title, "table": _table(run)}


def _table(run: Any) -> list[list[list[str]]]:
    """Of each line, and of all, the texts, titles and marks of the cells."""
    made = run.as_output()
    return [
        [
            [one.text if isinstance(one.text, str) else number(one.text), one.title or "", one.mark or ""]
            for one in row.cells
        ]
        for row in (*made.lines, made.total)
    ]


def _rows(address: int, count: int) -> list[list[str]]:
    rows = np.frombuffer(ctypes.string_at(address, HAZARD.itemsize * count), HAZARD)
    return [[str(int(row[name])) for name in HAZARD.names or ()] for row in rows]


def main() -> int:
    """Run what the command line names, writing down its launches."""
    folder, what, *rest = sys.argv[1:]
    recorder = Recorder(Path(folder))
    recorder.install()
    if what == "pytest":
        import pytest

        return int(pytest.main([*rest, "-p", "no:cacheprovider"]))
    sys.argv = [what, *rest]
    sys.path.insert(0, str(Path(what).parent))
    runpy.run_path(what, run_name="__main__")
    if recorder.left_out:
        print(f"{recorder.left_out} launches of more than {MOST_STEPS:,} steps left out", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
