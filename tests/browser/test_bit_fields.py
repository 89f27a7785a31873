"""Bit fields as a reader meets them: by keyboard, on a phone, after a reload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tilewise.figures import BitFormat, Held, bit_fields
from tilewise.frontend import build_assets

from .conftest import FIGURES, ROOT

pytestmark = FIGURES


@pytest.fixture(scope="module")
def address(chromium: str, tmp_path_factory: pytest.TempPathFactory, served: Callable[[Path], str]) -> str:
    """A page with two formats and two numbers under the built styles and scripts."""
    folder = tmp_path_factory.mktemp("bits")
    (folder / "tilewise").symlink_to(build_assets(ROOT))
    numbers = {
        "1": [Held(f"{127 << 23:032b}", "exactly"), Held("00111000", "exactly")],
        "1/3": [Held("00111110101010101010101010101011", "0.3333333"), Held("00101011", "0.34375")],
    }
    formats = [BitFormat("FP32", 8, 23), BitFormat("FP8 E4M3", 4, 3)]
    figure = bit_fields(formats, numbers, start="1", title="Bits", caption="c")
    (folder / "bits.json").write_bytes(figure.json_bytes())
    (folder / "index.html").write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Bits</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="tilewise/tilewise.css"></head>'
        '<body data-md-color-scheme="default"><main class="md-typeset">'
        f"{figure.html('bits.json', 'bits')}</main>"
        '<script src="tilewise/figures.js"></script></body></html>',
        encoding="utf-8",
    )
    return served(folder)


def opened(open_context: Callable[..., BrowserContext], address: str, width: int) -> Page:
    page = open_context(viewport={"width": width, "height": 800}).new_page()
    page.goto(address)
    return page


def rows(page: Page) -> list[Locator]:
    return page.locator(".tw-bit-row .tw-bit-cells[role=img]").all()


def bits(row: Locator) -> str:
    return "".join(row.locator(".tw-bit").all_text_contents())


@pytest.mark.parametrize("width", [1440, 360])
def test_the_slider_sets_the_bits_of_every_format_and_stays_after_a_reload(
    open_context: Callable[..., BrowserContext], address: str, width: int
) -> None:
    page = opened(open_context, address, width)
    slider = page.locator("input[type=range]")
    slider.focus()
    slider.press("ArrowRight")
    for _ in range(2):
        expect(page.locator(".tw-bit-said").first).to_have_text("0.3333333")
        assert [bits(row) for row in rows(page)] == ["00111110101010101010101010101011", "00101011"]
        assert rows(page)[1].get_attribute("aria-label") == "FP8 E4M3: 0 0101 011"
        assert rows(page)[1].locator(".tw-bit-set").count() == 4
        page.reload()


@pytest.mark.parametrize("width", [1440, 360])
def test_fractions_begin_in_line_and_nothing_is_wider_than_the_page(
    open_context: Callable[..., BrowserContext], address: str, width: int
) -> None:
    page = opened(open_context, address, width)
    expect(page.locator(".tw-bit").first).to_be_visible()
    lefts = [row.locator("[data-field=fraction]").first.bounding_box() for row in rows(page)]
    assert all(lefts) and abs(lefts[0]["x"] - lefts[1]["x"]) < 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    small = page.evaluate(
        "[...document.querySelectorAll('.tw-bit-rows *')].filter(one => one.children.length === 0 && "
        "one.textContent && parseFloat(getComputedStyle(one).fontSize) > 0 && "
        "parseFloat(getComputedStyle(one).fontSize) < 12).length"
    )
    assert small == 0
