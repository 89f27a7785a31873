"""Recap: a part's last lesson leads to what the part has taught."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewise.course import Navigation
from tilewise.errors import LessonError
from tilewise.lesson import Lesson
from tilewise.measurements.slugs import heading_slug
from tilewise.rules.model import NavigationRule


def _faults(nav: Navigation, lessons: Mapping[str, Lesson]) -> Iterator[LessonError]:
    for part in nav.parts if nav.has_recap else ():
        published = [lessons[name] for name in part.lessons if name in lessons]
        target = f"../../recap.md#{heading_slug(part.title)}"
        if published and target not in [link.text for link in published[-1].prose.links]:
            last = published[-1]
            message = f'the last lesson of "{part.title}" does not lead to its section of the recap.'
            repair = f"Link to {target} at its end."
            yield LessonError(last.path, last.cells[-1].last_line, message, repair)


RECAP = NavigationRule(
    "recap",
    "A part's last lesson links to its section of the recap.",
    "# %%\nx = 1\n=== part/two\n# %% [markdown]\n# See the [recap](../../recap.md#part).\n",
    "# %% [markdown]\n# See the [recap](../../recap.md#part).\n=== part/two\n# %%\nx = 1\n",
    _faults,
    stops=False,
)
