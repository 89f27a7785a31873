"""Lighthouse's performance score of a lesson.

In: the repository, or --site for a built one. Out: every run's score, then medians with largest contentful
paint, layout shift, blocking time and bytes by type. The page is gzipped as by a static host, under
Lighthouse's mobile settings. Run it as ``python benchmarks/pages.py``; each run names the load.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lighthouse import ROOT, audit, score
from static_host import host

MKDOCS = str(Path(sys.executable).with_name("mkdocs"))
LESSON = "kernels/grids"
TARGET = 95


@dataclass(frozen=True)
class Verdict:
    """What one run of Lighthouse says of a page."""

    score: int
    paint_ms: float
    """Largest contentful paint."""
    shift: float
    """Cumulative layout shift."""
    blocking_ms: float
    """Total blocking time."""
    kilobytes: dict[str, float]
    """Transferred, by type."""

    def __str__(self) -> str:
        times = f"paint {self.paint_ms / 1000:.2f} s  blocking {self.blocking_ms:4.0f} ms"
        return f"{self.score:3}  {times}  shift {self.shift:.4f}  {sum(self.kilobytes.values()):4.0f} kB"

    @staticmethod
    def of(report: dict[str, Any]) -> Verdict:
        audits = report["audits"]
        sizes: dict[str, float] = defaultdict(float)
        for request in audits["network-requests"]["details"]["items"]:
            sizes[request.get("resourceType") or "Other"] += request.get("transferSize", 0) / 1000
        return Verdict(
            score(report, "performance"),
            audits["largest-contentful-paint"]["numericValue"],
            audits["cumulative-layout-shift"]["numericValue"],
            audits["total-blocking-time"]["numericValue"],
            dict(sizes),
        )


def main() -> None:
    """Build what is missing, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--lesson", default=LESSON, help="the lesson's id")
    parser.add_argument("--site", type=Path, help="the course's site, where it is built already")
    parser.add_argument("--chromium", default=os.environ.get("CHROMIUM") or shutil.which("chromium"))
    given = parser.parse_args()
    if not given.chromium:
        parser.error("no Chromium here: install it, or name one with --chromium")
    with tempfile.TemporaryDirectory(prefix="tilewise-pages-") as name:
        folder = Path(name)
        site = given.site or build(ROOT, folder / "course")
        print(f"{given.lesson}, {os.cpu_count()} CPUs, {given.runs} runs", flush=True)
        found = []
        for run in range(1, given.runs + 1):
            with host(site) as address:
                page = f"{address}lessons/{given.lesson}/"
                found.append(Verdict.of(audit(page, ["performance"], given.chromium)))
            print(f"run {run}  {found[-1]}  load {os.getloadavg()[0]:.1f}", flush=True)
    report(given.lesson, found)
    middle = statistics.median(one.score for one in found)
    print(f"\ntarget {TARGET}: {'reached' if middle >= TARGET else 'missed'} with a median of {middle:g}")


def build(project: Path, site: Path) -> Path:
    """Build a project's site strictly."""
    subprocess.run(
        [MKDOCS, "build", "--quiet", "--site-dir", str(site)],
        cwd=project,
        check=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "SITE_URL": "http://127.0.0.1:8000/"},
    )
    return site


def report(page: str, verdicts: list[Verdict]) -> None:
    """Print a page's medians."""
    scores = [one.score for one in verdicts]
    kinds = sorted({kind for one in verdicts for kind in one.kilobytes})
    sizes = {kind: statistics.median(one.kilobytes.get(kind, 0) for one in verdicts) for kind in kinds}
    print(f"\n{page}: median {statistics.median(scores):g} of {', '.join(map(str, scores))}")
    print(f"  largest contentful paint {statistics.median(one.paint_ms for one in verdicts) / 1000:.2f} s")
    print(f"  cumulative layout shift  {statistics.median(one.shift for one in verdicts):.3f}")
    print(f"  total blocking time      {statistics.median(one.blocking_ms for one in verdicts):.0f} ms")
    listed = ", ".join(f"{kind} {size:.1f}" for kind, size in sizes.items() if size >= 0.05)
    print(f"  transferred kB           {sum(sizes.values()):.0f}: {listed}")


if __name__ == "__main__":
    main()
