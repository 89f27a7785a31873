"""Lighthouse's verdict on a lesson with figures, served as a static host serves it."""

from __future__ import annotations

from pathlib import Path

from lighthouse import audit, losses, score
from static_host import host

from .test_pages import LESSONS

CATEGORIES = ("accessibility", "best-practices", "seo")


def test_a_lesson_with_figures_scores_95_at_least(built: Path, chromium: str) -> None:
    with host(built) as address:
        report = audit(address + LESSONS[1], CATEGORIES, chromium)
    assert report["finalDisplayedUrl"].endswith(LESSONS[1])
    lost = {name: losses(report, name) for name in CATEGORIES if score(report, name) < 95}
    assert lost == {}
