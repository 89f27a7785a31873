"""The front page's fragments besides the map: the first run, and how to get the course.

In: the course, its pages, and the source of its package. Out: Markdown for a page at the site's root.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilewise.build.installation import Package
from tilewise.build.page.by_machine import shown_alone
from tilewise.build.page.layout import lesson_url, source_path
from tilewise.course.order import Course
from tilewise.outputs.kinds import fence
from tilewise.outputs.try_it import COUNTS_BEGIN, COUNTS_END, END

if TYPE_CHECKING:
    from tilewise.build.page import Page

_RUN = re.compile(rf'<div class="tw-try".*?{END}</div>', re.S)
_KERNEL = re.compile(r'= r"""\n((?:(?!""").)*?__global__.*?)"""', re.S)
_COUNTS = re.compile(f"{COUNTS_BEGIN}.*?{COUNTS_END}", re.S)


def first_run(course: Course, pages: Mapping[str, Page]) -> str:
    """The first lesson's first kernel that a reader can run, with its first warp and without its table.

    Returns:
        The controls and the figure as HTML, then the lesson's first kernel for wide screens; empty if there
        is no run yet.
    """
    for name in course.core[:1]:
        page = pages.get(source_path(name))
        if page and (match := _RUN.search(shown_alone(page.markdown))):
            up = "../" * lesson_url(name).count("/")
            shown = _COUNTS.sub("", match[0]).replace(f'data-offer="{up}', 'data-offer="')
            shown = shown.replace('class="tw-try"', 'class="tw-try tw-try-front"', 1)
            if kernel := _KERNEL.search(page.markdown):
                text = fence(kernel[1], '.cuda linenums="1"')
                shown += f'\n\n<div class="tw-wide-only" markdown>\n\n{text}\n\n</div>'
            return shown
    return ""


def clone(package: Package | None) -> str:
    """The commands that clone and serve the course."""
    if package is None:
        whose = "If you built this site, you have the course already. If not, ask whoever published the site."
        return f"{whose} In the course's folder, run:\n\n```sh\nmake serve\n```"
    folder = package.repository.rsplit("/", 1)[-1].removesuffix(".git")
    return f"```sh\ngit clone {package.repository}\ncd {folder}\nmake serve\n```"


def notebooks(course: Course, package: Package | None) -> str:
    """How to open the first lesson as a notebook: in Colab if possible, otherwise as a download."""
    first = course.core[0]
    address = f"{lesson_url(first)}{first.rsplit('/', 1)[-1]}.ipynb"
    link = f'<a href="{address}" download>the notebook of lesson 1</a>'
    if package is None:
        shows = "With <code>%load_ext tilewise.cli.notebook</code> kernels run step by step in its cells."
        return f"Or download {link} for Jupyter or VS Code, and open it in that same environment. {shows}"
    installs = "Its first cell installs everything it needs."
    if colab := package.colab(first):
        return f'Or <a href="{colab}">open lesson 1 in Colab</a>. {installs} You can also download {link}.'
    return f"Or download {link} for Jupyter, VS Code or Colab. {installs}"
