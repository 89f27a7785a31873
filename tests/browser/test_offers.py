"""Every run that a built lesson offers: at its start, least and most sizes, with each kernel, and stepped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.sweeps import SIMULATOR

pytestmark = pytest.mark.sweep(
    *SIMULATOR,
    "src/tilewise/kernel/try_it.py",
    "src/tilewise/site/web/run",
    "lessons",
    packages=["ziglang"],
)

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


def pages(built: Path) -> Iterator[str]:
    """Where the pages with runs are, below the site's address."""
    for path in sorted(built.rglob("index.html")):
        if 'class="tw-try"' in path.read_text(encoding="utf-8"):
            yield path.parent.relative_to(built).as_posix()


def runs(page: Page) -> list[dict[str, Any]]:
    """What each run of a page says."""
    names = page.locator(".tw-try").evaluate_all("(all) => all.map(({ id }) => id)")
    return [{"id": name, **page.evaluate(ANSWERS, name)} for name in names]


def test_every_run_of_the_lessons_answers_at_all_ends_and_is_stepped(
    built: Path, site: str, open_context: Callable[..., BrowserContext]
) -> None:
    faults = []
    count = 0
    for where in pages(built):
        page = open_context(viewport={"width": 390, "height": 844}).new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        page.goto(f"{site}{where}/")
        for one in runs(page):
            count += 1
            at = f"{where} {one['id']}"
            print(at, one["steps"])
            first = one["said"][0]
            faults += [f"{at}, {run['what']}: {run['refused']}" for run in one["said"] if run["refused"]]
            faults += [f"{at}, {run['what']}: no table" for run in one["said"] if not run["title"]]
            if first["total"] != first["page"]:
                faults.append(f"{at}: {first['total']}, not {first['page']} as on the page")
            if not one["steps"].get("drawn"):
                faults.append(f"{at}: not stepped: {one['steps']}")
        if page.locator(".tw-try + .tw-run").count():
            faults.append(f"{where}: the run at the start is shown once more below its panel")
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wide > 0:
            faults.append(f"{where} is {wide} px too wide")
        faults += [f"{where}: {error}" for error in errors]
        page.close()
    assert faults == []
    assert count >= 50, f"only {count} runs were found"
