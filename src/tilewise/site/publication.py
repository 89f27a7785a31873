"""What a site has besides its pages: licences, and the revision that notebooks install.

In: MkDocs's configuration. Out: files, and where notebooks find the package.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from tilewise.build.installation import Package

LICENCES = {"LICENSE": "licences/code.txt", "LICENSE-docs": "licences/text.txt"}
"""The project's licences by file, and where the site has them."""


def licence_files(config: MkDocsConfig, root: Path) -> Iterator[File]:
    """The project's licences as files of the site."""
    for name, inside in LICENCES.items():
        if (root / name).is_file():
            yield File.generated(config, inside, abs_src_path=str(root / name))


def package(config: MkDocsConfig, root: Path) -> Package | None:
    """What notebooks install: the configured repository at the tag, else the commit, that is checked out.

    Raises:
        PluginError: a repository is configured, and its address or the revision cannot be used.
    """
    if not config.repo_url:
        return None
    for command in (["describe", "--tags", "--exact-match"], ["rev-parse", "HEAD"]):
        done = subprocess.run(
            ["git", "-C", str(root), *command], capture_output=True, text=True, check=False, timeout=30
        )
        if done.returncode == 0 and done.stdout.strip():
            try:
                return Package(config.repo_url.rstrip("/"), done.stdout.strip())
            except ValueError as error:
                raise PluginError(f"repo_url: {error}") from None
    raise PluginError(
        f"repo_url is {config.repo_url}, but {root} is no git checkout, so notebooks cannot name a revision "
        f"to install. Build from a checkout, or leave REPO_URL unset. git said: {done.stderr.strip()}"
    )
