"""A kernel, or a region of one, on a page: CUDA with its own line numbers and its defines.

In: the kernel's text as compiled. Out: a fence for the ``cuda`` lexer. Lines that only mark a region are
blank in it, so that the others keep their numbers; ``tilewise.build.page`` removes them from the HTML.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from tilewise.outputs.base import Context, Output
from tilewise.outputs.kinds import attribute, fence, folded

LONGEST_OPEN = 40
"""A kernel with more lines than this is folded."""

MARKER = re.compile(r"^\s*(?://|#)\s*(?:\[(?P<opens>[\w-]+)|(?P<closes>[\w-]+)\])\s*$")
"""A line that opens or closes a region."""


@dataclass(frozen=True)
class KernelOutput(Output):
    """A kernel's text, or the part of it that a region names."""

    kind: ClassVar[str] = "kernel"
    name: str
    """The kernel's name."""
    source: str
    """The lines shown, including region markers."""
    first_line: int = 1
    """The number of the first line in the whole kernel's source, from 1."""
    region: str = ""
    """The region's name; empty for the whole kernel."""
    defines: tuple[tuple[str, str], ...] = ()
    """The ``#define`` lines before the source, by name and value."""
    options: tuple[str, ...] = ()
    """Compiler options."""

    def text(self) -> str:
        """The source with line numbers."""
        head = f"kernel {self.name}" + (f", region {self.region}" if self.region else "")
        lines = [f"{self.first_line + at:4}  {line}" for at, line in enumerate(self.source.splitlines())]
        return "\n".join([head, *self._prelude(), *lines])

    def markdown(self, context: Context) -> str:
        """A ``cuda`` fence; folded if it is a whole kernel and long."""
        block = self.fence(context.unique(f"kernel-{self.name}"))
        if self.region or len(self.source.strip().splitlines()) <= LONGEST_OPEN:
            return block
        return folded(f"{self.name}, {len(self.source.strip().splitlines())} lines", "kernel", block)

    def fence(self, identity: str, variable: str = "", line: int = 0) -> str:
        """The fence, never folded.

        Args:
            identity: the element's id.
            variable: the Python name that it is bound to, for the line above the code.
            line: the line of its line 1 in the lesson's file; 0 if unknown.
        """
        first, source = trimmed(self.source, self.first_line)
        shown, regions, markers = without_markers(source, first)
        first, shown = trimmed(shown, first)
        attributes = [f'.cuda .tw-kernel #{identity} linenums="{first}"', f'data-kernel="{self.name}"']
        if line:
            attributes.append(f'data-line="{line}"')
        if self.region:
            attributes.append(f'data-region="{self.region}"')
        if regions:
            attributes.append(f'data-regions="{regions}" data-markers="{markers}"')
        prelude = self._prelude()[: len(self.defines) if self.region else None]  # no options for a region
        title = "; ".join([*([variable] if variable else []), *prelude])
        if title:
            attributes.append(f'title="{attribute(title)}"')
        return fence(shown, " ".join(attributes))

    def _prelude(self) -> list[str]:
        lines = [f"#define {name} {value}" for name, value in self.defines]
        return lines + ([f"options {' '.join(self.options)}"] if self.options else [])


def trimmed(source: str, first_line: int) -> tuple[int, str]:
    """``source`` without blank lines around it, and the number of its new first line."""
    lines = source.split("\n")
    while len(lines) > 1 and not lines[0].strip():
        lines.pop(0)
        first_line += 1
    return first_line, "\n".join(lines).rstrip()


def without_markers(source: str, first_line: int = 1, *, blank: bool = True) -> tuple[str, str, str]:
    """A source without the marker lines of its regions, and the lines of regions and markers.

    Args:
        source: CUDA C (``// [name`` ... ``// name]``) or Python (``# [name`` ... ``# name]``).
        first_line: the number of its first line.
        blank: whether marker lines are blanked, so that the others keep their numbers, or removed.

    Returns:
        The source; the regions as ``name:first-last``, in its line numbers; the original numbers of the
        marker lines. Both lists are separated by spaces.
    """
    lines: list[str] = []
    regions: list[str] = []
    markers: list[str] = []
    opened: dict[str, int] = {}
    for at, line in enumerate(source.split("\n"), start=first_line):
        marker = MARKER.match(line)
        if marker is None:
            lines.append(line)
            continue
        markers.append(str(at))
        end = first_line + len(lines) - 1
        lines += [""] * blank
        if marker["opens"]:
            opened[marker["opens"]] = first_line + len(lines)
        elif marker["closes"] in opened:
            regions.append(f"{marker['closes']}:{opened.pop(marker['closes'])}-{end}")
    return "\n".join(lines).rstrip("\n"), " ".join(regions), " ".join(markers)
