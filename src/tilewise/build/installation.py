"""Where the course's package comes from, for notebooks far from a checkout.

In: a repository's address and a revision, neither typed by hand. Out: a cell that installs them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NOTEBOOKS = "notebooks"
"""The branch onto which `.github/workflows/pages.yml` pushes the built notebooks, for Colab."""


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
        """A cell that installs the package at this revision, with the records, unless it is installed.

        It can run again, also after a restart or where the first try broke off: a folder that is called
        tilewise is no package. Its last line has outputs shown as `cli/notebook.py` says.
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
        """Where Colab opens a lesson's notebook: from a branch of a repository on GitHub; elsewhere empty."""
        found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?", self.repository)
        if found is None:
            return ""
        return f"https://colab.research.google.com/github/{found[1]}/blob/{NOTEBOOKS}/{lesson_id}.ipynb"
