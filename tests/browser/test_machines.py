"""The choice of a machine: tables, figures and numbers that change together, and the reader's own records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tilewise.build.numbers import _time
from tilewise.measurements.archive import Archive, values_of
from tilewise.measurements.record import checksum
from tilewise.outputs.table import number as shown

from .conftest import ROOT

H100, H200 = "nvidia-h100-80gb-hbm3", "nvidia-h200"
RECORDS = ROOT / "lessons" / "measurements"
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


def load(page: Page, *files: Path | dict[str, Any]) -> Locator:
    """Choose files in the panel; returns the panel."""
    choose(page, "Mine")
    page.locator(".tw-mine input[type=file]").set_input_files(list(files))
    panel = page.locator(".tw-mine")
    expect(panel.get_by_role("status")).to_contain_text("read", ignore_case=True)
    expect(panel.get_by_role("status")).not_to_have_text("Reading…")
    return panel


def cell(page: Page, column: str) -> Locator:
    """A cell of the first row of the experiment's table."""
    at = page.locator(f"#{EXPERIMENT} thead th").evaluate_all(
        "(all, name) => all.findIndex((it) => it.dataset.column === name)", column
    )
    return page.locator(f"#{EXPERIMENT} tbody tr").first.locator("th, td").nth(at)


def number(page: Page) -> Locator:
    return page.locator(f"a.tw-number[data-path='{QUOTED}']").first


def test_tables_figures_and_numbers_change_together_and_back(page: Page) -> None:
    page.get_by_role("button", name="Skip the guess").click()  # the chart waits for it
    drawn: dict[str, str] = {}
    for name, device in (("H200", H200), ("H100", H100), ("H200", H200)):
        choose(page, name)
        expect(page.locator(".tw-machine-button")).to_have_text(name)
        expect(number(page)).to_have_text(time(device))
        expect(cell(page, "median")).to_have_text(f"{values(device)['median']:.4g}")
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
        cell(page, "median").locator("a").focus()
        page.mouse.move(5, 300)
    assert drawn["H100"] != drawn["H200"]


def test_the_choice_lasts_over_pages_and_visits(page: Page) -> None:
    choose(page, "H200")
    page.locator(".md-footer__link--next").click()
    expect(page.locator("article h1")).to_contain_text("Grids")
    expect(page.locator(".tw-machine-button")).to_have_text("H200")
    page.go_back()
    expect(number(page)).to_have_text(time(H200))
    page.reload()
    expect(number(page)).to_have_text(time(H200))


def test_the_menu_works_by_keyboard(page: Page) -> None:
    button = page.locator(".tw-machine-button")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitemradio", name="H100")).to_be_focused()
    expect(page.get_by_role("menuitemradio", checked=True)).to_have_text("H100")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("menuitemradio", name="Mine")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    expect(button).to_be_focused()
    expect(button).to_have_accessible_name("Measured on: H200")
    expect(number(page)).to_have_text(time(H200))


def test_paper_shows_what_was_chosen_and_no_button(page: Page) -> None:
    choose(page, "H200")
    page.emulate_media(media="print")
    expect(page.locator(".tw-machine-button")).to_be_hidden()
    expect(cell(page, "median")).to_have_text(f"{values(H200)['median']:.4g}")


def test_without_script_the_default_stands(open_context: Callable[..., BrowserContext], site: str) -> None:
    page = open_context(java_script_enabled=False).new_page()
    page.goto(site + HERE)
    expect(page.locator(".tw-machine")).to_be_hidden()
    expect(number(page)).to_have_text(time(H100))


