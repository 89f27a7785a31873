"""What the front page shows of the course besides its map: the first figure, and how to get the course.

In: the course, its pages, and where its package comes from. Out: Markdown for a page at the site's root.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilewise.build.installation import Package
from tilewise.build.page.by_machine import shown_alone
from tilewise.build.page.layout import lesson_url, source_path
from tilewise.course.order import Course

if TYPE_CHECKING:
    from tilewise.build.page import Page

_STEPPED = re.compile(r'<figure class="tw-figure"[^>]*data-kind="stepped".*?</figure>', re.S)
_CAPTION = re.compile(r"<figcaption>.*?</figcaption>\n?", re.S)


def first_figure(course: Course, pages: Mapping[str, Page]) -> str:
    """The first stepped figure of the first lesson, without its caption, which speaks of that lesson's page.

    Args:
        course: the lessons.
        pages: their pages, by source path.

    Returns:
        The figure as HTML; empty where that lesson has none, or has not run yet.
    """
    for name in course.core[:1]:
        page = pages.get(source_path(name))
        if page and (found := _STEPPED.search(shown_alone(page.markdown))):
            up = "../" * lesson_url(name).count("/")
            return _CAPTION.sub("", found[0]).replace(f'data-figure="{up}', 'data-figure="')
    return ""


def clone(package: Package | None) -> str:
    """The commands that fetch the course and serve it."""
    if package is None:
        return "Clone the repository. Then, in its folder:\n\n```sh\nmake serve\n```"
    folder = package.repository.rsplit("/", 1)[-1].removesuffix(".git")
    return f"```sh\ngit clone {package.repository}\ncd {folder}\nmake serve\n```"


def notebooks(course: Course, package: Package | None) -> str:
    """How to open the first lesson as a notebook: in Colab where that can be, else downloaded."""
    first = course.core[0]
    address = f"{lesson_url(first)}{first.rsplit('/', 1)[-1]}.ipynb"
    link = f'<a href="{address}" download>the notebook of lesson 1</a>'
    if package is None:
        return f"Or download {link} for Jupyter or VS Code, and open it in that same environment."
    installs = "Its first cell installs everything it needs."
    if colab := package.colab(first):
        return f'Or <a href="{colab}">open lesson 1 in Colab</a>. {installs} You can also download {link}.'
    return f"Or download {link} for Jupyter, VS Code or Colab. {installs}"
