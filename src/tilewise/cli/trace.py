"""``tilewise trace``: simulate a kernel of any CUDA file, and write a page with its memory accesses.

In: a file, a launch, and arguments as ``name=f32[1024]``. Out: counts by source line and hazards on stdout,
and one HTML file that opens without a server.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tilewise
from tilewise.cli.trace_arguments import case_of, named
from tilewise.errors import LessonError

if TYPE_CHECKING:
    from tilewise.figures import Figure
    from tilewise.kernel.kernel import Kernel
    from tilewise.kernel.launch import Launch
    from tilewise.simulator import Run, Trace

_FEW_STEPS = 4_000_000
"""First limit of warp instructions while assumed lengths are adjusted."""
MOST_ACCESSES = 200_000
"""Most accesses of a run that is traced entirely; of larger runs, the first block or warp is."""


def trace(arguments: Namespace) -> int:
    """Simulate a launch, print its counts and hazards, and write its page.

    Returns:
        0 if there was no hazard, or kernels were listed; else 1.

    Raises:
        LessonError: the file is missing or does not compile, an argument or the launch does not fit, or the
            page cannot be written.
    """
    file: str = arguments.file
    path = Path(file)
    if not path.is_file():
        raise LessonError(file, 0, "there is no such file.")
    macros = _macros(file, arguments.define)
    text = text_of(file, path)
    if arguments.grid is None or arguments.block is None:
        from tilewise.cli.trace_proposals import proposals

        try:
            print("\n".join(proposals(file, path, text, macros)))
        except ValueError as error:
            raise _as_error(file, error) from None
        return 0
    target = Path(arguments.out) if arguments.out else Path(f"{path.stem}.trace.html")
    if not target.parent.is_dir():
        raise LessonError(str(target), 0, "there is no such folder.", "Make it, or name another with --out.")
    from tilewise.cli.trace_assumed import advice, growth, lengthened

    assumed = arguments.assumed.split(",") if arguments.assumed else []
    shape = {"--grid": arguments.grid, "--block": arguments.block, "--shared": str(arguments.shared_bytes)}
    first = named(file, arguments.arg) | shape
    values = dict(first)
    launch_with = partial(_launch, file, _kernel(file, text, path, arguments.kernel, macros))
    max_steps = arguments.max_steps
    limit = _FEW_STEPS if assumed and max_steps is None else max_steps
    while True:
        launch = launch_with(values)
        again, run = _simulated(file, launch, limit)
        longer = lengthened(file, values, assumed, run.hazards)
        is_cut_off = limit != max_steps and any(hazard.kind == "steps" for hazard in run.hazards)
        if not longer and not is_cut_off:
            break
        limit = limit if longer else max_steps
        values |= longer
    run = _as_cut_off(run, partial(launch_with, values), max_steps)
    print(run.printed, end="")
    print(run.text())
    passed = [f"{name}={value}" for name, value in values.items() if not name.startswith("--")]
    facts = " ".join(
        ["tilewise trace", path.name, f"--grid {arguments.grid} --block {arguments.block}", *passed]
    )
    figure = _figure(run, launch)  # before other values are tried, which resets the variables
    advice_text = growth(first, values)
    if run.hazards and assumed:
        advice_text += advice(file, values, assumed, run.hazards, launch_with)
    if advice_text:
        print(advice_text, file=sys.stderr)  # before the hazards, which may come from the launch
    place, _ = launch.kernel.entry.module.place(1)
    repairs = {""}
    for hazard in run.hazards:
        repair = "" if hazard.repair in repairs else f" {hazard.repair}"
        repairs.add(hazard.repair)
        at = f"{place}:{hazard.line}" if hazard.line or not hazard.header else hazard.header
        print(f"{at}: {hazard}{hazard.place}.{repair}", file=sys.stderr)
    _write_page(target, run, again, figure, facts, advice_text)
    return 1 if run.hazards else 0


def text_of(file: str, path: Path) -> str:
    """The text of a CUDA file.

    Raises:
        LessonError: it is not text, or empty.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        text = path.read_bytes().decode("latin-1")
        if "\0" in text:
            raise LessonError(file, 0, "the file is no text.", "Give CUDA C source.") from None
    if not text.strip():
        raise LessonError(file, 0, "the file is empty.")
    return text


def _macros(file: str, defines: Sequence[str]) -> dict[str, str]:
    macros = {}
    for define in defines:
        name, _, value = define.partition("=")
        if not name.isidentifier():
            raise LessonError(file, 0, f'"{define}" is not a macro.', "Write --define NAME=VALUE.")
        macros[name] = value
    return macros


def _kernel(file: str, text: str, path: Path, name: str | None, defines: Mapping[str, str]) -> Kernel:
    from tilewise.kernel.kernel import Kernel

    try:
        return Kernel(text, name=name, defines=defines, folder=path.resolve().parent, origin=(file, 1))
    except ValueError as error:
        raise _as_error(file, error) from None


def _launch(file: str, kernel: Kernel, values: Mapping[str, str]) -> Launch:
    """A launch from values as text, by name; resets the kernel's variables."""
    kernel.state.reset()
    grid, block = (_shape(file, what, values[f"--{what}"]) for what in ("grid", "block"))
    arguments = {name: text for name, text in values.items() if not name.startswith("--")}
    try:
        return kernel.on(case_of(file, kernel, arguments), grid, block, int(values["--shared"]))
    except (ValueError, TypeError) as error:
        raise _as_error(file, error) from None


