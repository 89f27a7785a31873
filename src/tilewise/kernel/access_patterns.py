"""How a kernel accesses memory, as its text shows it: a proposed launch fits its arrays to that.

In: a file's text and a kernel's name. Out: a ``KernelText``, whose answers are guesses from patterns, and
what stands in the way of a kernel that follows a pointer. Nothing is compiled or run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewise.cuda.host_values import scope_of
from tilewise.cuda.kernel_source import GlobalFunction, without_comments
from tilewise.cuda.top_level import Piece, pieces

_EDGE = 16
"""The largest factor that is a number of elements for each thread, and not the width of a tile."""
_DYNAMIC = re.compile(r"\bextern\s+(?:\w+(?:\([^()]*\))?\s+)*__shared__\b|\b__shared__\s+extern\b")
_SHARED_BYTES, _MOST_SHARED_BYTES = 16_384, 232_448
"""Of ``extern __shared__`` arrays, where nothing says how much; and where the host asks for much."""
_MOST_THREADS = 1024
_DEEPEST = 4
"""Structures inside structures."""
_PLACES = 100
"""Whole numbers are below it, where nothing is known of them."""
_OWN_INDEX = r"block(?:Idx|Dim)\s*\.\s*[xyz]\s*\*\s*block(?:Idx|Dim)\s*\.\s*[xyz]"
_REACHES_FAR = re.compile(
    r"\[[^][]*(?:\*|<<|\b[A-Z][A-Z_\d]+\b)[^][]*\]|\b(?:int|unsigned|size_t|auto|long)\s+\w+\s*=[^;]*(?:\*|<<)"
    r"|\bblockDim\s*\.\s*x\s*(?:<<|\*\s*\d)|[\w)\]]\s*\+\s*blockDim\s*\.\s*x\b(?!\s*\*)"
)
"""Products and constants in an index, or in a number that may become one; several elements per thread."""
_ASSIGNED = re.compile(
    r"\b(\w+)\s*(?:\[[^;=]*\]\s*)?(?:[-+*/%|&^]|<<|>>)?=(?!=)"
    r"((?:[^;={}()]|\((?:[^;={}()]|\((?:[^;={}()]|\([^;={}()]*\))*\))*\))*)"
)
"""What is given a value, and the value: ``sums[i] += x[i]``."""
_MACRO = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\\\n]|\\\n|\\.)*", re.M)
_SEVERAL_BLOCKS = re.compile(r"\b(?:blockIdx|gridDim\s*\.|this_grid|this_cluster|asm|thread_rank)\b")
"""What a kernel that several blocks run has somewhere."""


@dataclass(frozen=True)
class KernelText:
    """A kernel in the text of its file."""

    own: str
    """The kernel's text, and that of the functions that it calls."""
    file: str
    """The whole, host code and all."""

    @classmethod
    def of(cls, name: str, file: str) -> KernelText:
        """A kernel of a file by its name, such as ``math::scale<32>``."""
        base = name.partition("<")[0].rpartition("::")[2]
        every = pieces(without_comments(file))
        kernel = "\n".join(one.text for one in every if re.search(rf"\b{base}\s*\(", one.head))
        called = {*re.findall(r"\b(\w+)\s*(?:<[^;<>()]*>)?\s*\(", kernel)} - {base}
        functions = (one.text for one in every if "__device__" in one.head and one.name in called)
        return cls("\n".join([kernel, *functions]), file)

    @cached_property
    def _outside_kernels(self) -> str:
        """Everything of the file but its kernels."""
        every = pieces(without_comments(self.file))
        return "\n".join(one.text for one in every if "__global__" not in one.head)

    @property
    def is_plane(self) -> bool:
        """Whether threads or blocks have a place along y."""
        return bool(re.search(r"\b(?:threadIdx|blockIdx)\s*\.\s*y\b", self.own))

    @property
    def has_rows(self) -> bool:
        """Whether the threads of a block have."""
        return bool(re.search(r"\bthreadIdx\s*\.\s*y\b", self.own))

    @property
    def is_for_several_blocks(self) -> bool:
        """Whether something in it, or in what it may use, tells blocks apart."""
        used = "\n".join([self.own, self._outside_kernels, *_MACRO.findall(self.file)])
        return bool(_SEVERAL_BLOCKS.search(used))

    @property
    def has_pairs(self) -> bool:
        """Whether each thread takes two elements: ``x[2 * tid]``, ``x[tid + blockDim.x]``."""
        named = re.findall(r"\b(\w+)\s*=\s*threadIdx\s*\.\s*x\s*[;,]", self.own)
        thread = "|".join([r"threadIdx\s*\.\s*x", *named])
        twice = rf"2\s*\*\s*(?:{thread})\b|\b(?:{thread})\s*(?:\*\s*2|<<\s*1)\b"
        return bool(re.search(rf"{twice}|\b(?:{thread})\s*\+\s*blockDim\s*\.\s*x\b(?!\s*\*)", self.own))

    @cached_property
    def tile(self) -> tuple[int, int] | None:
        """Threads along x and y that fill a shared array, each its element, where the text says its extents.

        ``tile[threadIdx.y + j][threadIdx.x]`` in a loop with ``j += ROWS`` has so many rows of threads.
        """
        scope = scope_of(without_comments(self.file))
        threads = {axis: rf"threadIdx\s*\.\s*{axis}" for axis in "xy"}
        for axis in "xyxy":  # also of names of names: i = threadIdx.x, j = i + 1
            given = re.findall(rf"\b(\w+)\s*=\s*(?:{threads[axis]})\b\s*(?:\+\s*\w+\s*)?[;,]", self.own)
            threads[axis] = "|".join([threads[axis], *given])
        of_x, of_y = (rf"\[\s*(?:{threads[axis]})\b([^][]*)\]" for axis in "xy")
        shared = r"__shared__\s+[\w\s:]*?\b(\w+)\s*\[([^][]+)\]\s*(?:\[([^][]+)\])?\s*[;,]"
        for name, first, second in re.findall(shared, self.own):
            index = re.search(rf"\b{name}\s*{of_y if second else ''}\s*{of_x}\s*=", self.own)
            extents = [scope.value(one) for one in (first, second) if one]
            if not index or not all(isinstance(one, int) and one > 0 for one in extents):
                continue
            rows, columns = [1, *(1 << int(str(one)).bit_length() - 1 for one in extents)][-2:]
            steps = re.findall(r"\b(\w+)\s*\+=\s*(\w+)\s*\)", self.own)
            turns = [scope.value(step) for loop, step in steps if re.search(rf"\+\s*{loop}\b", index[1])]
            rows = min([rows, *(one for one in turns if isinstance(one, int) and one > 0)])
            while rows > 1 and rows * columns > _MOST_THREADS:
                rows //= 2
            return (columns, rows) if rows * columns <= _MOST_THREADS else None
        return None

    @property
    def reaches_far(self) -> bool:
        """Whether it indexes by products and constants, which nothing of its sizes bounds."""
        return bool(_REACHES_FAR.search(re.sub(_OWN_INDEX, "", self.own)))

    @property
    def has_large_factor(self) -> bool:
        """Whether it multiplies by a constant of the file that no parameter says: ``i + j * N``."""
        constants = scope_of(without_comments(self.file)).roots.items()
        return any(self.multiplies_by(name) for name, value in constants if value > 2 * _EDGE)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory, where it has some, itself, in a function or at the top of the file."""
        if not _DYNAMIC.search(self.own + self._outside_kernels):
            return 0
        is_much = "cudaFuncAttributeMaxDynamicSharedMemorySize" in self.file
        return _MOST_SHARED_BYTES if is_much else _SHARED_BYTES

    def loops_over(self, names: list[str]) -> int:
        """How many of its loops end at one of these."""
        conditions = re.findall(r"\bfor\s*\([^;]*;([^;]*);", self.own)
        return sum(bool(names and re.search(rf"\b(?:{'|'.join(names)})\b", one)) for one in conditions)

    def multiplies_by(self, name: str) -> bool:
        """Whether a name is a factor of a product."""
        return bool(re.search(rf"\*\s*{name}\b|\b{name}\s*\*", self.own))

    def factor(self, array: str) -> int:
        """The largest small number that is multiplied into an index of an array: 4 of ``x[4 * i + 1]``."""
        found = re.findall(rf"\b{array}\s*\[([^][;]*)\]", self.own)
        factors = [int(a or b) for one in found for a, b in re.findall(r"\*\s*(\d+)\b|\b(\d+)\s*\*", one)]
        return max((one for one in factors if one <= _EDGE), default=1)

    def leads(self, array: str) -> bool:
        """Whether what an array holds may say where the kernel goes or which elements it accesses."""
        names, found = {array}, {array, ""}
        while names != found:
            names = found - {""}
            held = rf"\b(?:{'|'.join(sorted(names))})\b"
            given = _ASSIGNED.findall(self.own)
            copies = [name for name, value in given if re.search(held, value)]
            found = {*names, *copies}
        inside = rf"\[[^][;]*{held}|[*&]\s*\([^();]*{held}"
        tested = rf"\b(?:if|while|for|switch)\s*\((?:[^(){{}}]|\([^(){{}}]*\))*{held}"
        return bool(re.search(f"{inside}|{tested}", self.own))

    def fill(self, array: str, is_text: bool, smallest: int, below: int | None) -> str:
        """What an array of whole numbers holds: as the host fills it, else places that the arrays have.

        Args:
            array: its name.
            is_text: whether it holds letters.
            smallest: how many elements the smallest array has.
            below: what the host's random numbers are below, where it draws them.
        """
        if below:
            return f"0..{below}"
        if is_text:
            return ""
        copies = re.findall(rf"\b(\w+)\s*=\s*{array}\s*\[", self.own)
        words = "|".join([rf"{array}(?=\s*\[)", *copies])
        if not re.search(rf"\[[^][;]*\b(?:{words})\b", self.own):
            return ""
        is_offsets = re.search(rf"\b{array}\s*\[[^][]*\+\s*1\s*\]", self.own)
        if is_offsets and not re.search(rf"\b{array}\s*\[[^]]*\]\s*=[^=]", self.own):
            return "arange"
        return f"0..{smallest}" if smallest < _PLACES else ""


def inner_pointer(function: GlobalFunction, text: str) -> str:
    """What stands in the way of a kernel that follows a pointer inside a structure, or takes a reference.

    Nothing that a launch is given here says what such a pointer leads to. Empty where nothing does.
    """
    own, every = KernelText.of(function.name, text).own, pieces(text)
    for one in function.parameters:
        if one.ctype.endswith("&"):
            return (
                f"{one.name} is a reference, {one.ctype}, to what the host has. Have the kernel take a value "
                "or a pointer instead."
            )
        if one.dtype is not None:
            continue
        kind = re.sub(r"\b(?:const|struct|volatile)\b|[*&]", "", one.ctype).split("<")[0].strip()
        for member, is_or_holds in _pointers_in(kind, every).items():
            if re.search(rf"(?:\.|->)\s*{member}\b", own):
                return (
                    f"{one.name} is {one.ctype}, whose {member} {is_or_holds} a pointer, and nothing here "
                    "can say what it leads to. Have a kernel take each array as a parameter of its own, and "
                    "fill the structure inside."
                )
    return ""


def _pointers_in(kind: str, every: Sequence[Piece], depth: int = 0) -> dict[str, str]:
    """The members of a structure that are pointers, or structures that hold some: ``is`` or ``holds``."""
    if not kind.isidentifier() or depth > _DEEPEST:
        return {}
    named = re.compile(
        rf"\b(?:struct|class)\b[^{{}};()]*\b{kind}\s*(?::[^{{}}]*)?\{{|\}}\s*(?:\w+\s*,\s*)*{kind}\b"
    )
    for piece in every:
        if not piece.is_function and named.search(piece.text):
            body = piece.text.partition("{")[2].rpartition("}")[0]
            while re.search(r"\{[^{}]*\}", body):
                body = re.sub(r"\([^()]*\)[^;{}]*\{[^{}]*\}|\{[^{}]*\}", ";", body)
            words = r"(?:(?:const|__restrict__|__restrict)\s+)*"
            pointers = re.findall(rf"\w\s*\*\s*{words}(\w+)\s*(?=[;,=])", body)
            members = re.findall(r"\b([A-Za-z_]\w*)\s+(\w+)\s*(?=[;,=])", body)
            holders = [
                name for other, name in members if other != kind and _pointers_in(other, every, depth + 1)
            ]
            return dict.fromkeys(holders, "holds") | dict.fromkeys(pointers, "is")
    return {}
