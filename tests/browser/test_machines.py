"""The choice of a machine: tables, figures and numbers that change together, and the reader's own records."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import pytest
import synthetic
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tilewise.figures import bars
from tilewise.measurements.archive import Archive, rates_of, values_of
from tilewise.measurements.births import birth_id, born
from tilewise.measurements.origin import Recorded
from tilewise.measurements.output import Measurement
from tilewise.measurements.record import Record, checksum
from tilewise.measurements.rounds import spread_of
from tilewise.numbers import _time
from tilewise.outputs import Context
from tilewise.outputs.table import number as shown

from .conftest import ROOT, Faults

H100, H200 = "nvidia-h100-80gb-hbm3", "nvidia-h200"
RECORDS = ROOT / "lessons" / "measurements"
HERE, NEXT = "measured/", "further/"
PATH = "vec_add.blocks_of_256.n_20000.median"
CONTEXT = Context("kernels/first_kernel", 1, lambda suffix, content: "", lambda wanted: wanted)


def value(device: str, path: str) -> Any:
    """A value of a committed record, as a lesson's prose looks it up."""
    experiment, *names = path.split(".")
    found: Any = Archive(ROOT / "lessons").lookup(experiment, device)
    for name in names:
        found = found[name]
    return found


def table(record: Record) -> str:
    """A record as a page's table."""
    born_at = birth_id(record.experiment, record.provenance["device"])
    rows = []
    for row in (row for row in record.rows if row.median is not None):
        rates = rates_of(row, record)
        times = {
            name: Recorded(getattr(row, name), born_at, spread_of(row)) for name in ("median", "p20", "p80")
        }
        rows.append(
            {
                "variant": row.variant,
                "role": row.role,
                "parameters": row.case,
                "recorded": times,
                "stale": False,
            }
            | {"bound": rates.get("bound"), "limited_by": "memory", "share": rates.get("share_of_bound")}
            | {name: rates.get(name) for name in ("gb_per_s", "tflop_per_s")}
        )
    made = Measurement(
        record.experiment, record.lesson, None, (), tuple(rows), record.provenance, "a.json", "", (), ()
    )
    return made.markdown(CONTEXT)


def block(shown: str, other: str | None = None) -> str:
    """The output of the first machine, and in a template that of the second."""
    more = f'<template data-machine="{H200}">{other}</template>' if other else ""
    return f'<div class="tw-machines" data-shown="{H100}">\n{shown}\n{more}\n</div>\n'


def sentence(path: str, form: Callable[[float], str], spec: str) -> str:
    """A number in a sentence, with the second machine's."""
    experiment = path.split(".", maxsplit=1)[0]
    record = Archive(ROOT / "lessons").record(experiment, H200)
    assert record is not None
    on = {H200: {"text": form(value(H200, path)), "born": birth_id(experiment, record.provenance["device"])}}
    link = born(form(value(H100, path)), birth_id(experiment, H100), "p20 1 µs, median 2 µs, p80 3 µs")
    more = f' data-path="{path}" data-format="{spec}" data-on="{escape(json.dumps(on))}"'
    return f"<p>Adding takes {link.replace('<a', '<a' + more)} of time.</p>\n"


def figure(folder: Path, device: str) -> str:
    """A figure of the device's numbers; its data goes into the folder."""
    time = Recorded(value(device, PATH), birth_id("vec_add", device), "", "measured", PATH)
    made = bars({"256 threads": time}, title=f"On {device}", caption="One bar.", x="Time in µs")
    (folder / f"{device}.json").write_bytes(made.json_bytes())
    return made.html(f"../{device}.json", "bar")


@pytest.fixture(scope="module")
def site(chromium: str, tmp_path_factory: pytest.TempPathFactory, served: Callable[[Path], str]) -> str:
    """A small site of two machines: one experiment with records of both, one with a record of the first."""
    return served(small_site(tmp_path_factory.mktemp("machines")))


