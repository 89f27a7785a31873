"""Where the course's package comes from, for notebooks outside a checkout.

In: a repository's URL and a revision, neither typed by hand. Out: a cell that installs them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NOTEBOOKS = "notebooks"
"""The branch onto which `.github/workflows/pages.yml` pushes the built notebooks, for Colab."""


@dataclass(frozen=True)
class Package:
    """Where the course's package and records come from, for notebooks outside a checkout."""

    repository: str
    """A URL that git can clone: ``https://`` and no spaces or quotes."""
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
        """A cell that installs the package and the records at this revision, unless they are installed.

        It can be rerun after a restart or a failed attempt, because a plain folder called tilewise does not
        count as the package. Its last line sets up outputs as described in `cli/notebook.py`.
        """
        return "\n".join(
            [
                f"# tilewise {self.revision[:12]}: package, records, CuPy, the simulator and Node.",
                "from importlib.util import find_spec",
                "from pathlib import Path",
                "",
                'if not getattr(find_spec("tilewise"), "origin", None):',
                '    if not Path("tilewise").exists():',
                f"        !git clone --quiet --filter=blob:none {self.repository} tilewise",
                f"    !git -C tilewise checkout --quiet {self.revision}",
                '    %pip install --quiet "./tilewise[cuda12,simulator,node]"',
                'if Path("tilewise/lessons").is_dir():',
                "    %cd -q tilewise",
                "%load_ext tilewise.cli.notebook",
            ]
        )

    def colab(self, lesson_id: str) -> str:
        """The Colab URL of a lesson's notebook on GitHub; empty for repositories elsewhere."""
        match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?", self.repository)
        if match is None:
            return ""
        return f"https://colab.research.google.com/github/{match[1]}/blob/{NOTEBOOKS}/{lesson_id}.ipynb"