def test_on_a_phone_menu_and_panel_fit(
    open_context: Callable[..., BrowserContext], site: str, axe: str
) -> None:
    page = open_context(viewport={"width": 360, "height": 740}, color_scheme="dark").new_page()
    page.goto(site + HERE)
    page.locator(".tw-machine-button").click()
    for part in (page.locator(".tw-machine-button"), page.get_by_role("menu")):
        box = part.bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= 360
    page.evaluate(axe)
    check = "part => axe.run(part).then((found) => found.violations.map((one) => one.id + one.help))"
    assert page.evaluate(check, ".tw-machine") == []
    page.get_by_role("menuitemradio", name="Mine").click()
    box = page.locator(".tw-mine").bounding_box()
    assert box and box["x"] >= 0 and box["x"] + box["width"] <= 360
    assert page.evaluate(check, ".tw-mine") == []


def test_a_record_of_ones_own_fills_tables_and_sentences(page: Page) -> None:
    panel = load(page, RECORDS / H200 / f"{EXPERIMENT}.json")
    expect(panel).to_contain_text("1 experiment loaded")
    page.keyboard.press("Escape")
    for _ in range(2):
        expect(page.locator(".tw-machine-button")).to_have_text("Mine")
        expect(number(page)).to_have_text(time(H200))
        found = values(H200)
        expect(cell(page, "median")).to_have_text(f"{found['median']:.4g}")
        expect(cell(page, "bound")).to_have_text(f"{found['bound']:.4g}")
        expect(cell(page, "share_of_bound")).to_have_text(f"{100 * found['share_of_bound']:.3g}")
        summary = page.locator(f"#{EXPERIMENT} .tw-provenance summary")
        expect(summary).to_have_text(re.compile(r"Recorded on NVIDIA H200, [\d-]+, from your file"))
        expect(page.locator("#vec_add .tw-machine-note")).to_have_text("H100 (not in your files)")
        number(page).hover()
        expect(page.locator(".tw-provenance-box")).to_contain_text(f"{EXPERIMENT}.json, your file")
        page.reload()
    choose(page, "Mine")
    page.get_by_role("button", name="Forget my files").click()
    page.keyboard.press("Escape")
    expect(number(page)).to_have_text(time(H100))
    assert page.evaluate("JSON.stringify(localStorage)").count(EXPERIMENT) == 0


def test_a_chart_of_recorded_numbers_is_drawn_again(page: Page, site: str) -> None:
    page.goto(f"{site}lessons/matmul/alignment/")
    chart = page.locator("figure.tw-figure[data-recorded]").first
    row, bar = chart.locator("li").first, chart.locator(".bartext").first
    chart.scroll_into_view_if_needed()
    before, drawn = row.text_content() or "-", bar.text_content() or "-"
    body = json.loads((RECORDS / H200 / "restride.json").read_text())
    for one in body["rows"]:
        one.update(median=77.5, p20=77.5, p80=99.0) if one["median"] else None
    buffer = json.dumps(body | {"checksum": checksum(body)}).encode()
    load(page, {"name": "restride.json", "mimeType": "application/json", "buffer": buffer})
    page.keyboard.press("Escape")
    chart.scroll_into_view_if_needed()
    expect(row).to_contain_text("77.5")
    expect(bar).to_contain_text("77.5")
    expect(chart.locator(".tw-machine-note")).to_contain_text("Recorded values of your files")
    choose(page, "H100")
    chart.scroll_into_view_if_needed()
    expect(row).to_have_text(before)
    expect(bar).to_have_text(drawn)


def changed(change: Callable[[dict[str, Any]], Any], seal: bool = True) -> bytes:
    """A record with a change, and with the checksum that then belongs to it."""
    body = json.loads((RECORDS / H200 / f"{EXPERIMENT}.json").read_text())
    change(body)
    return json.dumps(body | ({"checksum": checksum(body)} if seal else {})).encode()


