"""What a call would launch, and why: the kernel, its lesson, the time bound, and the nearest recorded time.

In: a function's name and the shapes of its arrays. Out: an `Explanation`, which prints as lines. Nothing is
compiled or launched, and no array is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewise.cuda.kernel_source import KernelError
from tilewise.errors import nearest
from tilewise.kernels.calls import attentions, matmul_choices, softmaxes, sums, transposes
from tilewise.kernels.calls.arrays import STORED
from tilewise.kernels.calls.attentions import Problem
from tilewise.kernels.calls.launching import Choice, capability
from tilewise.measurements.archive import Archive, ceilings_of, lesson_root
from tilewise.measurements.record import Record, Row
from tilewise.models.roofline import Bound, bound

RECORDED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "sum_fp32": (("sums", "4 x float4"),),
    "transpose_fp32": (("transposes", "float4, 64 x 64, column-major blocks"),),
    "matmul_fp32": (("fp32_sizes", "128 × 256 tiles"),),
    "matmul_fp32_narrow": (("fp32_sizes", "128 × 128 tiles"),),
    "matmul_bf16": (("hopper_ladder", "even waves"),),
    "softmax_on_chip": (
        ("softmax_rows", "fused, 32 elements per thread"),
        ("softmax_rows_bf16", "fused, 32 elements per thread"),
    ),
    "softmax_online": (("softmax_rows", "online, two-pass"), ("softmax_long_rows", "online, two-pass")),
    "softmax_long": (
        ("softmax_long_rows", "next row prefetched, blocks of 256"),
        ("softmax_long_rows_bf16", "next row prefetched, blocks of 256"),
    ),
    "attention_fp32": (("attention_flash", "one split"),),
    "attention_mma": (("attention_mma", "Kernel 7: 32 queries per warp"),),
    "attention_hopper": (("attention_forward", "overlap, ping-pong, longest first"),),
}
"""By published kernel: the experiments that timed it, and its name in their tables."""


@dataclass(frozen=True)
class Work:
    """What a call must do."""

    choice: Choice
    """The kernel that does it."""
    bytes: float
    """Bytes that memory must move: every array once."""
    flop: float = 0.0
    """Operations; a multiply-add counts as two."""
    arithmetic: str = "fp32"
    """The units that do them."""
    launches: int = 1
    """The least number of kernels."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Extents by their names in the records."""
    dtype: str = "float32"
    """The element type."""


@dataclass(frozen=True)
class Timed:
    """A recorded time of the chosen kernel at the size nearest to the call's."""

    variant: str
    """The kernel's name in the lesson's table."""
    case: str
    """The size, in words."""
    median_us: float
    """The median."""
    device: str
    """The GPU."""


@dataclass(frozen=True)
class Explanation:
    """What a call would launch; `print` shows it."""

    call: str
    """The function and the shapes."""
    work: Work
    """Its work and its kernel."""
    machine: str
    """The GPU that the bound is for."""
    bound: Bound | None
    """The lower bound of the time, from that GPU's data sheet; None if no record names a GPU."""
    timed: Timed | None
    """The nearest recorded time; None if there is none."""

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.work.choice.kernel

    @property
    def lesson(self) -> str | None:
        """The lesson that explains it; None for a general kernel."""
        return self.work.choice.lesson

    def __str__(self) -> str:
        choice, timed, least = self.work.choice, self.timed, self.bound
        settings = " ".join(f"{name}={value}" for name, value in choice.settings.items())
        rows = {
            "call": self.call,
            "kernel": choice.kernel,
            "why": choice.why,
            "settings": settings or "none",
            "lesson": choice.lesson or "none: it takes what no lesson's kernel does",
            "bound": "unknown, because there are no records"
            if least is None
            else f"{least.time_us:,.1f} us by {least.limited_by}, on {self.machine}",
            "recorded": "no time of this kernel"
            if timed is None
            else f"{timed.median_us:,.1f} us at {timed.case} on {timed.device} ({timed.variant})",
        }
        return "\n".join(f"{name:9} {text}" for name, text in rows.items())

    __repr__ = __str__


