"""Times the site: cold and warm builds, and from saving a lesson to seeing the change in Chromium.

In: nothing, or --lessons and --edits. Out: a table of seconds, and ratios, all of one run on this machine,
beside stock mkdocs-jupyter on the same lessons. Drives plain ``mkdocs serve`` without flags. Run it as
``python benchmarks/site.py``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import synthetic

MKDOCS = str(Path(sys.executable).with_name("mkdocs"))
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = """--no-sandbox --headless --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync"""
URL = "http://127.0.0.1:8000"
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Saved:
    """Seconds from a save to the change being visible, edit by edit."""

    prose: list[float]
    code: list[float]
    kept: bool
    """Whether scroll position, tab and the page itself were kept."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lessons", type=int, default=24)
    parser.add_argument("--edits", type=int, default=15, help="edits of each kind")
    parser.add_argument("--no-stock", action="store_true", help="leave out stock mkdocs-jupyter")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilewise-site-") as name:
        folder = Path(name) / "project"
        names = synthetic.write_project(folder, given.lessons)
        synthetic.write_stock(folder, names)
        cache = Path(name) / "cache"
        web = Path(os.environ.get("TILEWISE_CACHE") or synthetic.ROOT / ".cache" / "tilewise") / "web"
        if web.is_dir():
            cache.mkdir()
            (cache / "web").symlink_to(web, target_is_directory=True)
        os.environ["TILEWISE_CACHE"] = str(cache)
        print(f"{given.lessons} lessons, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
        cold = build(folder)
        warm = min(build(folder) for _ in range(3))
        print(f"cold build {cold:6.2f} s")
        print(f"warm build {warm:6.2f} s in a new process, {warm / cold:.2f} of the cold one", flush=True)
        lesson = names[len(names) // 3]
        with browser() as page:
            ours = saves(page, folder, f"lessons/{lesson}", given.edits, ours=True)
            report("tilewise", ours)
            if not given.no_stock:
                stock = saves(page, folder / "stock", lesson, max(3, given.edits // 5), ours=False)
                report("stock", stock)
                for kind in ("prose", "code"):
                    ratio = statistics.median(getattr(stock, kind)) / statistics.median(getattr(ours, kind))
                    print(f"{kind}: {ratio:.0f} times as fast as stock mkdocs-jupyter")


def report(name: str, saved: Saved) -> None:
    """Print the median and the range of one server's edits."""
    for kind in ("prose", "code"):
        times = sorted(getattr(saved, kind))
        print(
            f"{name:9} {kind:5} median {statistics.median(times):6.3f} s, "
            f"{times[0]:.3f} to {times[-1]:.3f} over {len(times)} edits"
        )
    print(f"{name:9} page, scroll position and tab kept: {'yes' if saved.kept else 'no'}")


def build(folder: Path) -> float:
    """Build strictly in a new process; the seconds it took."""
    start = time.perf_counter()
    subprocess.run([MKDOCS, "build", "--strict", "--quiet"], cwd=folder, check=True)
    return time.perf_counter() - start


@contextmanager
def browser() -> Iterator[Any]:
    """A page of headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield chromium.new_page(viewport={"width": 1280, "height": 900})
        chromium.close()


@contextmanager
def served(folder: Path) -> Iterator[None]:
    """Plain ``mkdocs serve``, up and answering."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([MKDOCS, "serve"], cwd=folder, stdout=said, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + 5 * PATIENCE_S
            while not _answers():
                if process.poll() is not None or time.monotonic() > deadline:
                    said.seek(0)
                    raise SystemExit(f"mkdocs serve did not start:\n{said.read()[-2000:]}")
                time.sleep(0.1)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)


def saves(page: Any, folder: Path, lesson: str, edits: int, *, ours: bool) -> Saved:
    """Edit a lesson again and again under ``mkdocs serve`` and wait for Chromium to show each edit."""
    file = folder / f"{lesson}.py" if ours else folder / "docs" / f"{lesson}.py"
    times: dict[str, list[float]] = {"prose": [], "code": []}
    with served(folder):
        page.goto(f"{URL}/{lesson}/")
        page.wait_for_timeout(1500)
        page.evaluate("window.stillHere = true; window.scrollTo(0, 3000)")
        if ours:
            page.evaluate("document.querySelectorAll('.tabbed-set')[1].querySelectorAll('input')[1].click()")
        page.wait_for_timeout(300)
        before = page.evaluate(STATE)
        for kind, taken in times.items():
            for number in range(edits + 1):
                word = f"{kind}{number}at{time.time_ns()}"
                text = edited(file.read_text(encoding="utf-8"), kind, word)
                start = time.perf_counter()
                file.write_text(text, encoding="utf-8")
                wait = f"document.body && document.body.textContent.includes('{word}')"
                page.wait_for_function(wait, timeout=PATIENCE_S * 1000, polling=5)
                if number:  # the first edit of a kind warms the machine
                    taken.append(time.perf_counter() - start)
                page.wait_for_timeout(500)
        return Saved(times["prose"], times["code"], page.evaluate(STATE) == before)


STATE = """[window.stillHere, scrollY,
  [...document.querySelectorAll('.tabbed-set input')].map((each) => each.checked).join()]"""


def edited(text: str, kind: str, word: str) -> str:
    """A lesson with a new word in its last prose, or in what a cell of it prints."""
    if kind == "prose":
        return re.sub(r"(# ## Takeaways\n#\n# - ).*", rf"\g<1>{word}", text)
    return re.sub(r'caption="[^"]*section 2"', f'caption="{word} section 2"', text)


def _answers() -> bool:
    try:
        with urllib.request.urlopen(URL, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    main()
