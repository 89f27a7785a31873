"""Times the tests: processor seconds of each test file, and of all processes that its tests start.

In: pytest's arguments. Out: a table, worst first, printed and written into ``durations.txt`` beside this
file. Run it as ``python benchmarks/durations.py --numprocesses 2``. What files share, such as the built site,
counts for the file that needs it first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_suffix(".txt")


def main() -> int:
    """Run the tests and write the table."""
    before, start = os.getloadavg()[0], time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-p", "benchmarks.durations", *sys.argv[1:]]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    wall = time.perf_counter() - start
    rows = TABLE.read_text(encoding="utf-8")
    total = sum(float(row.split()[0]) for row in rows.splitlines())
    head = (
        f"pytest {' '.join(sys.argv[1:])}\n"
        f"{wall:,.0f} s; {total:,.0f} processor seconds in tests; {os.cpu_count()} cores; "
        f"load {before:.1f} before and {os.getloadavg()[0]:.1f} after\n\n"
    )
    TABLE.write_text(head + rows, encoding="utf-8")
    print(head, end="")
    return status


class Durations:
    """The plugin: adds up processor time from file to file."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.tests: Counter[str] = Counter()
        self._file = ""
        self._since = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Take the time where another file begins."""
        file = item.nodeid.partition("::")[0]
        if file != self._file:
            self._close()
            self._file = file
        self.tests[file] += 1
        return (yield)

    def _close(self) -> None:
        now = processor_seconds()
        if self._file:
            self.seconds[self._file] += max(0.0, now - self._since)
        self._since = now

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what another process took."""
        sent = getattr(node, "workeroutput", {}).get("durations", {"seconds": {}, "tests": {}})
        for file, seconds in sent["seconds"].items():
            self.seconds[file] += seconds
        self.tests.update(sent["tests"])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand the times on, or write them."""
        self._close()
        if hasattr(session.config, "workeroutput"):
            sent = {"seconds": dict(self.seconds), "tests": dict(self.tests)}
            session.config.workeroutput["durations"] = sent
            return
        rows = [
            f"{seconds:8.1f} s {self.tests[file]:5} {file}"
            for file, seconds in sorted(self.seconds.items(), key=lambda item: -item[1])
        ]
        TABLE.write_text("\n".join(rows) + "\n", encoding="utf-8")


def processor_seconds() -> float:
    """Of this process and all that it has started, ended or not; without /proc only of those that ended."""
    if not Path("/proc/self/stat").exists():
        return sum(os.times()[:4])
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(stat.parent.name)] = int(fields[1])
        ticks[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sum(ticks.get(pid, 0) for pid in found) / os.sysconf("SC_CLK_TCK")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin."""
    config.pluginmanager.register(Durations(), "durations")


if __name__ == "__main__":
    sys.exit(main())
