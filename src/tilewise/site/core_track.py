"""Previous and next along the core track; Further pages are detours from it.

In: MkDocs's navigation and the course. Out: the same pages with new neighbours, and Further pages marked.
"""

from __future__ import annotations

from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

from tilewise.build.page.frame import FURTHER
from tilewise.build.page.layout import is_lesson, lesson_id_of, source_path
from tilewise.course.order import Course


def follow_core(nav: Navigation, course: Course) -> None:
    """Set each page's neighbours: the adjacent core pages, and for a Further page its own lesson.

    Args:
        nav: the pages, in order.
        course: the lessons.
    """
    core: list[Page] = []
    further: list[tuple[Page, str]] = []
    for page in nav.pages:
        name = lesson_id_of(page.file.src_uri) if is_lesson(page.file.src_uri) else ""
        if name in course.by_id and (home := course.lesson(name).header.further):
            further.append((page, source_path(home)))
            page.meta = {**page.meta, "status": FURTHER}
        else:
            core.append(page)
    for page, before, after in zip(core, [None, *core], [*core[1:], None], strict=False):
        page.previous_page, page.next_page = before, after
    by_path = {page.file.src_uri: page for page in core}
    for page, home in further:
        lesson = by_path.get(home)
        page.previous_page = lesson
        page.next_page = lesson.next_page if lesson else None
