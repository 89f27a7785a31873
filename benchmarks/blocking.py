"""What every page of a built site weighs, and how long it keeps a phone busy.

In: one or more built sites, such as one from before a change. Out: a row for each page: HTML in kB, plain and
gzipped, elements once it is open, and its blocking time, for each site. Blocking time is Lighthouse's: what
tasks after the first paint take beyond 50 ms, on a phone with a quarter of this processor's speed. It follows
the processor's time, not the clock's, so that other work on the machine counts little; the table has the
least of the runs. Run it as ``python benchmarks/blocking.py --site before after``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
from bisect import bisect_left
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright
from static_host import host

CATEGORIES = ["disabled-by-default-devtools.timeline", "devtools.timeline", "loading"]
PHONE = {"viewport": {"width": 412, "height": 823}, "device_scale_factor": 1.75, "is_mobile": True}
SETTLED_MS = 2500
LONG_MS = 50
SLOWDOWN, SLOWDOWN_OF_LAYOUT = 4, 2
"""How much slower the phone is, and at tasks that lay out, both as Lighthouse has it."""


@dataclass(frozen=True)
class Weight:
    """What one page costs."""

    html_kb: float
    gzip_kb: float
    elements: int
    blocking_ms: float

    def __str__(self) -> str:
        return f"{self.html_kb:6.0f} {self.gzip_kb:5.1f} {self.elements:6} {self.blocking_ms:6.0f}"


def main() -> None:
    """Weigh every page of every site, in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--site", type=Path, nargs="+", default=[Path("site")], help="built sites")
    parser.add_argument("--page", nargs="+", help="paths such as lessons/kernels/grids/; all without it")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--chromium", default=os.environ.get("CHROMIUM") or shutil.which("chromium"))
    given = parser.parse_args()
    paths = given.page or sorted({path for site in given.site for path in pages(site)})
    print(f"{os.cpu_count()} CPUs, {given.runs} runs; HTML kB, gzip kB, elements, blocking ms; then the load")
    with ExitStack() as open_:
        hosts = [(site, open_.enter_context(host(site))) for site in given.site]
        browser = open_.enter_context(sync_playwright()).chromium.launch(
            executable_path=given.chromium, args=["--no-sandbox"]
        )
        for path in paths:
            row = [weight(browser, site, address, path, given.runs) for site, address in hosts]
            shown = "  |".join(str(one) if one else " " * 26 for one in row)
            print(f"{path or '(front page)':44}{shown}  | {os.getloadavg()[0]:.0f}", flush=True)


def pages(site: Path) -> list[str]:
    """The paths of a site's pages, each ending in a slash but the front page's."""
    folders = (file.parent.relative_to(site).as_posix() for file in site.rglob("index.html"))
    return ["" if folder == "." else f"{folder}/" for folder in folders]


def weight(browser: Browser, site: Path, address: str, path: str, runs: int) -> Weight | None:
    """Open a page as often as asked; None where this site has none."""
    file = site / path / "index.html"
    if not file.is_file():
        return None
    body = file.read_bytes()
    seen = [opened(browser, address + path) for _ in range(runs)]
    least = min(blocking for blocking, _ in seen)
    return Weight(len(body) / 1000, len(gzip.compress(body, 6)) / 1000, seen[-1][1], least)


def opened(browser: Browser, address: str) -> tuple[float, int]:
    """Blocking time in ms and number of elements of a page that is opened on a phone for the first time."""
    context = browser.new_context(**PHONE)
    try:
        page = context.new_page()
        browser.start_tracing(page=page, categories=CATEGORIES)
        page.goto(address, wait_until="load")
        page.wait_for_timeout(SETTLED_MS)
        page.wait_for_load_state("networkidle")
        page.evaluate("new Promise((done) => requestIdleCallback(() => setTimeout(done, 500)))")
        events = json.loads(browser.stop_tracing())["traceEvents"]
        return blocking_ms(events), page.evaluate("document.querySelectorAll('*').length")
    finally:
        context.close()


def blocking_ms(events: list[dict[str, Any]]) -> float:
    """What the page's tasks take beyond 50 ms each once something is seen."""
    paint = [event for event in events if event["name"] == "firstContentfulPaint"][-1]
    own = [one for one in events if (one["pid"], one["tid"]) == (paint["pid"], paint["tid"])]
    layouts = sorted(one["ts"] for one in own if one["name"] == "Layout")
    whole = 0.0
    for task in own:
        end = task["ts"] + task.get("dur", 0)
        if task["name"] != "RunTask" or "tdur" not in task or end < paint["ts"]:
            continue
        at = bisect_left(layouts, task["ts"])
        lays_out = at < len(layouts) and layouts[at] < end
        took_ms = task["tdur"] / 1000 * (SLOWDOWN_OF_LAYOUT if lays_out else SLOWDOWN)
        whole += max(0.0, took_ms - LONG_MS)
    return whole


if __name__ == "__main__":
    main()
