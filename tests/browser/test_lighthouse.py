"""Lighthouse's verdict on a lesson with figures, served as a static host serves it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT
from .test_pages import LESSONS

sys.path.insert(0, str(ROOT / "benchmarks"))

from lighthouse import audit, losses, score
from static_host import host

CATEGORIES = ("accessibility", "best-practices", "seo")


@pytest.fixture(scope="module")
def report(built: Path, chromium: str) -> Iterator[dict[str, Any]]:
    """One report for all categories: starting Chromium and loading the page is what takes time."""
    with host(built) as address:
        yield audit(address + LESSONS[1], CATEGORIES, chromium)


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_lesson_with_figures_scores_95_at_least(report: dict[str, Any], category: str) -> None:
    assert report["finalDisplayedUrl"].endswith(LESSONS[1])
    assert score(report, category) >= 95, losses(report, category)