def small_site(folder: Path) -> Path:
    """Build it; returns its folder."""
    synthetic.write_project(folder, 1, synthetic.SMALL)
    docs = folder / "docs"
    archive = Archive(ROOT / "lessons")
    for device, names in {H100: ("vec_add", "transposes"), H200: ("vec_add",)}.items():
        for name in names:
            kept = folder / "lessons" / "measurements" / device / f"{name}.json"
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.symlink_to(RECORDS / device / f"{name}.json")
    first, second = (archive.record("vec_add", device) for device in (H100, H200))
    alone = archive.record("transposes", H100)
    assert first and second and alone
    pages = {"measured": "# Measured\n\nCONTENT\n", "further": "# Further\n\nCONTENT\n"}
    for name, text in pages.items():
        (docs / f"{name}.md").write_text(text, encoding="utf-8")
    only = f"<p>Only the first has {born('1 ms', birth_id('transposes', H100), '', 'only')}.</p>"
    content = [sentence(PATH, _time, "us"), only, block(table(first), table(second)), table(alone)]
    content += [
        block(figure(docs, H100), figure(docs, H200)),
        block('<pre class="tw-said">Said by H100</pre>'),
    ]
    config = folder / "mkdocs.yml"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("  - glossary.md\n", "  - measured.md\n  - further.md\n  - glossary.md\n"))
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet"],
        cwd=folder,
        check=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    for name, inside in {"measured": "\n".join(content), "further": sentence(PATH, _time, "us")}.items():
        made = folder / "site" / name / "index.html"
        made.write_text(made.read_text("utf-8").replace("<p>CONTENT</p>", inside), encoding="utf-8")
    return folder / "site"


@pytest.fixture
def page(open_context: Callable[..., BrowserContext], site: str) -> Iterator[Page]:
    """The page of the small site; the test fails if it logs an error or asks another host for anything."""
    found = open_context().new_page()
    faults = Faults(site)
    faults.watch(found)
    found.goto(site + HERE)
    yield found
    assert faults.console == []
    assert faults.elsewhere == []


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
    """A cell of the first row of the table that both machines have."""
    expect(page.locator("#vec_add")).to_be_visible()
    at = page.locator("#vec_add th").evaluate_all(
        "(all, name) => all.findIndex((it) => it.dataset.column === name)", column
    )
    return page.locator("#vec_add tbody tr").first.locator("td").nth(at)


def number(page: Page) -> Locator:
    return page.locator("p > a.tw-number").first


def test_tables_figures_and_numbers_change_together_and_back(page: Page) -> None:
    for name, device in (("H200", H200), ("H100", H100), ("H200", H200)):
        choose(page, name)
        expect(page.locator(".tw-machine-button")).to_have_text(name)
        expect(number(page)).to_have_text(_time(value(device, PATH)))
        expect(cell(page, "median")).to_have_text(f"{value(device, PATH):.4g}")
        drawn = page.locator("#bar[data-state=drawn]")
        drawn.scroll_into_view_if_needed()
        expect(drawn).to_contain_text(f"On {device}")
        expect(drawn.locator(".xtitle")).to_be_visible()
        ids = page.locator("[id]").evaluate_all("all => all.map((one) => one.id)")
        assert len(set(ids)) == len(ids)
        number(page).scroll_into_view_if_needed()
        number(page).hover()
        expect(page.locator(".tw-born")).to_contain_text(f"NVIDIA {name}")
        cell(page, "median").locator("a").focus()
        page.mouse.move(5, 300)


def test_a_block_without_a_record_keeps_the_default_and_says_so(page: Page) -> None:
    notes = page.locator(".tw-machine-note")
    choose(page, "H200")
    expect(notes).to_have_text(["H100 (no record on the H200)"] * 2)
    expect(page.locator("#transposes .tw-machine-note")).to_be_visible()
    expect(page.locator("[data-elsewhere=H100]")).to_have_text("1 ms")
    choose(page, "H100")
    expect(notes).to_have_count(0)
    expect(page.locator("[data-elsewhere]")).to_have_count(0)


def test_the_choice_lasts_over_pages_and_visits(page: Page, site: str) -> None:
    choose(page, "H200")
    page.locator(".md-footer__link--next").click()
    expect(page.locator("article h1")).to_contain_text("Further")
    expect(number(page)).to_have_text(_time(value(H200, PATH)))
    page.reload()
    expect(number(page)).to_have_text(_time(value(H200, PATH)))
    expect(page.locator(".tw-machine-button")).to_have_text("H200")
    page.go_back()
    expect(cell(page, "median")).to_have_text(f"{value(H200, PATH):.4g}")


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
    expect(number(page)).to_have_text(_time(value(H200, PATH)))


def test_paper_shows_what_was_chosen_and_no_button(page: Page) -> None:
    choose(page, "H200")
    page.emulate_media(media="print")
    expect(page.locator(".tw-machine-button")).to_be_hidden()
    expect(cell(page, "median")).to_have_text(f"{value(H200, PATH):.4g}")
    expect(page.locator("#transposes .tw-machine-note")).to_be_visible()


def test_without_script_the_default_stands(open_context: Callable[..., BrowserContext], site: str) -> None:
    page = open_context(java_script_enabled=False).new_page()
    page.goto(site + HERE)
    expect(page.locator(".tw-machine")).to_be_hidden()
    expect(number(page)).to_have_text(_time(value(H100, PATH)))
    expect(cell(page, "median")).to_have_text(f"{value(H100, PATH):.4g}")


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


