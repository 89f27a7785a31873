"""Images: the site has a copy of each, and fetches nothing from elsewhere."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from tilewise.errors import LessonError
from tilewise.lesson import Lesson
from tilewise.rules.model import LessonRule


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    folder = posixpath.dirname(lesson.path)
    for image in lesson.prose.images:
        at = image.place.line
        if "://" in image.text or image.text.startswith("//"):
            message = f"the image ({image.text}) is fetched from another site."
            yield LessonError(lesson.path, at, message, "Put a copy in docs/assets and name it.")
        elif not posixpath.normpath(posixpath.join(folder, image.text)).startswith("docs/"):
            message = f"the image ({image.text}) lies outside docs/, so the site has no copy."
            repair = "Put it in docs/assets and write its path from here, ../../docs/assets/..."
            yield LessonError(lesson.path, at, message, repair)


IMAGES = LessonRule(
    "images",
    "An image is a file in docs/assets.",
    "# %% [markdown]\n# ![A tile](../../docs/assets/tile.svg)\n",
    "# %% [markdown]\n# ![A tile](https://example.org/tile.svg)\n",
    _faults,
)
