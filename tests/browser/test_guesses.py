"""Guess first: what was recorded waits for the reader's guess, the miss is told; elsewhere it is there."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Locator, Page, expect

FIRST, OPEN = "lessons/kernels/first_kernel/", "lessons/memory/coalescing/"
TABLE = "lessons/memory/precision/"
RECORDED = ".tw-measurement:has(.tw-guess) .tw-table td:is([data-mark=measured], [data-mark=measured] ~ td)"


def kept(page: Page) -> object:
    return page.evaluate("JSON.parse(localStorage.getItem('tilewise:guesses'))")


def expect_covered(page: Page, covered: bool, told: bool = True) -> None:
    """Whether every recorded cell, and what was worked out from it, can be seen, read out or found by none.

    Args:
        page: a page with one guess.
        covered: what is expected.
        told: whether the cells are a screen's, which assistive technology is told of, too.
    """
    cells = page.locator(RECORDED)
    expect(cells.last).to_have_css("color", "rgba(0, 0, 0, 0)" if covered else re.compile(r"^rgb\("))
    seen = cells.evaluate_all(
        """(cells) => cells.map((cell) => {
            const shown = getComputedStyle(cell).color !== "rgba(0, 0, 0, 0)";
            const seen = (one) => one.checkVisibility({ visibilityProperty: true });
            return [...cell.children].every((one) => seen(one) === shown) ? shown : "half";
        })"""
    )
    assert set(seen) == {not covered}
    if told:
        table = page.locator(".tw-measurement:has(.tw-guess) table").first
        number = table.locator("td[data-mark=measured]").first.text_content() or "-"
        assert (number in said(table)) is not covered
    assert page.locator("td[data-mark=predicted]").first.is_visible()


def said(table: Locator) -> str:
    """What assistive technology is told of a table."""
    return table.aria_snapshot()


def test_the_table_is_covered_until_the_guess_is_compared_and_the_miss_is_told(page, site):
    page.goto(site + OPEN)
    panel = page.locator(".tw-guess")
    expect_covered(page, True)
    compare = panel.get_by_role("button", name="Compare with the measurement")
    expect(compare).to_be_disabled()
    slider = panel.get_by_role("slider")
    slider.focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    guess = panel.locator("output").inner_text()
    assert slider.get_attribute("aria-valuetext") == guess
    compare.press("Enter")
    expect_covered(page, False)
    answer = float(panel.get_attribute("data-answer") or 0)
    factor = float(guess.removesuffix("×")) / answer
    verdict = panel.locator(".tw-guess-verdict")
    expect(verdict).to_be_focused()
    told = verdict.inner_text()
    assert told.startswith(f"Measured: {answer:.2g}×. You guessed {guess}: {factor:.2g}× too high.")
    assert told.endswith(panel.get_attribute("data-because") or "-")


def test_the_table_can_be_seen_without_guessing(page, site):
    page.goto(site + OPEN)
    page.get_by_role("button", name="Skip the guess").click()
    expect_covered(page, False)
    assert "You guessed" not in page.locator(".tw-guess-verdict").inner_text()


def test_a_chart_after_the_guess_waits_for_it(page, site):
    page.goto(site + FIRST)
    panel = page.locator(".tw-guess").first
    chart = page.locator(".tw-figure[data-kind=chart].tw-waits").first
    expect(chart.locator(".tw-figure-title")).to_be_hidden()
    title = chart.locator(".tw-figure-title").text_content() or "-"
    assert title not in page.locator("article").aria_snapshot()
    panel.get_by_role("button", name="Skip the guess").click()
    expect(page.locator("article .tw-waits")).to_have_count(0)
    expect(page.locator(".tw-figure-title", has_text=title)).to_be_visible()


def test_a_table_below_the_guess_waits_for_it(page, site):
    page.goto(site + TABLE)
    caption = page.locator("caption", has_text="ReLU of")
    expect(caption).to_be_hidden()
    page.get_by_role("button", name="Skip the guess").first.click()
    expect(caption).to_be_visible()


def test_no_figure_in_view_tells_the_answer_before_the_guess(page, site, built):
    """Of any kind, before a guess or beside it: by its recorded values, its values, or its words."""
    asked = [file.parent for file in built.rglob("index.html") if 'class="tw-guess"' in file.read_text()]
    assert len(asked) > 20
    for folder in sorted(asked):
        address = f"{folder.relative_to(built).as_posix()}/"
        page.goto(site + address, wait_until="domcontentloaded")
        page.locator(".tw-guess[data-state]").first.wait_for(state="attached")
        for name, answer, unit, figures in page.evaluate(SEEN_BEFORE):
            for figure in figures:
                where = f"{address}: {figure['title']}"
                assert name not in figure["recorded"].split(), f"{where} draws {name}"
                made = json.loads((folder / figure["data"]).read_text())
                told = tells(float(answer), made["spec"]) or says(float(answer), unit, figure["words"])
                assert not told, f"{where} tells the answer to {name}: {told}"


SEEN_BEFORE = """[...document.querySelectorAll(".tw-guess")].map((panel) => {
    const after = (one, other) => one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
    const next = [...document.querySelectorAll("article :is(h2, h3)")].find((one) => after(panel, one));
    return [
        panel.dataset.guess,
        panel.dataset.answer,
        panel.dataset.unit,
        [...document.querySelectorAll("article .tw-figure:not(.tw-waits)")]
            .filter((one) => !next || after(one, next))
            .map((one) => ({
                title: one.querySelector(".tw-figure-title").textContent,
                words: one.textContent,
                recorded: one.dataset.recorded ?? "",
                data: one.dataset.figure,
            })),
    ];
})"""


def tells(answer: float, spec: dict[str, Any]) -> str:
    """Which values of a figure give an answer away; empty for none. Whole numbers are counts or sizes."""
    values = [value for value in dict.fromkeys(numbers(spec)) if value != round(value)]
    for one in values:
        if any(abs(one / scale / answer - 1) < 2e-6 for scale in (1, 100)):
            return f"{one:g}"
    lists = [series.get(axis) for series in spec.get("data", ()) for axis in ("x", "y")]
    drawn = {float(one) for values in lists for one in values or () if isinstance(one, int | float) and one}
    for one, other in itertools.permutations((value for value in drawn if value != round(value)), 2):
        if abs(one / other / answer - 1) < 2e-6:
            return f"{one:g} / {other:g}"
    return ""


def numbers(part: Any) -> Iterator[float]:
    """Every number of a specification, but the layout's, which are places on the screen."""
    if isinstance(part, dict):
        for name, inside in part.items():
            if name != "layout":
                yield from numbers(inside)
    elif isinstance(part, list):
        for inside in part:
            yield from numbers(inside)
    elif isinstance(part, int | float) and not isinstance(part, bool):
        yield float(part)


