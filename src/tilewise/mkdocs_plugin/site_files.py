"""The files that a site has besides those of docs/.

In: the shelf of lessons, the project's folder and the folder of styles and scripts. Out: MkDocs's files:
lessons as pages, what they offer and draw, licences, records, styles and scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, InclusionLevel

from tilewise.measurements.page import record_files
from tilewise.mkdocs_plugin.lessons import LAYOUT, Shelf
from tilewise.mkdocs_plugin.publication import licence_files


def site_files(
    shelf: Shelf, root: Path, assets: Path, within: str, config: MkDocsConfig, serving: bool
) -> Iterator[File]:
    """The files, some of them perhaps twice: figures that two lessons draw alike share one.

    Args:
        shelf: the lessons.
        root: the project's folder.
        assets: the folder of styles and scripts.
        within: the path of these in the site.
        config: MkDocs's configuration.
        serving: drafts are shown only then.
    """
    for path, page in shelf.pages.items():
        is_draft = shelf.course.lesson(lesson_id(path)).header.draft
        level = InclusionLevel.DRAFT if is_draft else InclusionLevel.UNDEFINED
        yield File(path, str(root), config.site_dir, config.use_directory_urls, inclusion=level)
        if not is_draft or serving:
            for name, content in page.files.items():
                yield File.generated(config, name, content=content)
    yield from licence_files(config, root)
    for name, content in shelf.figure_files().items():
        yield File.generated(config, name, content=content)
    for name, file in record_files(shelf.root):
        yield File.generated(config, name, abs_src_path=str(file))
    for asset in sorted(assets.rglob("*")):
        if asset.is_file():
            inside = asset.relative_to(assets).as_posix()
            yield File.generated(config, f"{within}/{inside}", abs_src_path=str(asset))


def lesson_id(source_path: str) -> str:
    """The id of the lesson in a file, by the file's path."""
    return source_path.removeprefix(f"{LAYOUT.folder}/").removesuffix(LAYOUT.suffix)
