"""`Header`: one of the course's CUDA headers, to show.

In: the name of a header. Out: its text or a region of it, as a page shows code.
"""

from __future__ import annotations

from tilewise.cuda import headers
from tilewise.cuda.regions import region_of
from tilewise.outputs.kernel import KernelOutput


class Header:
    """A header that kernels include, such as ``hopper.cuh``.

    Args:
        name: the file's name.

    Attributes:
        name: the file's name.
        source: its text.

    Raises:
        KernelError: there is no such header.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.source = headers.header(name)

    def region(self, name: str) -> KernelOutput:
        """The part between `// [name` and `// name]`, with its line numbers.

        Raises:
            KernelError: the header has no such region.
        """
        part = region_of(self.source, name, f'"{self.name}"')
        return KernelOutput(name=self.name, source=part.source, first_line=part.first_line, region=name)
