"""The revision that notebooks install.

In: MkDocs's configuration and the checkout. Out: the repository and revision to install.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

from tilewise.build.installation import Package


def package(config: MkDocsConfig, root: Path) -> Package | None:
    """Return what notebooks install: the configured repository at the checked-out tag, else the commit.

    Raises:
        PluginError: a repository is configured, but its address or the revision is unusable.
    """
    if not config.repo_url:
        return None
    for command in (["describe", "--tags", "--exact-match"], ["rev-parse", "HEAD"]):
        result = subprocess.run(
            ["git", "-C", str(root), *command], capture_output=True, text=True, check=False, timeout=30
        )
        if result.returncode == 0 and result.stdout.strip():
            try:
                return Package(config.repo_url.rstrip("/"), result.stdout.strip())
            except ValueError as error:
                raise PluginError(f"repo_url: {error}") from None
    raise PluginError(
        f"repo_url is {config.repo_url}, but {root} is no git checkout, so notebooks cannot name a revision "
        f"to install. Build from a checkout, or leave REPO_URL unset. git said: {result.stderr.strip()}"
    )
