"""Every run that a built lesson offers: at its start, least and most sizes, with each kernel, and stepped."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.sweeps import SIMULATOR

from .conftest import ROOT

pytestmark = pytest.mark.sweep(
    *SIMULATOR,
    "src/tilewise/kernel/try_it.py",
    "src/tilewise/site/web/run",
    packages=["ziglang"],
)
LESSONS = [
    file.relative_to(ROOT).with_suffix("").as_posix()
    for file in sorted((ROOT / "lessons").glob("*/*.py"))
    if re.search(r"^ *try_it\(", file.read_text(encoding="utf-8"), re.M)
]

ANSWERS = """async (id) => {
    const root = document.getElementById(id);
    const form = root.querySelector("form");
    const result = root.querySelector(".tw-try-result");
    const sliders = [...form.querySelectorAll('input[type="range"]')];
    const kernels = form.elements.kernel ? form.elements.kernel.options.length : 1;
    const starts = sliders.map((slider) => slider.value);
    const said = [];
    const texts = (which) => [...result.querySelectorAll(which)].map((one) => one.textContent);
    const seen = () => new Promise((resolve, reject) => {
        const watch = new MutationObserver(() => { watch.disconnect(); clearTimeout(late); resolve(); });
        const late = setTimeout(() => reject(new Error(`${id}: no answer within a minute`)), 60_000);
        watch.observe(result, { attributes: true });
    });
    const run = async (what, values, kernel) => {
        if (form.elements.kernel) form.elements.kernel.value = String(kernel);
        sliders.forEach((slider, at) => { slider.value = values[at]; });
        const answer = seen();
        (sliders[0] ?? form.elements.kernel).dispatchEvent(new Event("input", { bubbles: true }));
        await answer;
        said.push({
            what: `${what}, kernel ${kernel}`,
            title: result.querySelector(".tw-run-title")?.textContent ?? "",
            refused: result.querySelector(".tw-try-refused")?.textContent ?? "",
            hazard: result.querySelector(".tw-hazard")?.textContent ?? "",
            total: texts("tfoot tr:first-child td.tw-right"),
            page: texts("tfoot tr:last-child td.tw-right"),
        });
    };
    form.dispatchEvent(new Event("focusin", { bubbles: true }));
    while (root.dataset.state !== "ready") await new Promise((resolve) => setTimeout(resolve, 20));
    for (let kernel = 0; kernel < kernels; kernel++) {
        await run("start", starts, kernel);
        await run("least", sliders.map((slider) => slider.min), kernel);
        await run("most", sliders.map((slider) => slider.max), kernel);
    }
    await run("start", starts, 0);
    const steps = new Promise((resolve) => {
        new MutationObserver((_, watch) => {
            const place = root.querySelector(".tw-try-steps");
            const drawn = place.querySelector(".tw-step-said")?.textContent;
            const refused = place.querySelector(".tw-try-refused, .tw-figure-note")?.textContent;
            if (drawn || refused) { watch.disconnect(); resolve({ drawn, refused }); }
        }).observe(root, { childList: true, subtree: true, characterData: true });
    });
    root.querySelector(".tw-try-acts").scrollIntoView(); // figures are drawn where they are seen
    [...root.querySelectorAll("button")].find((one) => one.textContent === "Step through it").click();
    return { said, steps: await steps };
}"""


def runs(page: Page) -> list[dict[str, Any]]:
    """What each run of a page says."""
    names = page.locator(".tw-try").evaluate_all("(all) => all.map(({ id }) => id)")
    return [{"id": name, **page.evaluate(ANSWERS, name)} for name in names]


@pytest.mark.parametrize(
    "lesson", [pytest.param(one, marks=pytest.mark.sweep(f"{one}.py")) for one in LESSONS]
)
def test_every_run_of_a_lesson_answers_at_all_ends_and_is_stepped(lesson, site, open_context):
    page = open_context(viewport={"width": 390, "height": 844}).new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{site}{lesson}/")
    found = runs(page)
    for one in found:
        first = one["said"][0]
        faults += [f"{one['id']}, {run['what']}: {run['refused']}" for run in one["said"] if run["refused"]]
        faults += [f"{one['id']}, {run['what']}: no table" for run in one["said"] if not run["title"]]
        if first["total"] != first["page"]:
            faults.append(f"{one['id']}: {first['total']}, not {first['page']} as on the page")
        if not one["steps"].get("drawn"):
            faults.append(f"{one['id']}: not stepped: {one['steps']}")
    if page.locator(".tw-try + .tw-run").count():
        faults.append("the run at the start is shown once more below its panel")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if wide > 0:
        faults.append(f"the page is {wide} px too wide")
    assert faults == []
    assert found
