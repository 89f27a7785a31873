"""The command line: ``tilewise record | check | doctor | trace | play | puzzle``.

In: arguments. Out: an exit status. Each command is a function in ``tilewise.cli`` that takes the parsed
arguments; it is imported when it is called, so no command pays for another's imports.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from tilewise.errors import LessonError


def parser() -> argparse.ArgumentParser:
    """The parser for all commands."""
    top = argparse.ArgumentParser(
        prog="tilewise", description="GPU kernels that run, are counted and are measured."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    record = commands.add_parser("record", help="time a lesson's experiments on this machine's GPU")
    record.set_defaults(run="record:record")
    record.add_argument(
        "lessons",
        nargs="*",
        metavar="LESSON",
        help="id or path of a lesson; all if none is given",
    )
    record.add_argument(
        "--pending",
        action="store_true",
        help="without a GPU: renew keys and labels, and list what has no current record",
    )
    record.add_argument("--counters", action="store_true", help="also count with Nsight Compute")
    record.add_argument("--force", action="store_true", help="also record what is current")
    record.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help="rounds, each in a process of its own (3; 1 where one takes long)",
    )
    record.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="record this experiment or text alone; may be repeated",
    )
    check = commands.add_parser("check", help="lint the lessons and their records")
    check.set_defaults(run="check:check")
    check.add_argument(
        "lessons", metavar="LESSON", nargs="*", help="run these alone; all where none is given"
    )
    check.add_argument("--rules", action="store_true", help="print the rules for lessons and check nothing")
    doctor = commands.add_parser("doctor", help="say what this machine can run, and how to get the rest")
    doctor.set_defaults(run="doctor:doctor")
    doctor.add_argument("--probe", action="store_true", help="also measure what its GPU reaches at best")
    trace = commands.add_parser(
        "trace", help="simulate a kernel of any CUDA file, and write its stepped page"
    )
    trace.set_defaults(run="trace:trace")
    trace.add_argument("file", metavar="FILE", help="a CUDA file; its host code is left out")
    trace.add_argument(
        "--grid",
        metavar="X[,Y[,Z]]",
        help="blocks; without --grid and --block, the file's kernels are listed",
    )
    trace.add_argument("--block", metavar="X[,Y[,Z]]", help="threads per block")
    trace.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="x=f32[1024] (random), y=out:f32[32,32] (poisoned), z=zeros:i32[8], k=arange:f64[9], "
        "w=file.npy, p=f32[1030]+3 (a pointer to element 3), n=1000; one for each parameter",
    )
    trace.add_argument(
        "--assumed",
        default="",
        metavar="NAME[,NAME]",
        help="grid, block, shared and arguments that the file does not say, in a proposed launch: arrays "
        "become as long as the kernel needs, and where it meets a hazard, others are tried",
    )
    trace.add_argument("--kernel", metavar="NAME", help="which kernel: add, ns::add or 'sgemm<32, 64>'")
    trace.add_argument(
        "--define",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a macro, before the file's first line",
    )
    trace.add_argument(
        "--max-steps", type=int, metavar="N", help="warp instructions after which the run ends"
    )
    trace.add_argument(
        "--shared-bytes", "--shared", type=int, default=0, metavar="N", help="dynamic shared memory"
    )
    trace.add_argument("--out", metavar="FILE.html", help="where the page goes (FILE.trace.html, here)")
    play = commands.add_parser("play", help="edit and run a CUDA file in a page, served on this machine")
    play.set_defaults(run="play:play")
    play.add_argument("file", nargs="?", metavar="FILE", help="what the editor opens with; it is not written")
    play.add_argument("--port", type=int, metavar="N", help="where (8017, or the next free port)")
    play.add_argument("--no-browser", action="store_true", help="print the address and open nothing")
    puzzle = commands.add_parser(
        "puzzle", help="list the puzzles, begin one, check an answer, ask for a hint"
    )
    puzzle.set_defaults(run="puzzle:puzzle")
    puzzle.add_argument(
        "words", nargs="*", metavar="[start] NAME", help="NAME checks puzzles/NAME.cu, start NAME writes it"
    )
    puzzle.add_argument("--hint", nargs="?", type=int, const=1, metavar="N", help="the first N hints (1)")
    puzzle.add_argument("--file", metavar="FILE", help="check this file instead of puzzles/NAME.cu")
    child = commands.add_parser("count-child", help="(used by record --counters)")
    child.set_defaults(run="record:count_child")
    child.add_argument("lesson")
    child.add_argument("--manifest", required=True)
    child.add_argument("--experiment", action="append", default=[])
    profile = commands.add_parser("profile-child", help="(used by text records with a profile)")
    profile.set_defaults(run="record:profile_child")
    profile.add_argument("lesson")
    profile.add_argument("--record", required=True)
    profile.add_argument("--labels", required=True)
    round_child = commands.add_parser("round-child", help="(used by record)")
    round_child.set_defaults(run="record:round_child")
    round_child.add_argument("lesson")
    round_child.add_argument("--experiment", required=True)
    round_child.add_argument("--out", required=True)
    round_child.add_argument("--round", type=int, required=True)
    round_child.add_argument("--of", type=int, required=True)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: the command line without the program's name; by default, that of the process.

    Returns:
        The exit status: 0, or 1 with the reason on stderr.
    """
    parsed = parser().parse_args(arguments)
    module, _, function = parsed.run.partition(":")
    try:
        status: int = getattr(import_module(f"tilewise.cli.{module}"), function)(parsed)
        return status
    except LessonError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was written before stands, and nothing half-written does.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
