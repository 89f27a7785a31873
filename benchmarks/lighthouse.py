"""Runs Lighthouse on a page in Chromium.

In: an address, the categories wanted and a Chromium. Out: Lighthouse's own report as plain values. npm
fetches the version that ``tests/browser/audits`` pins, once. Used by a browser test and by ``pages.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewise.site.frontend import find_node, packages

ROOT = Path(__file__).resolve().parents[1]
FLAGS = """--no-sandbox --headless --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync"""
PATIENCE_S = 240


def audit(address: str, categories: Sequence[str], chromium: str) -> dict[str, Any]:
    """Audit a page with Lighthouse's mobile settings: a slow phone and a slow network, both simulated.

    Args:
        address: the page.
        categories: ``performance``, ``accessibility``, ``best-practices``, ``seo``.
        chromium: the browser's path.

    Returns:
        The report; ``report["categories"][name]["score"]`` is between 0 and 1.

    Raises:
        RuntimeError: Lighthouse could not judge the page, twice.
    """
    node = find_node()
    program = packages(ROOT / "tests" / "browser" / "audits", ROOT) / "node_modules/lighthouse/cli/index.js"
    with tempfile.TemporaryDirectory(prefix="lighthouse-") as folder:
        report = Path(folder) / "report.json"
        command = [
            str(node),
            str(program),
            address,
            "--quiet",
            "--no-enable-error-reporting",
            "--output=json",
            f"--output-path={report}",
            f"--only-categories={','.join(categories)}",
            f"--chrome-flags={' '.join(FLAGS.split())}",
        ]
        said = ""
        for _ in range(2):  # a busy machine may keep Chromium from answering in time
            done = subprocess.run(
                command,
                env={**os.environ, "CHROME_PATH": chromium, "TMPDIR": folder},
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_S,
            )
            said = done.stderr[-2000:]
            if done.returncode == 0 and report.is_file():
                found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
                if "runtimeError" not in found:
                    return found
                said = found["runtimeError"]["message"]
    raise RuntimeError(f"Lighthouse could not judge {address}: {said}")


def score(report: dict[str, Any], category: str) -> int:
    """A category's score, 0 to 100, as Lighthouse shows it."""
    return round(100 * float(report["categories"][category]["score"]))


def losses(report: dict[str, Any], category: str) -> list[str]:
    """The weighted audits of a category that the page did not pass, with what they found."""
    lines = []
    for reference in report["categories"][category]["auditRefs"]:
        found = report["audits"][reference["id"]]
        if reference["weight"] and found["score"] is not None and found["score"] < 1:
            items = found.get("details", {}).get("items", [])
            places = [item.get("node", {}).get("snippet", "") for item in items[:3] if isinstance(item, dict)]
            lines.append(f"{reference['id']}: {found['title']} {' '.join(places)}".strip())
    return lines
