"""Lighthouse's performance score of a lesson, beside a bare Material page and stock mkdocs-jupyter.

In: the repository, or --site for a built one. Out: every run's score, then medians with largest contentful
paint, layout shift, blocking time and bytes by type. The pages take turns, gzipped as by a static host, under
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
BARE = """site_name: Bare
site_url: http://127.0.0.1:8000/
theme:
  name: material
  font: false
"""
STOCK = """site_name: Stock
site_url: http://127.0.0.1:8000/
theme:
  name: material
  font: false
plugins:
  - search
  - mkdocs-jupyter:
      execute: true
      allow_errors: false
"""
PAGE = "# A page\n\n" + "\n\n".join(
    f"## Part {part}\n\n" + "Plain words stand here. " * 60 for part in range(1, 9)
)


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
    """Build what is missing, measure in turns, print."""
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
        pages = {
            "tilewise": (given.site or build(ROOT, folder / "course"), f"lessons/{given.lesson}/"),
            "bare Material": (build(bare(folder / "bare"), folder / "bare" / "site"), ""),
            "stock mkdocs-jupyter": (
                build(stock(folder / "stock", given.lesson), folder / "stock" / "site"),
                "lesson/",
            ),
        }
        print(f"{given.lesson}, {os.cpu_count()} CPUs, {given.runs} runs in turns", flush=True)
        found: dict[str, list[Verdict]] = {page: [] for page in pages}
        for run in range(1, given.runs + 1):
            for page, (site, path) in pages.items():
                with host(site) as address:
                    verdict = Verdict.of(audit(address + path, ["performance"], given.chromium))
                found[page].append(verdict)
                print(f"run {run}  {page:21} {verdict}  load {os.getloadavg()[0]:.1f}", flush=True)
    for page, verdicts in found.items():
        report(page, verdicts)
    middle = statistics.median(one.score for one in found["tilewise"])
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


def bare(folder: Path) -> Path:
    """A project with one page of plain prose, as Material comes."""
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "index.md").write_text(PAGE, encoding="utf-8")
    (folder / "mkdocs.yml").write_text(BARE, encoding="utf-8")
    return folder


def stock(folder: Path, lesson: str) -> Path:
    """A project with one lesson, as mkdocs-jupyter comes: it executes the lesson and renders it itself."""
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "index.md").write_text("# Course\n", encoding="utf-8")
    shutil.copy(ROOT / "lessons" / f"{lesson}.py", folder / "docs" / "lesson.py")
    (folder / "lessons").symlink_to(ROOT / "lessons")
    (folder / "mkdocs.yml").write_text(STOCK, encoding="utf-8")
    return folder


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
