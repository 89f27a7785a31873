"""Paper, and a browser without script: nothing is folded away, no figure is an empty box, nothing is lost."""

import pytest
from playwright.sync_api import BrowserContext, Page

from .test_pages import LESSONS


def on_paper(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    page.emulate_media(media="print")
    return page


def unprinted(page: Page) -> list[str]:
    """The beginnings of those paragraphs and listings in folds and tabs that take no room on paper."""
    parts = page.locator("article :is(details, .tabbed-block) :is(p, pre)").all()
    assert len(parts) >= 10
    boxes = [(part.bounding_box(), part.text_content() or "") for part in parts]
    return [text[:60] for box, text in boxes if text.strip() and (box is None or box["height"] < 1)]


def test_without_script_paper_has_every_fold_every_tab_and_figures_as_text(open_context, site):
    page = on_paper(open_context(java_script_enabled=False), site + LESSONS[1])
    assert page.locator("article details").count() >= 3
    assert unprinted(page) == []
    figures = page.locator(".tw-figure[data-figure]")
    assert figures.count() >= 1
    for figure in figures.all():
        assert figure.locator(".tw-figure-body").bounding_box() is None
        told = figure.locator(".tw-figure-alt p").first.bounding_box()
        assert told is not None and told["height"] > 10
        assert figure.locator("figcaption").is_visible()


@pytest.mark.parametrize("path", [LESSONS[1], "", "reference/"])
def test_without_script_every_page_can_be_read_and_left(open_context, site, path):
    page = open_context(java_script_enabled=False).new_page()
    page.goto(site + path)
    assert page.locator("article h1").is_visible()
    assert page.locator("article p").first.is_visible()
    assert page.locator(".md-footer a[rel=license]").count() == 2
    assert page.locator(".md-footer__link, article a[href]").first.get_attribute("href")
    assert page.locator(".tw-feedback textarea:visible").count() == 0, "a box that does nothing"


def test_paper_leaves_out_what_only_works_on_a_screen(open_context, site):
    page = on_paper(open_context(), site + LESSONS[0])
    for part in (".md-header", ".md-sidebar", ".md-search", ".tw-downloads", ".md-code__nav"):
        assert all(not one.is_visible() for one in page.locator(part).all()), part
