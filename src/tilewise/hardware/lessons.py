"""The course's own kernels, as its lessons made and launched them when they ran.

In: the project's folder. Out: ``noted``, every kernel of every lesson, and ``specimens``, the launches of
those that are right. Nothing is listed by hand: a new lesson's kernels come by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from tilewise.cases import Dim3
from tilewise.gpu.kernel import Kernel
from tilewise.gpu.launch import Launch
from tilewise.gpu.launches import Noted, decode, encode
from tilewise.hardware.specimen import Specimen

RTOL, ATOL = 1e-5, 1e-6
"""How far outputs may lie apart where a function is used whose last bits nobody promises, or floats are
added in an order that nobody promises."""
_LAUNCHES = 2
"""Launches compared of a kernel, with different blocks."""


def noted(root: Path) -> Mapping[str, tuple[Noted, ...]]:
    """Every kernel of every lesson by the lesson's id; lessons run unless what they gave is kept.

    Args:
        root: the folder ``lessons``.

    Raises:
        LessonError: a lesson fails.
    """
    files = tuple(
        file
        for file in sorted(root.glob("*/*.py"))
        if not file.name.startswith((".", "_", "#")) and file.parent.name != "measurements"
    )
    return _noted(root, tuple((file, file.stat().st_mtime_ns) for file in files))


@lru_cache(maxsize=4)
def _noted(root: Path, stamped: tuple[tuple[Path, int], ...]) -> Mapping[str, tuple[Noted, ...]]:
    from tilewise.lesson import read
    from tilewise.run import Runner
    from tilewise.simulator.toolchain import cache_folder

    project = root.resolve().parent
    found = {}
    with Runner(project, cache_folder()) as runner:
        for file, _ in stamped:
            lesson = read(file, project)
            found[lesson.id] = tuple(decode(one, lesson.path) for one in runner.run(lesson).launches)
    return found


def specimens(root: Path) -> tuple[Specimen, ...]:
    """The kernels of the lessons that ran without a fault, each with its launches; the same launch once.

    Args:
        root: the folder ``lessons``.

    Raises:
        LessonError: a lesson fails.
    """
    first: dict[str, Specimen] = {}
    for lesson, kernels in noted(root).items():
        for one in _of(lesson, kernels):
            first.setdefault(one.key, one)
    return tuple(first.values())


def _of(lesson: str, kernels: tuple[Noted, ...]) -> list[Specimen]:
    made: list[Specimen] = []
    seen: dict[str, int] = {}
    for one in kernels:
        for launch in _apart(one.launches):
            name = f"{lesson}: {title(one.kernel)}, {_blocks(launch)}"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f", number {seen[name]}"
            exact = not inexact(one.kernel)
            tolerance = (0.0, 0.0) if exact else (RTOL, ATOL)
            made.append(Specimen(name, f"{one.kernel.name} of {lesson}", launch, *tolerance))
    return made


def _apart(launches: tuple[Launch, ...]) -> list[Launch]:
    """The first of each shape of block."""
    first: dict[Dim3, Launch] = {}
    for launch in launches:
        first.setdefault(launch.block, launch)
    return list(first.values())[:_LAUNCHES]


def title(kernel: Kernel) -> str:
    """A kernel's name, and its defines where it has some."""
    defines = ", ".join(f"{name}={value}" for name, value in kernel.defines.items())
    return f"{kernel.name} with {defines}" if defines else kernel.name


def _blocks(launch: Launch) -> str:
    extents = [extent for extent in launch.block if extent > 1] or [1]
    return f"blocks of {' x '.join(map(str, extents))}"


def write(found: tuple[Specimen, ...], file: Path) -> None:
    """Write specimens into a file, for a machine that cannot run the lessons for want of a clang."""
    rows = [
        {
            "name": one.name,
            "idea": one.idea,
            "path": one.launch.kernel.origin[0],
            "rtol": one.rtol,
            "atol": one.atol,
            "kernel": encode(Noted(one.launch.kernel, (one.launch,))),
        }
        for one in found
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows), encoding="utf-8")


def written(file: Path) -> tuple[Specimen, ...]:
    """The specimens that `write` put into a file."""
    return tuple(
        Specimen(
            row["name"],
            row["idea"],
            decode(row["kernel"], row["path"]).launches[0],
            row["rtol"],
            row["atol"],
        )
        for row in json.loads(file.read_text(encoding="utf-8"))
    )


_INEXACT = frozenset(
    ("math_f32", "math_f64", "rsqrt_f32", "ex2_f32", "lg2_f32", "sin_f32", "cos_f32", "tanh_f32", "rcp_f32",
     "rsqrt_f64", "mma")
)  # fmt: skip


def inexact(kernel: Kernel) -> bool:
    """Whether it uses what need not give the same bits everywhere: functions, mma, atomic sums of floats."""
    from tilewise.simulator import compile_kernel
    from tilewise.simulator.names import numbers

    module = compile_kernel(kernel.preprocessed, options=kernel.options, origin=kernel.origin)
    code = module.kernels[kernel.name].program.code
    names = {number: name for name, number in numbers("OP").items()}
    used = {names[int(op)] for op in set(code["op"].tolist())}
    sums = code[(code["op"] == numbers("OP")["atom"]) & (code["sub"] == numbers("A")["add"])]
    floats = {numbers("T")[name] for name in ("f16", "bf16", "f32", "f64")}
    return bool(used & _INEXACT) or bool(floats & set(sums["type2"].tolist()))