def explain(function: str, *shapes: tuple[int, ...], dtype: str = "float32", **how: Any) -> Explanation:
    """Which kernel a call launches, why, its lesson, its bound, and the nearest recorded time.

    Args:
        function: "softmax", "sum", "transpose", "matmul", "attention" or "attention_backward".
        *shapes: of its arrays; attention without a second shape takes that of the first.
        dtype: their element type.
        **how: `causal=`, `shift=`, `scale=` and `layout=` of attention.

    Raises:
        KernelError: there is no such function, or the shapes do not fit it.
    """
    if function not in _WORK:
        raise KernelError(f'explain: no function "{function}". {nearest(function, _WORK)}')
    if dtype not in STORED:
        raise KernelError(f"explain: dtype is {dtype!r}. Pass one of {', '.join(STORED)}.")
    try:
        work = _WORK[function](dtype, *shapes, **how)
    except (TypeError, ValueError) as error:
        if isinstance(error, KernelError):
            raise
        raise KernelError(f"explain: the shapes {shapes} do not fit {function}: {error}.") from None
    archive = _archive()
    near = _nearest(work, archive) if archive else None
    record = near[0] if near else next(archive.records(), None) if archive else None
    ceilings = ceilings_of(record.provenance) if record else None
    least = (
        bound(
            ceilings,
            bytes_moved=work.bytes,
            flop=work.flop,
            arithmetic=work.arithmetic,
            launches=work.launches,
        )
        if ceilings
        else None
    )
    call = f"{function}({', '.join(str(shape) for shape in shapes)}), {dtype}"
    call += "".join(f", {name}={value}" for name, value in how.items())
    machine = str(record.provenance["device"]) if record else ""
    return Explanation(call, work, machine, least, _timed(*near) if near else None)


def _sum(dtype: str, shape: tuple[int, ...]) -> Work:
    choice = sums.choose(dtype, math.prod(shape), arch=capability())
    moved = _bytes(dtype, math.prod(shape))
    return Work(choice, moved, launches=1 if choice.lesson is None and moved <= sums.ONE_CLUSTER else 2)


def _transpose(dtype: str, shape: tuple[int, ...]) -> Work:
    *leading, rows, columns = shape
    size = STORED[dtype].itemsize
    choice = transposes.choose(rows, columns, size, whole=True, matrices=math.prod(leading))
    return Work(choice, _bytes(dtype, 2 * math.prod(shape)))


def _softmax(dtype: str, shape: tuple[int, ...]) -> Work:
    choice = softmaxes.choose(shape[-1], dtype, rows=math.prod(shape[:-1]), arch=capability())
    sizes = {"cols": shape[-1]}
    return Work(choice, _bytes(dtype, 2 * math.prod(shape)), sizes=sizes, dtype=dtype)


def _matmul(dtype: str, a: tuple[int, ...], b: tuple[int, ...]) -> Work:
    (*leading, m, k), n = a, b[-1]
    if b[-2] != k:
        raise ValueError(f"the inner extents {k} and {b[-2]} differ")
    matrices = math.prod(leading)
    loads = (matmul_choices.load(2 * k), matmul_choices.load(2 * n))
    choice = matmul_choices.choose(
        *(m, n, k, dtype),
        matrices=matrices,
        arch=capability(),
        plain=n % 8 == 0,
        loads=loads,
        pads=True,
        across=(loads[0] == 16 and k % 64 != 0, loads[1] == 16 and n % 64 != 0),
    )
    moved = _bytes(dtype, math.prod(a) + math.prod(b) + matrices * m * n)
    return Work(choice, moved, 2.0 * matrices * m * n * k, _units(dtype), sizes={"M": m, "N": n, "K": k})


