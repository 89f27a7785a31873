"""The command line: ``tilewise record | table | predict | check | doctor | trace | puzzle``.

In: arguments. Out: an exit status. Each command lives in ``tilewise.commands`` and is imported when it is
called, so that none pays for another's needs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tilewise.errors import LessonError


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = argparse.ArgumentParser(
        prog="tilewise", description="GPU kernels that run, are counted and are measured."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    record = commands.add_parser("record", help="time a lesson's experiments on this machine's GPU")
    record.add_argument(
        "lessons",
        nargs="*",
        metavar="LESSON",
        help="id or path of a lesson; 'all' for every one, as --stale and --pending mean where none is given",
    )
    record.add_argument(
        "--stale", action="store_true", help="record exactly what has no current record of this GPU"
    )
    record.add_argument(
        "--pending", action="store_true", help="list what has no current record at all; needs no GPU"
    )
    record.add_argument("--counters", action="store_true", help="also count with Nsight Compute")
    record.add_argument("--out", metavar="DIR", help="write there instead of lessons/measurements")
    record.add_argument("--force", action="store_true", help="record anew what is current")
    record.add_argument(
        "--budget", type=float, default=20.0, metavar="S", help="timed seconds a contender (20)"
    )
    record.add_argument(
        "--repetitions",
        type=int,
        default=200,
        metavar="N",
        help="repetitions a contender, over all rounds (200)",
    )
    record.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help="rounds, each in a process of its own (3; 1 where one takes long)",
    )
    record.add_argument(
        "--rekey", action="store_true", help="renew keys and labels alone, on a machine without a GPU"
    )
    record.add_argument("--add", action="store_true", help="add rounds to the records that are current")
    record.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="record this experiment or text alone; may be repeated",
    )
    table = commands.add_parser("table", help="print a lesson's tables")
    table.add_argument("lesson", metavar="LESSON", help="id or path of a lesson")
    table.add_argument("--json", action="store_true", help="one array of rows")
    ahead = commands.add_parser("predict", help="say what the records ought to be on another device")
    ahead.add_argument("--device", required=True, metavar="NAME", help="as the device table names it: H200")
    ahead.add_argument("--out", metavar="FILE", help="write there instead of lessons/predictions")
    ahead.add_argument("--add", action="store_true", help="add the experiments that a prediction lacks")
    ahead.add_argument("--force", action="store_true", help="replace a prediction that is there")
    check = commands.add_parser("check", help="lint the lessons and their records")
    check.add_argument(
        "lessons", metavar="LESSON", nargs="*", help="run these alone; all where none is given"
    )
    check.add_argument("--rules", action="store_true", help="print the rules for lessons and check nothing")
    doctor = commands.add_parser("doctor", help="say what this machine can run, and how to get the rest")
    doctor.add_argument("--probe", action="store_true", help="also measure what its GPU reaches at best")
    trace = commands.add_parser(
        "trace", help="simulate a kernel of any CUDA file, and write its stepped page"
    )
    trace.add_argument("file", metavar="FILE", help='CUDA C with an extern "C" __global__ function')
    trace.add_argument("--grid", required=True, metavar="X[,Y[,Z]]", help="blocks")
    trace.add_argument("--block", required=True, metavar="X[,Y[,Z]]", help="threads a block")
    trace.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="x=f32[1024] (random), y=out:f32[32,32] (poisoned), z=zeros:i32[8], k=arange:f64[9], n=1000; "
        "one for each parameter",
    )
    trace.add_argument("--kernel", metavar="NAME", help="which kernel, where the file has several")
    trace.add_argument(
        "--shared-bytes", "--shared", type=int, default=0, metavar="N", help="dynamic shared memory"
    )
    trace.add_argument("--out", metavar="FILE.html", help="where the page goes (FILE.trace.html, here)")
    puzzle = commands.add_parser(
        "puzzle", help="list the puzzles, begin one, check an answer, ask for a hint"
    )
    puzzle.add_argument(
        "words", nargs="*", metavar="[start] NAME", help="NAME checks puzzles/NAME.cu, start NAME writes it"
    )
    puzzle.add_argument("--hint", nargs="?", type=int, const=1, metavar="N", help="the first N hints (1)")
    puzzle.add_argument("--file", metavar="FILE", help="check this file instead of puzzles/NAME.cu")
    child = commands.add_parser("count-child", help="(used by record --counters)")
    child.add_argument("lesson")
    child.add_argument("--manifest", required=True)
    child.add_argument("--experiment", action="append", default=[])
    one = commands.add_parser("round-child", help="(used by record)")
    one.add_argument("lesson")
    one.add_argument("--experiment", required=True)
    one.add_argument("--out", required=True)
    one.add_argument("--budget", type=float, required=True)
    one.add_argument("--repetitions", type=int, required=True)
    one.add_argument("--with-host", action="store_true")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: the command line without the program's name; the process's own where not given.

    Returns:
        The exit status: 0, or 1 with the reason on stderr.
    """
    given = parser().parse_args(arguments)
    try:
        if given.command == "record":
            if given.pending:
                from tilewise.commands.pending import pending

                return pending(given.lessons)
            if not given.lessons and not given.stale:
                message = "there is no lesson named."
                raise LessonError("tilewise record", 0, message, "Name one, or all, or give --stale.")
            if given.rekey:
                from tilewise.commands.rekey import rekey

                return rekey(given.lessons)
            from tilewise.commands.record import record

            wanted = (given.lessons, given.counters, given.out, given.force, given.budget)
            return record(*wanted, given.rounds, given.add, given.only, given.repetitions, given.stale)
        if given.command == "round-child":
            from tilewise.commands.record import round_child
            from tilewise.gpu.timing import Plan

            plan = Plan(given.budget, given.repetitions, with_host=given.with_host)
            return round_child(given.lesson, given.experiment, given.out, plan)
        if given.command == "count-child":
            from tilewise.commands.record import count_child

            return count_child(given.lesson, given.manifest, given.experiment)
        if given.command == "table":
            from tilewise.commands.table import table

            return table(given.lesson, given.json)
        if given.command == "predict":
            from tilewise.commands.predict import write

            return write(given.device, given.out, given.force, given.add)
        if given.command == "check":
            from tilewise.commands.check import check, print_rules

            return print_rules() if given.rules else check(given.lessons)
        if given.command == "trace":
            from tilewise.commands.trace import trace

            return trace(
                given.file,
                given.arg,
                grid=given.grid,
                block=given.block,
                name=given.kernel,
                shared_bytes=given.shared_bytes,
                out=given.out,
            )
        if given.command == "puzzle":
            from tilewise.commands.puzzle import puzzle

            return puzzle(given.words, given.hint, given.file)
        from tilewise.commands.doctor import doctor

        return doctor(given.probe)
    except LessonError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was written before stands, and nothing half-written does.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
