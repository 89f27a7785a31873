"""What a run on a page costs: bytes fetched at the first touch, times of answers and of a step.

In: a built site. Out: a line for each run that its lessons offer, beside what is asked: a first answer within
1 s on a cold cache, later ones within 50 ms. Run it as ``python benchmarks/runs.py --site site``.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import statistics
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from static_host import host

from tilewise.outputs.try_it import END

FIRST_MS, LATER_MS, GROWN_BYTES = 1000, 50, 3000
LATER = 20

TIMED = """async ([id, later]) => {
    const root = document.getElementById(id);
    const slider = root.querySelector('input[type="range"]');
    const kernel = root.querySelector("select");
    const answered = () => new Promise((resolve) => {
        new MutationObserver((_, seen) => { seen.disconnect(); resolve(performance.now()); })
            .observe(root.querySelector(".tw-try-result"), { attributes: true });
    });
    const move = () => {
        const at = Number(slider?.value);
        if (slider) slider.value = at === Number(slider.max) ? slider.min : at + 1;
        else kernel.selectedIndex = (kernel.selectedIndex + 1) % kernel.length;
        (slider ?? kernel).dispatchEvent(new Event("input", { bubbles: true }));
    };
    const times = [];
    for (let k = 0; k <= later; k++) {
        const since = performance.now();
        const answer = answered();
        move();
        times.push(await answer - since);
    }
    return times;
}"""
STEPPED = """async (id) => {
    const figure = document.getElementById(id).querySelector(".tw-figure");
    const button = (label) => figure.querySelector(`[aria-label="${label}"]`);
    const [back, on] = [button("previous step"), button("next step")];
    const times = [];
    for (const one of [on, back, on, back, on]) {
        const since = performance.now();
        one.click();
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
        times.push(performance.now() - since);
    }
    return times;
}"""


def main() -> None:
    """Measure every run of a site's lessons, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--site", type=Path, required=True, help="the built site")
    parser.add_argument("--chromium", default=os.environ.get("CHROMIUM") or shutil.which("chromium"))
    given = parser.parse_args()
    pages = [one for one in sorted(given.site.rglob("index.html")) if 'class="tw-try' in one.read_text()]
    print(f"asked: first {FIRST_MS} ms, later {LATER_MS} ms, page grown by at most {GROWN_BYTES} bytes")
    with host(given.site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=given.chromium, args=["--no-sandbox"])
        for file in pages:
            inside = file.parent.relative_to(given.site).as_posix()
            for name in re.findall(r'<div class="tw-try[^"]*" id="([\w-]+)"', file.read_text()):
                measure(browser, f"{address}{inside}/", inside, name, file.read_text())


def measure(browser: Browser, url: str, inside: str, name: str, html: str) -> None:
    """Touch one run in a fresh browser and print what came of it."""
    context = browser.new_context()
    page = context.new_page()
    fetched: list[Any] = []
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.on("response", lambda one: None if one.from_service_worker else fetched.append(one))
    first, *later = page.evaluate(TIMED, [name, LATER])
    size = sum(len(gzip.compress(one.body())) for one in fetched)
    page.locator(f"#{name} .tw-try-acts button").first.click()
    page.locator(f"#{name} .tw-figure[data-state=drawn]").wait_for()
    steps = page.evaluate(STEPPED, name)
    grown = len(gzip.compress(html.encode())) - len(gzip.compress(_without(html).encode()))
    print(
        f"{inside} {name}: {size / 1000:.0f} kB at the first touch, first {first:.0f} ms, later median "
        f"{statistics.median(later):.0f} ms, most {max(later):.0f} ms, "
        f"a step {statistics.median(steps):.0f} ms, memory {_memory(page):.0f} MB, "
        f"page grown by {grown} bytes, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    context.close()


def _without(html: str) -> str:
    """A page without what its runs add: the controls, and picture and table of the run at the start."""
    return re.sub(rf'<div class="tw-try[ "].*?{END}</div>', "", html, flags=re.S)


def _memory(page: Page) -> float:
    client = page.context.new_cdp_session(page)
    return float(client.send("Runtime.getHeapUsage")["totalSize"]) / 1e6


if __name__ == "__main__":
    main()
