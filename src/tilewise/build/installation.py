"""Where the course's package comes from, for notebooks far from a checkout.

In: a repository's address and a revision, neither typed by hand. Out: a cell that installs them. Which
revision a site is built from is left to the MkDocs plugin.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """Where the course's package and records come from, for notebooks far from a checkout."""

    repository: str
    """An address that git can clone, ``https://`` and no spaces or quotes."""
    revision: str
    """A tag or a commit."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https://[\w.~/-]+", self.repository):
            raise ValueError(
                f"{self.repository!r} is no address of a repository. Write https://host/owner/name."
            )
        if not re.fullmatch(r"[\w][\w./-]*", self.revision):
            raise ValueError(f"{self.revision!r} is no tag or commit.")

    def installation(self) -> str:
        """A cell that installs the package at this revision, with the records, unless it is installed."""
        return "\n".join(
            [
                f"# tilewise {self.revision[:12]}: package, records, CuPy and the simulator.",
                "from importlib.util import find_spec",
                "",
                'if find_spec("tilewise") is None:',
                f"    !git clone --quiet --filter=blob:none {self.repository} tilewise",
                f"    !git -C tilewise checkout --quiet {self.revision}",
                '    %pip install --quiet "./tilewise[cuda12,simulator]"',
                "    %cd -q tilewise",
            ]
        )
