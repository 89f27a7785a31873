"""The site's policy: stated on every page, kept by every part of the site, and in force.

No request leaves the host, from the root of a host, from a folder on it, and as a folder that was downloaded.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic
from playwright.sync_api import Page, expect
from static_host import host

from .conftest import ROOT, search_for
from .test_every_page import must_be_clean, read_through, watched
from .test_pages import LESSONS

FOLDER = "/tilewise/"
SMALL = ("lessons/part_1/lesson_02/", "Synthetic lesson 3")
FIGURE = """

# %%
from tilewise.figures import block_grid

show(block_grid((2, 2, 2), (4, 2), title="Eight threads per block", caption="Eight blocks, in space too."))
"""


def tour(page: Page, site: str, lesson: str, title: str) -> None:
    """What a reader does: figures in the plane and in space, tabs, themes, the next page, search."""
    page.goto(site + lesson)
    page.evaluate("window.loadedOnce = true")
    read_through(page)
    in_space = page.locator('input[value="3d"]')
    figure = page.locator(".tw-figure[data-figure]", has=in_space).first
    figure.scroll_into_view_if_needed()
    page.wait_for_function("figure => figure.dataset.state === 'drawn'", arg=figure.element_handle())
    figure.locator(in_space).first.check(force=True)
    figure.locator("canvas").first.wait_for()
    page.locator(".tabbed-labels > label").nth(1).click()
    page.locator("form[data-md-component=palette] label:visible").click()
    page.locator(".md-footer__link--next").click()
    expect(page.locator("article h1")).to_contain_text(title)
    read_through(page)
    search_for(page, "thread")
    page.locator(".md-search-result__item").first.wait_for()


def test_the_policy_holds_through_instant_navigation_figures_and_search(open_context, site):
    page, faults = watched(open_context(), site)
    tour(page, site, LESSONS[1], "Puzzles")
    assert page.evaluate("window.loadedOnce") is True, "the next page was loaded, not swapped in"
    assert page.evaluate("document.querySelectorAll('meta[http-equiv]').length") == 1
    must_be_clean(page, faults)


@pytest.fixture(scope="module")
def published(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small site as a repository's pages have it: below a folder of its host."""
    folder = tmp_path_factory.mktemp("published")
    synthetic.write_project(folder, 3)
    lesson = folder / f"{SMALL[0].removesuffix('/')}.py"
    head, mark, rest = lesson.read_text(encoding="utf-8").partition("# %% tab")
    lesson.write_text(head + FIGURE.lstrip() + "\n" + mark + rest, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet"],
        cwd=folder,
        check=True,
        env={
            **os.environ,
            "NO_MKDOCS_2_WARNING": "1",
            "SITE_URL": f"https://course.example{FOLDER}",
            "TILEWISE_CACHE": str(ROOT / ".cache/tilewise"),
        },
    )
    return folder / "site"


@pytest.mark.parametrize("folder", [FOLDER, "/"], ids=["in a folder of its host", "as a downloaded folder"])
def test_the_site_works_wherever_it_lies(open_context, published, folder):
    with host(published, folder) as address:
        page, faults = watched(open_context(), address)
        tour(page, address, *SMALL)
        must_be_clean(page, faults)
