"""``python -m validation``: record the counters of this machine's GPU for every specimen.

In: nothing, on a machine with an NVIDIA GPU, CuPy and Nsight Compute. Out: the device's record, written
into ``records/counters`` or a folder that is named. With ``--renew`` it renews the records that need no GPU
instead. ``--list FILE`` writes the lessons' kernels and launches down, for ``validation.sanitizer`` and for
``--lessons FILE`` on a machine that has no clang to run the lessons with.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from tilewise.errors import LessonError
from tilewise.gpu.counters import find_ncu
from tilewise.gpu.device import gpu_fault
from tilewise.measurements.validation_file import FOLDER
from validation import copies
from validation.collection import COURSE, collect, load_specimens, save_specimens, specimens
from validation.counting import child, count
from validation.record import PROJECT, write
from validation.renewal import renew


def main() -> int:
    """Record or renew."""
    parser = argparse.ArgumentParser(prog="python -m validation", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=PROJECT / FOLDER / "counters", help="the folder that gets the record"
    )
    parser.add_argument("--renew", action="store_true", help="renew the records that need no GPU")
    parser.add_argument("--list", type=Path, help="write the lessons' kernels and launches into this file")
    parser.add_argument("--lessons", type=Path, help="a file of --list: count these, without running lessons")
    parser.add_argument("--copies", action="store_true", help="count bulk copies and wgmma instead")
    parser.add_argument("--child", type=Path, nargs=2, help=argparse.SUPPRESS)
    try:
        return _run(parser.parse_args())
    except LessonError as error:
        print(error, file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    if arguments.child:
        manifest, listed = arguments.child
        child(manifest, load_specimens(listed))
        return 0
    if arguments.list:
        save_specimens(specimens(COURSE), arguments.list)
        return 0
    if arguments.renew:
        return _renew()
    ncu, fault = find_ncu(), gpu_fault()
    if ncu is None or fault is not None:
        print(
            f"No counters can be taken here. {fault or 'Nsight Compute (ncu) is missing.'}", file=sys.stderr
        )
        return 1
    chosen = collect(arguments.lessons)
    if arguments.copies:
        counted = copies.without_outputs(count(ncu, list(filter(copies.uses, chosen)), copies.METRICS))
        print(write(counted, arguments.out.with_name(copies.KIND)))
    else:
        print(write(count(ncu, chosen), arguments.out))
    return 0


def _renew() -> int:
    try:
        failures = renew(partial(print, flush=True))
    except KeyboardInterrupt:
        print("Interrupted. What was done is recorded; make records goes on from there.", file=sys.stderr)
        return 130
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