def _simulated(file: str, launch: Launch, max_steps: int | None) -> tuple[dict[str, Any], Run]:
    """The page's data to run a launch again, and its run, up to the first fatal hazard."""
    from tilewise.cli.trace_page import relaunch
    from tilewise.simulator import HazardError

    try:
        again = relaunch(launch)
        with contextlib.redirect_stdout(io.StringIO()):  # only the output of the last run is printed
            return again, launch.simulate(hazards="collect", max_steps=max_steps)
    except (ValueError, TypeError, RuntimeError) as error:
        raise _as_error(file, error) from None
    except HazardError as error:
        return again, error.run


def _as_cut_off(run: Run, again: Callable[[], Launch], max_steps: int | None) -> Run:
    """The run, with a note instead of the hazard of too many steps if its blocks finish one after another.

    With half the limit, such a run ends in an earlier block; an endless loop ends in the same one.
    """
    from tilewise.simulator import MAX_STEPS, HazardError

    long = next((hazard for hazard in run.hazards if hazard.kind == "steps"), None)
    if not long:
        return run
    most = MAX_STEPS if max_steps is None else max_steps
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            half = again().simulate(hazards="collect", max_steps=max(most // 2, 1))
    except HazardError as error:
        half = error.run
    block, half_block = (
        next((hazard.message.partition(" is still")[0] for hazard in hazards if hazard.kind == "steps"), "")
        for hazards in (run.hazards, half.hazards)
    )
    if block == half_block:
        return run
    note = (
        f"the run ends after {most:,} warp instructions, in {block}: the blocks before it are complete. "
        "Launch fewer blocks, or allow more with --max-steps."
    )
    return replace(
        run, hazards=tuple(hazard for hazard in run.hazards if hazard is not long), notes=(*run.notes, note)
    )


def _as_error(file: str, error: Exception) -> LessonError:
    return error if isinstance(error, LessonError) else LessonError(file, 0, str(error))


def _write_page(
    target: Path,
    run: Any,
    again: dict[str, Any],
    figure: tuple[Figure | None, str],
    facts: str,
    advice_text: str,
) -> None:
    """Write the page; if its scripts cannot be built, only print why."""
    from tilewise.cli.trace_page import page
    from tilewise.site.frontend import FrontendError, build_assets

    try:
        assets = build_assets(cache_root())
    except FrontendError as error:
        print(f"the page was not written: {error}", file=sys.stderr)
        return
    try:
        target.write_text(page(run, again, *figure, facts, advice_text, assets), encoding="utf-8")
    except OSError as error:
        raise LessonError(str(target), 0, f"the page cannot be written: {error.strerror}.") from None
    print(f"wrote {target} ({target.stat().st_size / 1e6:.1f} MB): open it in a browser")


def _figure(run: Any, launch: Launch) -> tuple[Figure | None, str]:
    """The stepped figure of as much of the run as fits in one, and a sentence on what it omits."""
    from tilewise.figures import stepped

    reason = ""
    for traced, note in _narrower(run):
        try:
            again = launch.simulate(hazards="collect", trace=traced)
        except LessonError as error:
            if not hasattr(error, "run"):
                raise
            again = replace(error.run, launch=launch)
        try:
            figure = stepped(
                again,
                title=f"{run.title}, step by step",
                caption=(
                    "Warps that do the same share a step; barriers keep their order. "
                    "Hardware may order the rest otherwise."
                ),
            )
        except ValueError as error:
            reason = str(error)
            continue
        return figure, note
    return None, f"No figure was made: {reason}"


def _narrower(run: Any) -> Iterator[tuple[Trace, str]]:
    """What to trace, from everything to less and less."""
    from tilewise.simulator import Trace

    counts = run.counts
    parts = (
        counts.global_load, counts.global_store, counts.global_atomic,
        counts.shared_load, counts.shared_store, counts.shared_atomic,
    )  # fmt: skip
    accesses = sum(part.lane_accesses for part in parts)
    blocks = run.grid[0] * run.grid[1] * run.grid[2]
    if accesses <= MOST_ACCESSES:
        yield Trace(), ""
    if blocks > 1 and accesses // blocks <= MOST_ACCESSES:
        yield Trace(blocks=[0]), f"The figure shows block 0 of {blocks:,}; the table counts all."
    for most in (5000, 1000, 300):
        yield (
            Trace(blocks=[0], warps=[0], max_steps=most),
            f"The figure shows the first {most:,} instructions of warp 0 of block 0; the table counts all.",
        )


def cache_root() -> Path:
    """The folder for built styles and scripts: a checkout of tilewise itself, else the home folder."""
    checkout = Path(tilewise.__file__).resolve().parents[2]
    return checkout if (checkout / "mkdocs.yml").is_file() else Path.home()


def _shape(file: str, what: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in re.split(r"[,x]", text))
    except ValueError:
        raise LessonError(
            file, 0, f'"{text}" is no {what}.', f"Write --{what} 4 or --{what} 4,2,1."
        ) from None