def test_a_record_of_ones_own_fills_tables_and_sentences(page: Page, site: str) -> None:
    panel = load(page, RECORDS / H200 / "vec_add.json")
    expect(panel).to_contain_text("1 experiment loaded")
    page.keyboard.press("Escape")
    for _ in range(2):
        expect(page.locator(".tw-machine-button")).to_have_text("Mine")
        expect(number(page)).to_have_text(_time(value(H200, PATH)))
        values = value(H200, PATH.removesuffix(".median"))
        expect(cell(page, "median")).to_have_text(f"{values['median']:.4g}")
        expect(cell(page, "bound")).to_have_text(f"{values['bound']:.4g}")
        expect(cell(page, "share_of_bound")).to_have_text(f"{100 * values['share_of_bound']:.3g}")
        expect(cell(page, "gb_per_s")).to_have_text(f"{values['gb_per_s']:.4g}")
        summary = page.locator("#vec_add .tw-provenance summary")
        expect(summary).to_have_text(re.compile(r"Recorded on NVIDIA H200, [\d-]+, from your file"))
        expect(page.locator("#transposes .tw-machine-note")).to_have_text("H100 (not in your files)")
        number(page).hover()
        expect(page.locator(".tw-born")).to_contain_text("vec_add.json, your file")
        page.goto(site + NEXT)
        expect(number(page)).to_have_text(_time(value(H200, PATH)))
        page.goto(site + HERE)
    choose(page, "Mine")
    page.get_by_role("button", name="Forget my files").click()
    page.keyboard.press("Escape")
    expect(number(page)).to_have_text(_time(value(H100, PATH)))
    assert page.evaluate("JSON.stringify(localStorage)").count("vec_add") == 0


def test_a_chart_of_recorded_numbers_is_drawn_again(page: Page) -> None:
    bar = page.locator("#bar[data-state=drawn]")
    bar.scroll_into_view_if_needed()
    expect(bar.locator(".bartext")).to_have_text(f"\xa0{value(H100, PATH):.4g}")
    body = json.loads((RECORDS / H200 / "vec_add.json").read_text())
    row = next(one for one in body["rows"] if one["variant"] == "blocks of 256")
    row.update(median=77.5, p80=99.0)
    body["checksum"] = checksum(body)
    load(page, {"name": "vec_add.json", "mimeType": "application/json", "buffer": json.dumps(body).encode()})
    page.keyboard.press("Escape")
    bar.scroll_into_view_if_needed()
    expect(bar.locator(".bartext")).to_have_text("\xa077.5")
    expect(bar.locator("li")).to_have_text("256 threads: 77.5")
    expect(bar.locator(".tw-machine-note")).to_contain_text("Recorded values of your files")
    choose(page, "H100")
    bar.scroll_into_view_if_needed()
    expect(bar.locator(".bartext")).to_have_text(f"\xa0{value(H100, PATH):.4g}")
    expect(bar.locator("li")).to_have_text(f"256 threads: {value(H100, PATH):.4g}")


def changed(change: Callable[[dict[str, Any]], Any], seal: bool = True) -> bytes:
    """A record with a change, and with the checksum that then belongs to it."""
    body = json.loads((RECORDS / H200 / "vec_add.json").read_text())
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
    expect(number(page)).to_have_text(_time(value(H100, PATH)))
    assert page.evaluate("window.ran") is None


def test_texts_of_a_file_stay_texts(page: Page) -> None:
    def spoil(body: dict[str, Any]) -> None:
        body["provenance"].update(device=EVIL, date=EVIL, driver=EVIL, __proto__={"polluted": 1})
        body["rows"][0].update(variant="__proto__")

    panel = load(page, {"name": "a.json", "mimeType": "application/json", "buffer": changed(spoil)})
    expect(panel.locator(".tw-mine-loaded")).to_contain_text(EVIL)
    expect(page.locator("#vec_add .tw-provenance summary")).to_contain_text("<img src=x")
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
    values = [0.0, 0.5, 1.5, 0.125, 2.675, 100.25, 0.00012345, 999.96, 12345.5, 1e6 + 0.5, 6.25e9, -2.5]
    found = page.evaluate(
        """async ([values, forms, home]) => {
            const { formatted } = await import(new URL("mine.js", home).href);
            return values.map((value) => forms.map((form) => formatted(value, form)));
        }""",
        [values, forms, page.locator("script[src*='tilewise.js']").evaluate("it => it.src")],
    )
    for one, texts in zip(values, found, strict=True):
        plain = int(one) if one.is_integer() else one
        wanted = [shown(one)] + [_time(one)] + [format(plain, form) for form in forms[2:]]
        assert texts == wanted, one
