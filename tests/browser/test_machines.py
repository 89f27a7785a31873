"""The choice of a machine: tables, figures and numbers that change together."""

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tilewise.build.numbers import _time
from tilewise.measurements.archive import Archive

from .conftest import ROOT, axe_faults

H100, H200 = "nvidia-h100-80gb-hbm3", "nvidia-h200"
HERE = "lessons/kernels/first_kernel/"
EXPERIMENT = "vec_add_with_copies"
QUOTED = f"{EXPERIMENT}.kernel_alone.n_16777216.median"
"""The path of a number that the lesson quotes."""


def values(device: str, path: str = f"{EXPERIMENT}.kernel_alone.n_20000") -> Any:
    """What a committed record says at a path, as a lesson's prose looks it up; of the table's first row."""
    experiment, *names = path.split(".")
    found: Any = Archive(ROOT / "lessons").lookup(experiment, device)
    for name in names:
        found = found[name]
    return found


def time(device: str) -> str:
    """The number that the lesson quotes, as it writes it."""
    return _time(values(device, QUOTED))


@pytest.fixture
def page(page: Page, site: str) -> Page:
    """A lesson with two experiments, each recorded on both machines."""
    page.goto(site + HERE)
    page.wait_for_load_state("networkidle")
    return page


def choose(page: Page, name: str) -> None:
    page.locator(".tw-machine-button").click()
    page.get_by_role("menuitemradio", name=name).click()


def cell(page: Page, column: str) -> Locator:
    """A cell of the first row of the experiment's table."""
    at = page.locator(f"#{EXPERIMENT} thead th").evaluate_all(
        "(all, name) => all.findIndex((it) => it.firstChild.textContent.trim() === name)", column
    )
    return page.locator(f"#{EXPERIMENT} tbody tr").first.locator("th, td").nth(at)


def number(page: Page) -> Locator:
    return page.locator(f"a.tw-number[data-on*='{time(H200)}']").first


def test_tables_figures_and_numbers_change_together_and_back(page):
    page.get_by_role("button", name="Skip the guess").click()  # the chart waits for it
    drawn: dict[str, str] = {}
    for name, device in (("H200", H200), ("H100", H100), ("H200", H200)):
        choose(page, name)
        expect(page.locator(".tw-machine-button")).to_have_text(name)
        expect(number(page)).to_have_text(time(device))
        expect(cell(page, "recorded")).to_have_text(f"{values(device)['median']:.4g}")
        figure = page.locator("#figure-3")
        figure.scroll_into_view_if_needed()
        expect(figure).to_have_attribute("data-state", "drawn")
        expect(figure.locator(".bartext").first).to_be_visible()
        bars = " ".join(figure.locator(".bartext").all_text_contents())
        assert bars == drawn.setdefault(name, bars)
        ids = page.locator("article [id]").evaluate_all("all => all.map((one) => one.id)")
        assert len(set(ids)) == len(ids), "an id stands twice"
        number(page).scroll_into_view_if_needed()
        number(page).hover()
        expect(page.locator(".tw-provenance-box")).to_contain_text(f"NVIDIA {name}")
        cell(page, "recorded").locator("a").focus()
        page.mouse.move(5, 300)
    assert drawn["H100"] != drawn["H200"]


def test_the_choice_lasts_over_pages_and_visits(page):
    choose(page, "H200")
    page.locator(".md-footer__link--next").click()
    expect(page.locator("article h1")).to_contain_text("Grids")
    expect(page.locator(".tw-machine-button")).to_have_text("H200")
    page.go_back()
    expect(number(page)).to_have_text(time(H200))
    page.reload()
    expect(number(page)).to_have_text(time(H200))


def test_the_menu_works_by_keyboard(page):
    button = page.locator(".tw-machine-button")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitemradio", name="H100")).to_be_focused()
    expect(page.get_by_role("menuitemradio", checked=True)).to_have_text("H100")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("menuitemradio", name="H200")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    expect(button).to_be_focused()
    expect(button).to_have_accessible_name("Measured on: H200")
    expect(number(page)).to_have_text(time(H200))


def test_paper_shows_what_was_chosen_and_no_button(page):
    choose(page, "H200")
    page.emulate_media(media="print")
    expect(page.locator(".tw-machine-button")).to_be_hidden()
    expect(cell(page, "recorded")).to_have_text(f"{values(H200)['median']:.4g}")


def test_without_script_the_default_stands(open_context, site):
    page = open_context(java_script_enabled=False).new_page()
    page.goto(site + HERE)
    expect(page.locator(".tw-machine")).to_be_hidden()
    expect(number(page)).to_have_text(time(H100))


def test_on_a_phone_the_menu_fits(open_context, site, axe):
    page = open_context(viewport={"width": 360, "height": 740}, color_scheme="dark").new_page()
    page.goto(site + HERE)
    page.locator(".tw-machine-button").click()
    for part in (page.locator(".tw-machine-button"), page.get_by_role("menu")):
        box = part.bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= 360
    assert axe_faults(page, axe, ".tw-machine") == []