EVIL = '<img src=x onerror="window.ran = 1"><script>window.ran = 1</script>'
REFUSED = {
    "cut off": (changed(lambda body: None)[:5000], "was cut off"),
    "an older form": (changed(lambda body: body.update(schema=1)), "has the form 1; this page reads form 2"),
    "edited": (changed(lambda body: body["rows"][0].update(median=3.5), seal=False), "was edited by hand"),
    "a text for a number": (
        changed(lambda body: body["rows"][0].update(median=EVIL)),
        'has a "rows[0].median"',
    ),
    "an endless number": (
        changed(lambda body: body["rows"][0].update(flop=7e77)).replace(b"7e+77", b"1e999"),
        "flop",
    ),
    "deep": (b"[" * 200_000 + b"]" * 200_000, "deep.json"),
    "huge": (b" " * 5_000_000, "has 5 MB, too much for a record"),
}


def test_a_bad_file_is_refused_with_a_reason_and_the_old_numbers_stay(page: Page) -> None:
    for name, (content, reason) in REFUSED.items():
        panel = load(page, {"name": f"{name}.json", "mimeType": "application/json", "buffer": content})
        expect(panel.get_by_role("alert")).to_contain_text(f"{name}.json")
        expect(panel.get_by_role("alert")).to_contain_text(reason)
        page.keyboard.press("Escape")
    expect(number(page)).to_have_text(time(H100))
    assert page.evaluate("window.ran") is None


def test_texts_of_a_file_stay_texts(page: Page) -> None:
    def spoil(body: dict[str, Any]) -> None:
        body["provenance"].update(device=EVIL, date=EVIL, driver=EVIL, __proto__={"polluted": 1})
        body["rows"][0].update(variant="__proto__")

    panel = load(page, {"name": "a.json", "mimeType": "application/json", "buffer": changed(spoil)})
    expect(panel.locator(".tw-mine-loaded")).to_contain_text(EVIL)
    expect(page.locator(f"#{EXPERIMENT} .tw-provenance summary")).to_contain_text("<img src=x")
    assert page.evaluate("[window.ran, {}.polluted, document.querySelector('img[src=x]')]") == [
        None,
        None,
        None,
    ]


def test_the_browser_finds_the_values_that_lessons_quote(page: Page) -> None:
    """Every value of every committed record, and its checksum, as ``archive.values_of`` gives them."""
    for record in Archive(ROOT / "lessons").records(H200):
        text = (RECORDS / H200 / f"{record.experiment}.json").read_text()
        found = page.evaluate(
            """async ([name, text, home]) => {
                const { read, valuesOf } = await import(new URL("mine.js", home).href);
                const { records, refused } = await read([new File([text], name)]);
                return records.length ? valuesOf(records[0]) : refused;
            }""",
            [record.experiment, text, page.locator("script[src*='tilewise.js']").evaluate("it => it.src")],
        )
        assert isinstance(found, dict), found
        must_equal(found, values_of(record), record.experiment)


def must_equal(found: Any, wanted: Any, at: str) -> None:
    if isinstance(wanted, dict):
        found = {name: one for name, one in found.items() if name != "limit"}
        assert found.keys() == wanted.keys(), at
        for name in wanted:
            must_equal(found[name], wanted[name], f"{at}.{name}")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-12), at
    else:
        assert found == wanted, at


def test_the_browser_writes_numbers_as_lessons_do(page: Page) -> None:
    forms = ["", "us", ",", ".0f", ".1f", ".2f", ",.0f", ".0%", ".1%", ".2%", ".1e", ".2e", ".3g"]
    given = [0.0, 0.5, 1.5, 0.125, 2.675, 100.25, 0.00012345, 999.96, 12345.5, 1e6 + 0.5, 6.25e9, -2.5]
    found = page.evaluate(
        """async ([values, forms, home]) => {
            const { formatted } = await import(new URL("mine.js", home).href);
            return values.map((value) => forms.map((form) => formatted(value, form)));
        }""",
        [given, forms, page.locator("script[src*='tilewise.js']").evaluate("it => it.src")],
    )
    for one, texts in zip(given, found, strict=True):
        plain = int(one) if one.is_integer() else one
        wanted = [shown(one)] + [_time(one)] + [format(plain, form) for form in forms[2:]]
        assert texts == wanted, one
