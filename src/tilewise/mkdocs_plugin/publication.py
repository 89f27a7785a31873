"""What a site has only once it is published: previews for links, licences, and the last step of its build.

In: MkDocs's configuration, files and pages. Out: more files beside them, and a finished site. The work on
pages is done by ``publishing``, the pictures by ``cards``; ``mkdocs serve`` leaves all of it out.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from jinja2 import Environment
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tilewise.figures.theme import colour
from tilewise.frontend import purge
from tilewise.installation import Package
from tilewise.measurements.archive import Archive
from tilewise.measurements.machines import machines
from tilewise.mkdocs_plugin import policy, publishing
from tilewise.mkdocs_plugin.cards import card, card_path
from tilewise.mkdocs_plugin.descriptions import first_words
from tilewise.mkdocs_plugin.file_cache import FileCache, key_of

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


def describe(page: Page, html: str) -> None:
    """Give a page the description that its author left out: its first words."""
    if not page.meta.get("description") and (words := first_words(html)):
        page.meta["description"] = words


def prepare(environment: Environment, published: bool, root: Path) -> None:
    """Tell templates where pictures of pages lie, whether there are any, and which machines have records."""
    environment.filters["card_path"] = card_path
    environment.globals["cards"] = published
    environment.globals["machines"] = machines(Archive(root / "lessons"))


def publish(
    config: MkDocsConfig,
    files: Files,
    environment: Environment,
    root: Path,
    assets: str,
    built: Path,
    cache: Path,
) -> list[str]:
    """Draw the pictures of a built site's pages and finish the site.

    Args:
        config: MkDocs's configuration.
        files: the site's files, with their pages.
        environment: the theme's templates.
        root: the project's folder.
        assets: the folder of our styles and scripts in the site.
        built: the same folder where it was built, with ``fonts``.
        cache: the folder for caches.

    Returns:
        What is wrong with the site, one sentence each.

    Raises:
        FrontendError: styles could not be thinned.
    """
    site = Path(config.site_dir)
    cards = FileCache(cache / "cards", at_most=400)
    for file in files.documentation_pages():
        if file.page is not None and (site / file.dest_uri).is_file():
            picture = site / card_path(file.page.url)
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(_card(file.page, config, built / "fonts", cards))
    cards.tidy()
    found = publishing.finish(
        site,
        f"{assets}/tilewise.css",
        lambda base: policy.theme_scripts(environment, config, base),
        urlsplit(config.site_url or "/").path,
        partial(purge, root),
    )
    return [
        f"{page} holds a script that the site's policy keeps from running: {script.strip()[:60]!r}. "
        "Put it into a file under src/tilewise/web."
        for page, script in found.strangers
    ]


def _card(page: Page, config: MkDocsConfig, fonts: Path, kept: FileCache) -> bytes:
    title = config.site_name if page.is_homepage else str(page.meta.get("title") or page.title)
    about = str(page.meta.get("description") or config.site_description or "")
    source = Path(__file__).with_name("cards.py").read_bytes()
    key = key_of(source, title, about, config.site_name, fonts.parent.name, colour("read"))
    picture = kept.get(key)
    if picture is None:
        picture = card(title, about, config.site_name, fonts)
        kept.put(key, picture)
    return picture
