"""A puzzle: a kernel with gaps, the launches that an answer must get right, and what it may spend on them.

In: nothing; each module below this package defines one `Puzzle`. Out: the reader's file and a solution, both
generated from one text, so that they cannot diverge.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tilewise.cuda.cases import Array, Case

Values = Mapping[str, Any]
"""A launch's arrays and numbers by parameter name, before it ran."""


@dataclass(frozen=True)
class Counter:
    """A count of the simulator, in words."""

    short: str
    """What it is, for a table."""
    words: str
    """What it is, for the end of `at most 375 ...`."""
    repair: str
    """How to count less of it, one sentence."""


_SIDE_BY_SIDE = "Let neighbouring lanes access neighbouring elements, and each element only once."
_BANKS = "Let the lanes of a warp access words in different banks, and skip accesses that aren't needed."

COUNTERS: Mapping[str, Counter] = {
    "global_load.requests": Counter(
        "load requests",
        "requests that load from global memory",
        "Keep what you need again in a register, or load several neighbours with one instruction.",
    ),
    "global_load.sectors": Counter("sectors loaded", "sectors loaded from global memory", _SIDE_BY_SIDE),
    "global_store.requests": Counter(
        "store requests",
        "requests that store to global memory",
        "Store each result once, or several neighbours with one instruction.",
    ),
    "global_store.sectors": Counter(
        "sectors stored", "sectors stored to global memory", f"Store only final results. {_SIDE_BY_SIDE}"
    ),
    "global_atomic.lane_accesses": Counter(
        "global atomics",
        "atomic updates of global memory",
        "Reduce within the block first, in shared memory.",
    ),
    "shared_load.requests": Counter(
        "shared load requests",
        "requests that load from shared memory",
        "Load once into registers what several results need, with 16-byte loads.",
    ),
    "shared_load.wavefronts": Counter(
        "shared load wavefronts", "wavefronts of loads from shared memory", _BANKS
    ),
    "shared_store.wavefronts": Counter(
        "shared store wavefronts", "wavefronts of stores to shared memory", _BANKS
    ),
    "shared_store.requests": Counter(
        "shared store requests",
        "requests that store to shared memory",
        "Pass values between lanes with shuffles.",
    ),
    "barriers": Counter(
        "barrier arrivals",
        "arrivals of warps at barriers",
        "Keep a barrier only where one thread reads or overwrites what another used.",
    ),
    "bulk_load.requests": Counter("TMA loads", "TMA loads", "Let one thread load each box once."),
    "bulk_load.sectors": Counter(
        "sectors loaded by TMA",
        "sectors that the TMA loads from global memory",
        "Load each part of a tile in one block, and multicast it to the others that need it.",
    ),
    "bulk_store.requests": Counter("TMA stores", "TMA stores", "Let one thread store each box once."),
    "wgmma": Counter("wgmma", "wgmma instructions", "Issue one for every 16 elements along K."),
    "divergent_branches": Counter(
        "divergent branches",
        "divergent branches",
        "Make the condition the same for all lanes of a warp.",
    ),
}
"""What a budget may limit, by the simulator's counter."""

_OPENS = re.compile(r"^(?P<indent>\s*)// \[gap (?P<text>.+)$")
_CLOSES = re.compile(r"^\s*// gap\]$")
TO_DO = "Your code: "
"""The beginning of the comment that replaces a gap."""
WIDEST = 82
"""Maximum width of a kernel's lines on a page."""


@dataclass(frozen=True)
class Limit:
    """The limit on one count of an answer in one launch."""

    counter: str
    """One of `COUNTERS`."""
    most: Callable[[Values], int]
    """The limit, from the launch's own arrays and numbers."""
    because: str
    """Why that many are enough, a clause for the end of a sentence."""


@dataclass(frozen=True, eq=False)
class Trial:
    """One launch that an answer must get right."""

    label: str
    """Its sizes, as messages name them: `n = 1000`."""
    case: Case
    """Inputs, grid and block."""


