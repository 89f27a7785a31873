"""The site's files from outside docs/.

In: the course, the project's folder and the folder of styles and scripts. Out: MkDocs files: lessons as
pages, licences and records; for a build also the lessons' downloads and figures, styles and scripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File

from tilewise.build.pipeline import CourseView
from tilewise.measurements.page import record_files
from tilewise.site.frontend import WASM

PLAYGROUND = "playground.md"
LICENCES = {"LICENSE": "licences/code.txt", "LICENSE-docs": "licences/text.txt"}
"""The project's licence files and their paths in the site."""


def site_files(
    view: CourseView,
    root: Path,
    assets: Path | None,
    within: str,
    config: MkDocsConfig,
    generated: Mapping[str, bytes],
) -> Iterator[File]:
    """Yield the files, some perhaps twice: identical figures of two lessons share one.

    Args:
        view: the lessons.
        root: the project's folder.
        assets: the folder of styles and scripts; None while serving, when these and the lessons' downloads
            and figures are looked up on request.
        within: the path of styles and scripts in the site.
        config: MkDocs's configuration.
        generated: further files by path from the site's root; none while serving.
    """
    for path in view.pages:
        yield File(path, str(root), config.site_dir, config.use_directory_urls)
        if assets is not None:
            for name, content in view.pages[path].files.items():
                yield File.generated(config, name, content=content)
    for name, inside in LICENCES.items():
        if (root / name).is_file():
            yield File.generated(config, inside, abs_src_path=str(root / name))
    for name, file in record_files(view.root):
        yield File.generated(config, name, abs_src_path=str(file))
    if assets is None:
        return
    for name, content in generated.items():
        yield File.generated(config, name, content=content)
    for asset in sorted({*assets.rglob("*"), assets / WASM}):
        if asset.is_file() or asset.name == WASM:
            inside = asset.relative_to(assets).as_posix()
            yield File.generated(config, f"{within}/{inside}", abs_src_path=str(asset))
