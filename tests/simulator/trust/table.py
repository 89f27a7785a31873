"""Instructions as rows of a table: a name, code in CUDA C or PTX, inputs, and what must come out.

In: rows. Out: the results of each, from one compilation of all. What is right is the rows' own business.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tests.simulator.kernels import simulate

Array = np.ndarray
C_TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "unsigned short",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned",
    "int64": "long long",
    "uint64": "unsigned long long",
}
LETTERS = {
    "float": "f",
    "double": "d",
    "long long": "l",
    "unsigned long long": "l",
    "int": "r",
    "unsigned": "r",
}


HALVES = {
    f"{name}{pair}": (dtype, limit)
    for name, limit in (("f16", 0x7C00), ("bf16", 0x7F80))
    for pair, dtype in (("", "uint16"), ("x2", "uint32"))
}
"""Results that travel as bits: NumPy's type of these, and the bits of infinity, above which all are NaN."""


@dataclass(frozen=True, eq=False)
class Row:
    """One instruction on edge values."""

    name: str
    """As it is called in messages."""
    code: str
    """Statements that make `r` of `a`, `b`, `c`."""
    inputs: tuple[Array, ...]
    """Equally long."""
    result: str
    """NumPy's type of `r`, or one of `HALVES`."""
    expected: Callable[..., Array]
    """Of the inputs."""

    @property
    def dtype(self) -> str:
        """NumPy's type of `r`."""
        return HALVES[self.result][0] if self.result in HALVES else self.result


def ptx(
    name: str, inputs: Sequence[Array], result: str, expected: Callable[..., Array], text: str = ""
) -> Row:
    """A row for one instruction of PTX, or for a text of several with `{r}`, `{a}`, `{b}`, `{c}`."""
    names = "abc"[: len(inputs)]
    places = {letter: f"%{number}" for number, letter in enumerate("r" + names)}
    body = text or f"{name} {{r}}, {', '.join(f'{{{letter}}}' for letter in names)};"
    letters = [LETTERS.get(C_TYPES[np.dtype(one.dtype).name], "h") for one in inputs]
    operands = ", ".join(f'"{kind}"({letter})' for kind, letter in zip(letters, names, strict=True))
    asm = body.format(**places).replace("<<", "{").replace(">>", "}")
    row = Row(name, "", tuple(inputs), result, expected)
    out = LETTERS.get(C_TYPES[row.dtype], "h")
    return replace(row, code=f'asm("{asm}" : "={out}"(r) : {operands});')


def setp(name: str, inputs: Sequence[Array], expected: Callable[..., Array], op: str = "setp") -> Row:
    """A row for a comparison, such as `lt.f32`, or another instruction that gives a predicate."""
    sources = ", ".join(f"{{{letter}}}" for letter, _ in zip("ab", inputs, strict=False))
    text = f"<< .reg .pred p; {op}.{name} p, {sources}; selp.s32 {{r}}, 1, 0, p; >>"
    return ptx(f"{op}.{name}", inputs, "int32", expected, text)


def source(rows: Sequence[Row], include: str = "") -> str:
    """One kernel a row, `k0` and so on."""
    kernels = []
    for number, row in enumerate(rows):
        names = "abc"[: len(row.inputs)]
        types = [C_TYPES[np.dtype(one.dtype).name] for one in row.inputs]
        parameters = ", ".join(f"const {kind}* {letter}_" for kind, letter in zip(types, names, strict=True))
        loads = " ".join(
            f"{kind} {letter} = {letter}_[i];" for kind, letter in zip(types, names, strict=True)
        )
        made = C_TYPES[row.dtype]
        kernels.append(
            f'extern "C" __global__ void k{number}({parameters}, {made}* r_, int n) {{\n'
            f"int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;\n"
            f"{loads} {made} r; {row.code}\nr_[i] = r; }}\n"
        )
    return include + "".join(kernels)


def run(rows: Sequence[Row], number: int, include: str = "", options: tuple[str, ...] = ()) -> Array:
    """What the simulator makes of one row's inputs."""
    row = rows[number]
    count = len(row.inputs[0])
    out = np.full(count, 0xA5, np.uint8).astype(row.dtype)
    simulate(
        source(rows, include),
        *row.inputs,
        out,
        np.int32(count),
        name=f"k{number}",
        grid=-(-count // 128),
        block=128,
        options=options,
    )
    return out


def check(rows: Sequence[Row], number: int, include: str = "", options: tuple[str, ...] = ()) -> None:
    """Compare a row bit for bit; any NaN equals any other."""
    row = rows[number]
    got = run(rows, number, include, options)
    with np.errstate(all="ignore"):
        expected = np.asarray(row.expected(*row.inputs)).astype(row.dtype)
    same = _bits(got) == _bits(expected)
    if got.dtype.kind == "f":
        same |= np.isnan(got) & np.isnan(expected)
    elif row.result in HALVES:
        (one, other), limit = (both.view(np.uint16) for both in (got, expected)), HALVES[row.result][1]
        alike = (one == other) | ((one & 0x7FFF > limit) & (other & 0x7FFF > limit))
        same = alike.reshape(len(got), -1).all(axis=1)
    if not same.all():
        at = int(np.flatnonzero(~same)[0])
        given = ", ".join(repr(one[at]) for one in row.inputs)
        raise AssertionError(
            f"{row.name}({given}) gave {got[at]!r} for {expected[at]!r}; "
            f"{int((~same).sum())} of {len(same)} differ"
        )


def _bits(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}")


def pairs(one: Array, other: Array | None = None) -> tuple[Array, Array]:
    """Every value with every other."""
    a, b = np.meshgrid(one, one if other is None else other)
    return np.ascontiguousarray(a.reshape(-1)), np.ascontiguousarray(b.reshape(-1))
