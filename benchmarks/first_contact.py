"""Times what people wait for: the first page, all pages, a second start, a save.

In: this repository's last commit. Out: a table of the times reached beside those asked, each with the load of
the machine. It does what a new user does: clones, runs ``make serve`` with empty caches, opens Chromium.
``--only`` picks a part; a build or the tests are timed by ``time``.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome") or ""
FLAGS = """--no-sandbox --headless --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync"""
PORT = 8765
URL = f"http://127.0.0.1:{PORT}/"
FIRST = "lessons/kernels/first_kernel/"
PATIENCE_S = 900.0
PARTS = ("serve", "edits")


@dataclass
class Table:
    """What was asked and what was reached."""

    rows: list[tuple[str, str, str, str]] = field(default_factory=list)

    def add(self, what: str, reached: str, asked: str) -> None:
        """Add a row, and print it at once."""
        load = f"{os.getloadavg()[0]:.1f}"
        self.rows.append((what, reached, asked, load))
        print(f"  {what}: {reached} (asked {asked}; load {load})", flush=True)

    def __str__(self) -> str:
        head = ("", "reached", "asked", "load")
        widths = [max(len(row[at]) for row in [head, *self.rows]) for at in range(4)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in [head, *self.rows]
        )


class Command:
    """A command whose lines are stamped as they come."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.began = time.monotonic()
        self.lines: list[tuple[float, str]] = []
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append((time.monotonic() - self.began, line.rstrip()))

    def when(self, words: str) -> float:
        """When a line with these words came, in seconds from the start; waits for it."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for at, line in list(self.lines):
                if words in line:
                    return at
            if self._process.poll() is not None:
                raise SystemExit("the command ended:\n" + "\n".join(line for _, line in self.lines[-20:]))
            time.sleep(0.02)
        raise SystemExit(f"no line with {words!r} came")

    def longest_silence(self, until_s: float) -> tuple[float, str]:
        """The longest time without a line, up to a moment, in seconds, and the line before it."""
        lines = [(0.0, "nothing"), *(line for line in list(self.lines) if line[0] <= until_s), (until_s, "")]
        return max((after[0] - before[0], before[1]) for before, after in itertools.pairwise(lines))

    def stop(self) -> None:
        """Interrupt it as a reader does."""
        os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part; may be repeated")
    parser.add_argument("--edits", type=int, default=10, help="edits of each kind (10)")
    given = parser.parse_args()
    parts = given.only or PARTS
    if not CHROMIUM:
        parser.error("no Chromium here: install it, or name one in CHROMIUM")
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%h %s"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    print(f"{commit}\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    table = Table()
    with tempfile.TemporaryDirectory(prefix="first-contact-") as name:
        folder = Path(name)
        clone = folder / "tilewise"
        subprocess.run(["git", "clone", "--quiet", f"file://{ROOT}", str(clone)], check=True)
        environment = fresh_environment(folder)
        if "serve" in parts:
            serve(clone, environment, table)
        else:
            subprocess.run(
                ["make", "site"], cwd=clone, env=environment, check=True, stdout=subprocess.DEVNULL
            )
        if "edits" in parts:
            edits(clone, environment, table, given.edits)
    print(f"\n{table}")


def fresh_environment(folder: Path) -> dict[str, str]:
    """An environment in which every cache of a user is empty."""
    caches = {
        name: str(folder / name.lower()) for name in ("PIP_CACHE_DIR", "NPM_CONFIG_CACHE", "XDG_CACHE_HOME")
    }
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TILEWISE_", "VIRTUAL_", "PYTHON"))
    }
    return {**kept, **caches, "PYTHONUNBUFFERED": "1"}


def serve(clone: Path, environment: dict[str, str], table: Table) -> None:
    """The first start, and a second one with nothing changed."""
    with browser() as page:
        command = Command(["make", "serve", f"PORT={PORT}"], clone, environment)
        try:
            installed = command.when("Set up in")
            readable = {path: first_readable(page, path) - command.began for path in ("", FIRST)}
            styled = when_styled(page) - command.began
            total, every = all_outputs()
            done = every - command.began
        finally:
            command.stop()
        size_mb = sum(path.lstat().st_size for path in (clone / ".venv").rglob("*")) / 1e6
        disk_mb = disk_usage_mb(clone / ".venv")
        table.add(
            "installation for reading",
            f"{installed:.0f} s, {disk_mb:.0f} MB on disk ({size_mb:.0f} MB of files)",
            "45 s, 800 MB",
        )
        table.add("from there to the front page, readable", f"{readable[''] - installed:.1f} s", "15 s")
        table.add("from there to the first lesson, readable", f"{readable[FIRST] - installed:.1f} s", "15 s")
        table.add(
            "from there to the first lesson with the course's styles", f"{styled - installed:.1f} s", "15 s"
        )
        table.add(f"from there to all {total} pages with their outputs", f"{done - installed:.0f} s", "180 s")
        silence_s, line = command.longest_silence(done)
        table.add("longest silence of the terminal meanwhile", f"{silence_s:.1f} s, after {line!r}", "2 s")
        command = Command(["make", "serve", f"PORT={PORT}"], clone, environment)
        try:
            again = max(first_readable(page, path) for path in ("", FIRST)) - command.began
            outputs = "with" if not page.locator(".tw-pending").count() else "without"
        finally:
            command.stop()
        table.add(f"make serve again, to the first lesson {outputs} its outputs", f"{again:.1f} s", "5 s")


def edits(clone: Path, environment: dict[str, str], table: Table, count: int) -> None:
    """Saves of the course's longest lesson while its page is open."""
    lessons = [path for path in (clone / "lessons").glob("*/*.py") if path.parent.name != "measurements"]
    file = max(lessons, key=lambda path: path.read_text(encoding="utf-8").count("\n"))
    text = file.read_text(encoding="utf-8")
    name = f"{file.parent.name}/{file.stem}"
    command = Command(["make", "serve", f"PORT={PORT}"], clone, environment)
    try:
        with browser() as page:
            first_readable(page, f"lessons/{name}/")
            all_outputs()
            time.sleep(20)  # the page's lesson is run once more, to have its process at hand
            prose = [save(page, file, prose_edit(text, number)) for number in range(count + 1)][1:]
            table.add(
                f"prose edit of {name} ({text.count(chr(10)):,} lines), median of {count}",
                f"{statistics.median(prose):.2f} s ({min(prose):.2f} to {max(prose):.2f})",
                "0.3 s",
            )
            file.write_text(text, encoding="utf-8")
            time.sleep(20)
            for where, edit in (("at the end", end_edit), ("in the middle", middle_edit)):
                over = []
                for number in range(count + 1):
                    taken = save(page, file, edit(text, number))
                    own_s = float(page.evaluate(OWN_TIME.replace("NUMBER", str(number))))
                    over += [taken - own_s] if number else []
                table.add(
                    f"code edit {where}, beyond the cell's own {own_s:.2f} s, median of {count}",
                    f"{statistics.median(over):.2f} s ({min(over):.2f} to {max(over):.2f})",
                    "0.5 s",
                )
                file.write_text(text, encoding="utf-8")
                time.sleep(20)
    finally:
        file.write_text(text, encoding="utf-8")
        command.stop()