def says(answer: float, unit: str, words: str) -> str:
    """Where a figure's words give the answer with its unit, as a reader would round it."""
    rounded = {f"{answer:.{digits}g}" for digits in (2, 3, 4)}
    signs = {"×": r"\s?×|-fold| times", "µs": r"\s?µs"}[unit.strip()]
    for found in re.finditer(rf"([\d,]*\d(?:\.\d+)?)(?:{signs})", words):
        if f"{float(found[1].replace(',', '')):g}" in rounded:
            return found[0]
    return ""


def test_a_chart_that_gives_the_answer_is_found():
    spec = {"data": [{"x": ["a", "b"], "y": [226.4, 1555.6]}]}
    assert tells(1555.6 / 226.4, spec) and not tells(7.0, spec)
    assert tells(0.6871, {"data": [{"x": [68.71, None], "y": ["a", "b"]}]})
    assert tells(2.25, {"tasks": [{"end": 2.25}]}) and not tells(2.25, {"layout": {"width": 2.25}})
    assert says(6.8711, "×", "Rows are 6.9× faster") and says(278.0, " µs", "Finished at 278 µs.")
    assert not says(6.8711, "×", "Rows are 7× faster") and not says(278.0, " µs", "278 tasks, 27 µs")


def test_nothing_moves_when_the_table_appears(open_context, site):
    page = open_context(viewport={"width": 360, "height": 800}).new_page()
    page.goto(site + OPEN)
    page.wait_for_load_state("networkidle")
    page.locator(".tw-guess [data-value]").first.click()
    places = """[...document.querySelectorAll('.tw-measurement:has(.tw-guess) :is(table, td, details)')].map(
        (one) => [one.getBoundingClientRect().left, one.getBoundingClientRect().top + scrollY])"""
    before = page.evaluate(places)
    page.locator(".tw-guess [data-do=compare]").click()
    expect_covered(page, False)
    moved = [
        max(abs(a - b) for a, b in zip(*pair, strict=True))
        for pair in zip(before, page.evaluate(places), strict=True)
    ]
    assert max(moved) <= 24


def test_a_guess_is_remembered_over_pages_and_cleared_with_one_click(page, site):
    page.goto(site + OPEN)
    page.locator(".tw-guess [data-value]").first.click()
    assert kept(page) is None, "something was stored before the guess was compared"
    page.locator(".tw-guess [data-do=compare]").click()
    expect_covered(page, False)
    page.goto(site + "lessons/machine/warps/")
    expect_covered(page, True)
    page.locator(".tw-guess [data-value]").first.click()
    page.locator(".tw-guess [data-do=compare]").click()
    page.goto(site + OPEN)
    expect_covered(page, False)
    page.get_by_role("button", name="Clear my guesses").click()
    assert kept(page) is None
    expect_covered(page, True)


def test_in_print_the_table_is_there_without_the_question(page, site):
    page.goto(site + OPEN)
    expect_covered(page, True)
    page.emulate_media(media="print")
    expect_covered(page, False, told=False)
    expect(page.locator(".tw-guess")).to_be_hidden()


def test_without_script_the_table_is_there_without_the_question(open_context, site):
    page = open_context(java_script_enabled=False).new_page()
    page.goto(site + OPEN)
    expect_covered(page, False)
    expect(page.locator(".tw-guess")).to_be_hidden()
