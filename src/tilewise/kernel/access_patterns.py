"""How a kernel accesses memory, judged by its text, so that a proposed launch has suitable arrays.

In: a file's text and a kernel's name. Out: a ``KernelText``, whose answers are guesses from patterns, and
an error text for kernels that follow an inner pointer. Nothing is compiled or run.
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
"""The largest factor that counts as elements per thread instead of the width of a tile."""
_DYNAMIC = re.compile(r"\bextern\s+(?:\w+(?:\([^()]*\))?\s+)*__shared__\b|\b__shared__\s+extern\b")
_SHARED_BYTES, _MOST_SHARED_BYTES = 16_384, 232_448
"""Bytes of ``extern __shared__`` arrays of unknown size, and if the host raises the limit."""
_MOST_THREADS = 1024
_DEEPEST = 4
"""The deepest nesting of structures."""
_DEFAULT_BOUND = 100
"""The upper bound of integers of unknown range."""
_OWN_INDEX = r"block(?:Idx|Dim)\s*\.\s*[xyz]\s*\*\s*block(?:Idx|Dim)\s*\.\s*[xyz]"
_REACHES_FAR = re.compile(
    r"\[[^][]*(?:\*|<<|\b[A-Z][A-Z_\d]+\b)[^][]*\]|\b(?:int|unsigned|size_t|auto|long)\s+\w+\s*=[^;]*(?:\*|<<)"
    r"|\bblockDim\s*\.\s*x\s*(?:<<|\*\s*\d)|[\w)\]]\s*\+\s*blockDim\s*\.\s*x\b(?!\s*\*)"
)
"""Products and constants in an index or a possible index; several elements per thread."""
_ASSIGNED = re.compile(
    r"\b(\w+)\s*(?:\[[^;=]*\]\s*)?(?:[-+*/%|&^]|<<|>>)?=(?!=)"
    r"((?:[^;={}()]|\((?:[^;={}()]|\((?:[^;={}()]|\([^;={}()]*\))*\))*\))*)"
)
"""The target and the value of an assignment: ``sums[i] += x[i]``."""
_MACRO = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\\\n]|\\\n|\\.)*", re.M)
_SEVERAL_BLOCKS = re.compile(r"\b(?:blockIdx|gridDim\s*\.|this_grid|this_cluster|asm|thread_rank)\b")
"""Words in every kernel that several blocks run."""


@dataclass(frozen=True)
class KernelText:
    """A kernel in the text of its file."""

    own: str
    """The text of the kernel and of the functions that it calls."""
    file: str
    """The whole file, including host code."""

    @classmethod
    def of(cls, name: str, file: str) -> KernelText:
        """Find a kernel of a file by its name, such as ``math::scale<32>``."""
        base = name.partition("<")[0].rpartition("::")[2]
        every = pieces(without_comments(file))
        kernel = "\n".join(piece.text for piece in every if re.search(rf"\b{base}\s*\(", piece.head))
        called = {*re.findall(r"\b(\w+)\s*(?:<[^;<>()]*>)?\s*\(", kernel)} - {base}
        functions = (piece.text for piece in every if "__device__" in piece.head and piece.name in called)
        return cls("\n".join([kernel, *functions]), file)

    @cached_property
    def _outside_kernels(self) -> str:
        """The file without its kernels."""
        every = pieces(without_comments(self.file))
        return "\n".join(piece.text for piece in every if "__global__" not in piece.head)

    @property
    def is_plane(self) -> bool:
        """Whether it uses the y index of threads or blocks."""
        return bool(re.search(r"\b(?:threadIdx|blockIdx)\s*\.\s*y\b", self.own))

    @property
    def has_rows(self) -> bool:
        """Whether it uses the y index of threads."""
        return bool(re.search(r"\bthreadIdx\s*\.\s*y\b", self.own))

    @property
    def is_for_several_blocks(self) -> bool:
        """Whether it, or anything that it may use, distinguishes blocks."""
        used = "\n".join([self.own, self._outside_kernels, *_MACRO.findall(self.file)])
        return bool(_SEVERAL_BLOCKS.search(used))

    @property
    def has_pairs(self) -> bool:
        """Whether each thread processes two elements: ``x[2 * tid]``, ``x[tid + blockDim.x]``."""
        named = re.findall(r"\b(\w+)\s*=\s*threadIdx\s*\.\s*x\s*[;,]", self.own)
        thread = "|".join([r"threadIdx\s*\.\s*x", *named])
        twice = rf"2\s*\*\s*(?:{thread})\b|\b(?:{thread})\s*(?:\*\s*2|<<\s*1)\b"
        return bool(re.search(rf"{twice}|\b(?:{thread})\s*\+\s*blockDim\s*\.\s*x\b(?!\s*\*)", self.own))

    @cached_property
    def tile(self) -> tuple[int, int] | None:
        """Threads along x and y that fill a shared array of known extents, one element per thread.

        ``tile[threadIdx.y + j][threadIdx.x]`` in a loop with ``j += ROWS`` takes ``ROWS`` rows of threads.
        """
        scope = scope_of(without_comments(self.file))
        threads = {axis: rf"threadIdx\s*\.\s*{axis}" for axis in "xy"}
        for axis in "xyxy":  # also indirect names: i = threadIdx.x, j = i + 1
            names = re.findall(rf"\b(\w+)\s*=\s*(?:{threads[axis]})\b\s*(?:\+\s*\w+\s*)?[;,]", self.own)
            threads[axis] = "|".join([threads[axis], *names])
        of_x, of_y = (rf"\[\s*(?:{threads[axis]})\b([^][]*)\]" for axis in "xy")
        shared = r"__shared__\s+[\w\s:]*?\b(\w+)\s*\[([^][]+)\]\s*(?:\[([^][]+)\])?\s*[;,]"
        for name, first, second in re.findall(shared, self.own):
            index = re.search(rf"\b{name}\s*{of_y if second else ''}\s*{of_x}\s*=", self.own)
            extents = [scope.value(text) for text in (first, second) if text]
            if not index or not all(isinstance(extent, int) and extent > 0 for extent in extents):
                continue
            rows, columns = [1, *(1 << int(str(extent)).bit_length() - 1 for extent in extents)][-2:]
            steps = re.findall(r"\b(\w+)\s*\+=\s*(\w+)\s*\)", self.own)
            turns = [scope.value(step) for loop, step in steps if re.search(rf"\+\s*{loop}\b", index[1])]
            rows = min([rows, *(step for step in turns if isinstance(step, int) and step > 0)])
            while rows > 1 and rows * columns > _MOST_THREADS:
                rows //= 2
            return (columns, rows) if rows * columns <= _MOST_THREADS else None
        return None

    @property
    def reaches_far(self) -> bool:
        """Whether its indices have products and constants, which its sizes do not bound."""
        return bool(_REACHES_FAR.search(re.sub(_OWN_INDEX, "", self.own)))

    @property
    def has_large_factor(self) -> bool:
        """Whether it multiplies by a large constant of the file: ``i + j * N``."""
        constants = scope_of(without_comments(self.file)).roots.items()
        return any(self.multiplies_by(name) for name, value in constants if value > 2 * _EDGE)

    @property
    def shared_bytes(self) -> int:
        """Bytes of dynamic shared memory; 0 if neither it, a function nor a global declares any."""
        if not _DYNAMIC.search(self.own + self._outside_kernels):
            return 0
        is_raised = "cudaFuncAttributeMaxDynamicSharedMemorySize" in self.file
        return _MOST_SHARED_BYTES if is_raised else _SHARED_BYTES

    def loops_over(self, names: list[str]) -> int:
        """The number of its loops that are bounded by one of the names."""
        conditions = re.findall(r"\bfor\s*\([^;]*;([^;]*);", self.own)
        return sum(
            bool(names and re.search(rf"\b(?:{'|'.join(names)})\b", condition)) for condition in conditions
        )

    def multiplies_by(self, name: str) -> bool:
        """Whether a name is a factor of a product."""
        return bool(re.search(rf"\*\s*{name}\b|\b{name}\s*\*", self.own))

    def factor(self, array: str) -> int:
        """The largest small factor in an array's indices: 4 in ``x[4 * i + 1]``."""
        indices = re.findall(rf"\b{array}\s*\[([^][;]*)\]", self.own)
        factors = [
            int(a or b) for index in indices for a, b in re.findall(r"\*\s*(\d+)\b|\b(\d+)\s*\*", index)
        ]
        return max((value for value in factors if value <= _EDGE), default=1)

    def leads(self, array: str) -> bool:
        """Whether an array's values may determine the kernel's branches or the elements that it accesses."""
        names, reached = {array}, {array, ""}
        while names != reached:
            names = reached - {""}
            words = rf"\b(?:{'|'.join(sorted(names))})\b"
            assignments = _ASSIGNED.findall(self.own)
            copies = [name for name, value in assignments if re.search(words, value)]
            reached = {*names, *copies}
        inside = rf"\[[^][;]*{words}|[*&]\s*\([^();]*{words}"
        tested = rf"\b(?:if|while|for|switch)\s*\((?:[^(){{}}]|\([^(){{}}]*\))*{words}"
        return bool(re.search(f"{inside}|{tested}", self.own))

    def fill(self, array: str, is_text: bool, smallest: int, below: int | None) -> str:
        """The contents of an integer array: as the host fills it, or valid indices.

        Args:
            array: its name.
            is_text: whether it contains characters.
            smallest: the number of elements of the smallest array.
            below: the exclusive upper bound of the host's random numbers, if it draws any.
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
        return f"0..{smallest}" if smallest < _DEFAULT_BOUND else ""


def inner_pointer(function: GlobalFunction, text: str) -> str:
    """Why a kernel cannot run that follows a pointer inside a structure or takes a reference; else empty.

    The arguments of a launch here cannot provide the target of such a pointer.
    """
    own, every = KernelText.of(function.name, text).own, pieces(text)
    for parameter in function.parameters:
        if parameter.ctype.endswith("&"):
            return (
                f"{parameter.name} is a reference, {parameter.ctype}, to what the host has. Have the "
                "kernel take a value or a pointer instead."
            )
        if parameter.dtype is not None:
            continue
        kind = re.sub(r"\b(?:const|struct|volatile)\b|[*&]", "", parameter.ctype).split("<")[0].strip()
        for member, is_or_holds in _pointers_in(kind, every).items():
            if re.search(rf"(?:\.|->)\s*{member}\b", own):
                return (
                    f"{parameter.name} is {parameter.ctype}, whose {member} {is_or_holds} a pointer, "
                    "and nothing here can say what it leads to. Have a kernel take each array as a parameter "
                    "of its own, and fill the structure inside."
                )
    return ""


def _pointers_in(kind: str, every: Sequence[Piece], depth: int = 0) -> dict[str, str]:
    """The members of a structure that are pointers (``is``) or structures with pointers (``holds``)."""
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
                name for inner, name in members if inner != kind and _pointers_in(inner, every, depth + 1)
            ]
            return dict.fromkeys(holders, "holds") | dict.fromkeys(pointers, "is")
    return {}