OWN_TIME = """[...document.querySelectorAll('pre')]
  .map((each) => /saved-NUMBER-\\d+ own ([\\d.]+)/.exec(each.textContent)).find(Boolean)[1]"""
"""What the cell that was edited says it took, in a page."""


def prose_edit(text: str, number: int) -> tuple[str, str]:
    """The lesson with a new word in its takeaways, and the word."""
    word = f"saved-{number}-{time.time_ns()}"
    changed = re.sub(r"(\n# ## Takeaways\n#\n# - )", rf"\g<1>{word} ", text)
    assert changed != text, "the lesson has no takeaways"
    return changed, word


def timed_cell(source: str, word: str) -> str:
    """A cell that prints a word and how long it took."""
    lines = ["import time as _time", "", "_began = _time.perf_counter()", source]
    return "\n".join([*lines, f"print(f'{word} own {{_time.perf_counter() - _began:.6f}}')"])


def end_edit(text: str, number: int) -> tuple[str, str]:
    """The lesson with a cell more at its end."""
    word = f"saved-{number}-{time.time_ns()}"
    return f"{text.rstrip()}\n\n\n# %%\n{timed_cell('', word)}\n", word


def middle_edit(text: str, number: int) -> tuple[str, str]:
    """The lesson with another code cell in its middle that times itself."""
    word = f"saved-{number}-{time.time_ns()}"
    cells = re.split(r"(?m)^(?=# %%)", text)
    checks = [
        at for at, cell in enumerate(cells) if re.match(r"# %%( fold=.*)?\n", cell) and "check(" in cell
    ]
    at = checks[len(checks) // 2]
    head, _, source = cells[at].partition("\n")
    cells[at] = f"{head}\n{timed_cell(source.strip(), word)}\n\n\n"
    return "".join(cells), word


def save(page: Any, file: Path, edit: tuple[str, str]) -> float:
    """Save a lesson and wait until the open page shows the word; the seconds."""
    text, word = edit
    began = time.perf_counter()
    file.write_text(text, encoding="utf-8")
    shown = f"document.body && document.querySelector('.md-content').textContent.includes('{word}')"
    if "own" in text.rpartition(word)[2][:5]:  # not only the code, what it prints
        shown = f"[...document.querySelectorAll('pre')].some((e) => /{word} own [0-9.]+/.test(e.textContent))"
    page.wait_for_function(shown, timeout=PATIENCE_S * 1000, polling=5)
    taken = time.perf_counter() - began
    page.wait_for_timeout(1500)
    return taken


def first_readable(page: Any, path: str) -> float:
    """When a page's heading and first paragraph are on the screen; opens it as soon as the server answers."""
    until(lambda: answers(URL))
    page.goto(URL + path, wait_until="commit")
    page.wait_for_selector(".md-content h1", state="visible", timeout=PATIENCE_S * 1000)
    page.wait_for_selector(".md-content p", state="visible", timeout=PATIENCE_S * 1000)
    return time.monotonic()


def when_styled(page: Any) -> float:
    """When the page that is open has the course's own styles."""
    styled = "getComputedStyle(document.documentElement).getPropertyValue('--tw-accent') !== ''"
    page.wait_for_function(styled, timeout=PATIENCE_S * 1000, polling=20)
    return time.monotonic()


def all_outputs() -> tuple[int, float]:
    """How many pages there are, and when none of them waits for an output any more."""
    with urllib.request.urlopen(f"{URL}sitemap.xml", timeout=60) as answer:
        waiting = [
            URL + path for path in re.findall(r"<loc>https?://[^/<]+/([^<]*)</loc>", answer.read().decode())
        ]
    total = len(waiting)
    assert total > 50, f"the sitemap names {total} pages"

    def look() -> bool:
        while waiting:
            with urllib.request.urlopen(waiting[0], timeout=PATIENCE_S) as answer:
                text = answer.read().decode()
            if 'class="tw-pending"' in text or 'class="tw-run-status"' in text:
                return False
            waiting.pop(0)
        return True

    until(look, often_s=0.5)
    return total, time.monotonic()


def until(holds: Callable[[], bool], often_s: float = 0.02) -> None:
    """Wait for something."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit("waited in vain")
        time.sleep(often_s)


def answers(url: str) -> bool:
    """Whether a server answers."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def disk_usage_mb(folder: Path) -> float:
    """What a folder takes on the disk."""
    return int(
        subprocess.run(["du", "-sm", folder], capture_output=True, text=True, check=True).stdout.split()[0]
    )


@contextmanager
def browser() -> Iterator[Any]:
    """A page of headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield chromium.new_page(viewport={"width": 1280, "height": 900})
        chromium.close()


if __name__ == "__main__":
    main()
