"""Calculators and cards as a reader meets them: by keyboard, on a phone, cards without a script too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tilewise.figures import Answer, Meter, Plot, Slider, calculator
from tilewise.frontend import build_assets
from tilewise.outputs import Card, Cards, Context

from .conftest import FIGURES, ROOT

pytestmark = FIGURES


def roof(bandwidth: int, intensity: float) -> Answer:
    """The rate under a roof of 100, with the roof and the point."""
    rate = min(100.0, bandwidth * intensity)
    memory = rate < 100
    return Answer(
        [rate / (bandwidth * intensity), rate / 100],
        "Memory-bound." if memory else "Compute-bound.",
        ["memory"] if memory else ["arithmetic"],
        lines=[("roof", "predicted", [(0.1, 0.1 * bandwidth), (100 / bandwidth, 100), (1000, 100)])],
        point=(intensity, rate),
    )


@pytest.fixture(scope="module")
def address(chromium: str, tmp_path_factory: pytest.TempPathFactory, served: Callable[[Path], str]) -> str:
    """A page with a calculator and a card under the built styles and scripts."""
    folder = tmp_path_factory.mktemp("calculators")
    (folder / "tilewise").symlink_to(build_assets(ROOT))
    figure = calculator(
        [Slider("bandwidth", [10, 20, 50], 20, "B/s"), Slider("intensity", [1.0, 2.0, 10.0], 2.0)],
        roof,
        meters=[
            Meter("memory", 1.0, "busy", "read", ".0%"),
            Meter("arithmetic", 1.0, "busy", "block", ".0%"),
        ],
        plot=Plot("intensity [FLOP/B]", "rate [FLOP/s]", (0.1, 1000), (1, 1000), log=True),
        title="A roof",
        caption="c",
    )
    (folder / "roof.json").write_bytes(figure.json_bytes())
    reasons = {"memory": "It moves little.", "overhead": "It waits for launches."}
    cards = Cards("What limits it?", [Card("The GPU idles.", "overhead", reasons)])
    context = Context("speed/launches", 1, lambda suffix, content: "", lambda wanted: wanted)
    (folder / "index.html").write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Calculators</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="tilewise/tilewise.css"></head>'
        '<body data-md-color-scheme="default"><main class="md-typeset">'
        f"{figure.html('roof.json', 'roof')}{cards.markdown(context)}</main>"
        '<script src="tilewise/figures.js"></script></body></html>',
        encoding="utf-8",
    )
    return served(folder)


def opened(open_context: Callable[..., BrowserContext], address: str, **options: object) -> Page:
    page = open_context(**options).new_page()
    page.goto(address)
    return page


def test_sliders_move_bars_verdict_and_point_by_keyboard_and_stay_after_a_reload(
    open_context: Callable[..., BrowserContext], address: str
) -> None:
    page = opened(open_context, address)
    figure = page.locator("#roof")
    expect(figure).to_have_attribute("data-state", "drawn")
    verdict, point = figure.locator(".tw-calculator-verdict"), figure.locator(".tw-point")
    expect(verdict).to_have_text("Memory-bound.")
    assert figure.locator(".tw-meter-value").all_text_contents() == ["100% busy", "40% busy"]
    assert figure.locator(".tw-meter-limit .tw-meter-label").all_text_contents() == ["memory"]
    before = float(point.get_attribute("cx") or 0)
    figure.get_by_role("slider", name="intensity").focus()
    page.keyboard.press("ArrowRight")
    expect(verdict).to_have_text("Compute-bound.")
    assert figure.locator(".tw-meter-value").all_text_contents() == ["50% busy", "100% busy"]
    assert figure.locator(".tw-meter-limit .tw-meter-label").all_text_contents() == ["arithmetic"]
    assert float(point.get_attribute("cx") or 0) > before + 20
    widths = figure.locator(".tw-meter-bar").evaluate_all("bars => bars.map((one) => one.style.width)")
    assert widths == ["50%", "100%"]
    page.reload()
    expect(figure.locator(".tw-calculator-verdict")).to_have_text("Compute-bound.")
    expect(figure.get_by_role("slider", name="intensity")).to_have_attribute("aria-valuetext", "10")


@pytest.mark.parametrize("width", [360, 1440])
def test_nothing_is_clipped_or_runs_out_of_the_room_that_was_kept(
    open_context: Callable[..., BrowserContext], address: str, width: int
) -> None:
    page = opened(open_context, address, viewport={"width": width, "height": 900})
    figure = page.locator("#roof")
    expect(figure).to_have_attribute("data-state", "drawn")
    room, last, stage = figure.evaluate(
        """(one) => {
            const body = one.querySelector(".tw-figure-body");
            const sliders = one.querySelectorAll(".tw-slider");
            return [
                body.getBoundingClientRect().bottom,
                sliders[sliders.length - 1].getBoundingClientRect().bottom,
                one.querySelector(".tw-stage").clientHeight,
            ];
        }"""
    )
    assert last <= room + 1, "the last slider lies in the room that the page kept"
    assert stage > 180, "the plot has room"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("script", [True, False])
def test_a_card_says_why_for_the_choice_made_with_or_without_a_script(
    open_context: Callable[..., BrowserContext], address: str, script: bool
) -> None:
    page = opened(open_context, address, java_script_enabled=script)
    reasons = page.locator(".tw-card-reason")
    assert [reasons.nth(at).is_visible() for at in range(2)] == [False, False]
    page.locator(".tw-card label", has_text="memory").click()
    expect(reasons.nth(0)).to_be_visible()
    expect(reasons.nth(0)).to_have_text("No. It moves little.")
    page.keyboard.press("ArrowRight")
    expect(reasons.nth(1)).to_have_text("Yes. It waits for launches.")
    assert [reasons.nth(at).is_visible() for at in range(2)] == [False, True]