def _problem(dtype: str, q: tuple[int, ...], *others: tuple[int, ...], **how: Any) -> Problem:
    layout = how.get("layout", "BHSD")
    if layout not in attentions.LAYOUTS:
        raise ValueError(f"layout is {layout!r}")
    order = attentions.LAYOUTS[layout]
    shapes = [(*(1,) * (4 - len(shape)), *shape) for shape in (q, others[0] if others else q)]
    (batch, heads, queries, d), (_, kv_heads, keys, _) = ([shape[axis] for axis in order] for shape in shapes)
    causal, shift = bool(how.get("causal")), how.get("shift")
    by = (keys - queries if shift is None else int(shift)) if causal else keys
    scale = how.get("scale")
    sizes = (batch, heads, kv_heads, queries, keys, d, dtype, causal, by)
    return Problem(*sizes, d**-0.5 if scale is None else float(scale))


def _pairs(problem: Problem) -> float:
    """Pairs of a query and a visible key, over all heads."""
    pairs = problem.queries * problem.keys
    if problem.causal:
        pairs = sum(min(problem.keys, max(0, i + 1 + problem.shift)) for i in range(problem.queries))
    return float(problem.batch * problem.heads * pairs)


def _attention(dtype: str, *shapes: tuple[int, ...], **how: Any) -> Work:
    problem = _problem(dtype, *shapes, **how)
    rows = problem.batch * (2 * problem.heads * problem.queries + 2 * problem.kv_heads * problem.keys)
    flop = 4.0 * _pairs(problem) * problem.d
    sizes = {"N": problem.keys, "d": problem.d, "causal": problem.causal}
    choice = attentions.choose(problem, capability())
    return Work(choice, _bytes(dtype, rows * problem.d), flop, _units(dtype), sizes=sizes)


def _attention_backward(dtype: str, *shapes: tuple[int, ...], **how: Any) -> Work:
    problem = _problem(dtype, *shapes, **how)
    rows = problem.batch * (4 * problem.heads * problem.queries + 4 * problem.kv_heads * problem.keys)
    choice = attentions.choose_backward(problem, capability())
    flop = 10.0 * _pairs(problem) * problem.d
    return Work(
        choice,
        _bytes(dtype, rows * problem.d),
        flop,
        _units(dtype),
        2 if choice.kernel == "general/attention" else 3,
    )


_WORK: Mapping[str, Callable[..., Work]] = {
    "attention": _attention,
    "attention_backward": _attention_backward,
    "matmul": _matmul,
    "softmax": _softmax,
    "sum": _sum,
    "transpose": _transpose,
}


def _bytes(dtype: str, elements: float) -> float:
    return float(elements * STORED[dtype].itemsize)


def _units(dtype: str) -> str:
    return {"float32": "fp32", "bfloat16": "bf16_matrix", "float16": "fp16_matrix"}[dtype]


def _archive() -> Archive | None:
    try:
        root = lesson_root()
    except (OSError, ValueError):
        return None
    return Archive(root) if root.is_dir() else None


def _nearest(work: Work, archive: Archive) -> tuple[Record, Row] | None:
    """The record and row of the kernel at the size nearest by ratio."""
    rows = list(_rows(work, archive))
    return min(rows, key=lambda pair: _apart(work, pair[1])) if rows else None


def _rows(work: Work, archive: Archive) -> Iterator[tuple[Record, Row]]:
    for experiment, variant in RECORDED.get(work.choice.kernel, ()):
        if work.dtype == "float32" and experiment.endswith("_bf16"):
            continue
        for record in archive.on_each(experiment):
            for row in record.rows:
                if row.variant == variant and row.median:
                    yield record, row


def _apart(work: Work, row: Row) -> float:
    """The distance of a row's size from the call's: the ratios of extents, then of the work."""
    extents = sum(
        abs(math.log(max(value, 1) / max(row.case[name], 1))) if not isinstance(value, bool) else 9.0
        for name, value in work.sizes.items()
        if row.case.get(name, value) != value
    )
    of_call, of_row = (work.flop, row.flop) if work.flop and row.flop else (work.bytes, row.bytes)
    return 10 * extents + abs(math.log((of_call or 1.0) / (of_row or 1.0)))


def _timed(record: Record, row: Row) -> Timed:
    case = ", ".join(f"{name} = {_size(value)}" for name, value in row.case.items())
    return Timed(row.variant, case, row.median or 0.0, str(record.provenance["device"]))


def _size(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