@dataclass(frozen=True, eq=False)
class Puzzle:
    """A kernel to fill in."""

    title: str
    """A few words."""
    task: str
    """What the kernel must do, in Markdown."""
    launch: str
    """How it is launched, one sentence."""
    code: str
    """A solution in CUDA C; the reader writes the part between `// [gap question` and `// gap]`."""
    trials: tuple[Trial, ...]
    """The first is named on the page and in the file; the others, with awkward sizes, are hidden."""
    expected: Callable[[Values], Mapping[str, Array]]
    """The right outputs of a launch, by parameter name, without a GPU and without the kernel."""
    limits: tuple[Limit, ...]
    """The budget."""
    hints: str
    """From a nudge to nearly the answer, in Markdown, a paragraph each."""
    after: str
    """The text next to the solution, in Markdown."""
    blanks: tuple[tuple[str, ...], ...]
    """Multiple-choice gaps for pages without a compiler, in the order of the solution. Each has the right
    text, its first match on a line after the previous blank, then wrong ones; an empty text is no code."""
    lesson: str
    """The page that explains how, in Markdown: a link with a few words."""
    plain: str = ""
    """A correct kernel that is over budget, if the budget is the challenge; counted on the page."""
    rtol: float = 0.0
    """How far results may be off, relative to the right ones."""
    atol: float = 0.0
    """The same, absolute."""
    name: str = ""
    """The part of the course and one word, `kernels/guard`: the path of its module."""

    @property
    def part(self) -> str:
        """The part of the course it belongs to."""
        return self.name.split("/", maxsplit=1)[0]

    @property
    def file(self) -> str:
        """The reader's file, relative to the folder the reader works in."""
        return f"puzzles/{self.name}.cu"

    @property
    def options(self) -> tuple[str, ...]:
        """Compiler options: Hopper's own instructions need their architecture."""
        return ("-arch=sm_90a",) if '#include "hopper.cuh"' in self.code else ()

    @property
    def hint_list(self) -> tuple[str, ...]:
        """Its hints, each on one line."""
        return tuple(" ".join(hint.split()) for hint in self.hints.strip().split("\n\n"))

    @cached_property
    def solution(self) -> str:
        """The kernel with its gaps filled."""
        lines = self.code.strip("\n").split("\n")
        code_lines = [line for line in lines if not _OPENS.match(line) and not _CLOSES.match(line)]
        return "\n".join(code_lines) + "\n"

    @cached_property
    def gaps(self) -> str:
        """The kernel with a comment instead of each gap."""
        lines: list[str] = []
        inside = False
        for line in self.code.strip("\n").split("\n"):
            if opening := _OPENS.match(line):
                begin = f"{opening['indent']}// "
                lines += textwrap.wrap(
                    TO_DO + opening["text"],
                    WIDEST,
                    initial_indent=begin,
                    subsequent_indent=f"{begin}  ",
                    break_on_hyphens=False,
                )
                inside = True
            elif _CLOSES.match(line):
                inside = False
            elif not inside:
                lines.append(line)
        return "\n".join(lines) + "\n"

    @cached_property
    def start(self) -> str:
        """The reader's file: what to do in comments, then the kernel with its gaps."""
        first = self.trials[0]
        values = first.case.make()
        paragraphs = [
            f"{self.name}: {self.title}",
            plain_text(self.task),
            f"Launch: {plain_text(self.launch)}",
            f"Budget for {first.label}; the check tries other sizes too:",
        ]
        budget = [
            f"  at most {limit.most(values):,} {COUNTERS[limit.counter].words}" for limit in self.limits
        ]
        commands = [
            f"Check it:  tilewise puzzle {self.name}",
            f"A hint:    tilewise puzzle {self.name} --hint",
        ]
        lines: list[str] = []
        for text in paragraphs:
            lines += [*textwrap.wrap(text, 96, break_long_words=False), ""]
        lines[-1:] = [*budget, "", *commands]
        head = "\n".join(f"// {line}".rstrip() for line in lines)
        return f"{head}\n\n{self.gaps}"


def plain_text(markdown: str) -> str:
    """A text without the marks of everyday words, on one line."""
    return " ".join(re.sub(r"\\(?=\w)", "", markdown).split())
