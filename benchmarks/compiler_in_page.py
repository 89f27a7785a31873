"""What the compiler takes in a page: bytes, seconds until it is ready, seconds a text, memory.

``python benchmarks/compiler_in_page.py SITE [TEXT ...]``. SITE: a built site. It loads the compiler on the
Playground in Chromium as a reader does, compiles each text, and prints. Memory is that of the page's process.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from static_host import host

PAGE = "playground/"
LATE_MS = 300_000
BEGUN_MS = 1000
"""The page compiles once nothing has been typed for 700 ms."""


def page_bytes() -> int:
    """The proportional memory of the largest of our browser's processes that show pages."""
    mine = {os.getpid()}
    largest = 0
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    while more := {one for one, parent in parents.items() if parent in mine} - mine:
        mine |= more
    for process in mine:
        folder = Path(f"/proc/{process}")
        try:
            if b"--type=renderer" in (folder / "cmdline").read_bytes():
                said = (folder / "smaps_rollup").read_text()
                largest = max(largest, 1024 * int(said.partition("\nPss:")[2].split()[0]))
        except OSError:
            continue
    return largest


def compile_text(page: Page, text: str) -> float:
    """Seconds from pasting a text to its run."""
    page.get_by_role("textbox", name="CUDA text").click()
    page.keyboard.press("Control+A")
    page.evaluate("(text) => navigator.clipboard.writeText(text)", text)
    start = time.perf_counter()
    page.keyboard.press("Control+V")
    page.wait_for_timeout(BEGUN_MS)
    page.locator(".tw-play-busy").wait_for(state="hidden", timeout=LATE_MS)
    return time.perf_counter() - start


def main() -> None:
    """Measure, and print."""
    site, texts = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    seen, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            seen.append(page_bytes())

    threading.Thread(target=watch, daemon=True).start()
    with host(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(f"{address}{PAGE if (site / PAGE).is_dir() else ''}")
        page.get_by_role("button", name="Edit", exact=True).click()
        page.get_by_role("button", name="Load it").wait_for()
        print(page.locator(".tw-load p").inner_text().partition(",")[0])
        print(f"memory before: {max(seen) / 1e6:.0f} MB")
        start = time.perf_counter()
        page.get_by_role("button", name="Load it").click()
        page.get_by_role("textbox", name="CUDA text").wait_for(timeout=LATE_MS)
        print(f"ready after {time.perf_counter() - start:.1f} s; memory: {max(seen) / 1e6:.0f} MB")
        for path in texts:
            taken = compile_text(page, path.read_text(encoding="utf-8"))
            print(f"{path.name}: {taken:.1f} s; memory so far: {max(seen) / 1e6:.0f} MB")
        browser.close()
    done.set()


if __name__ == "__main__":
    main()
