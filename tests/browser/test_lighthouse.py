"""Lighthouse's verdict on a lesson, the longest one and the largest tables, and what a page may weigh.

Its score for performance follows the machine's load: ``benchmarks/pages.py`` takes it on a quiet one.
Here stand what it depends on: the bytes and the elements that each page is sent with.
"""

import gzip
import re

import pytest
from lighthouse import audit, losses, score
from static_host import host

from .test_every_page import when_changed
from .test_pages import LESSONS

CATEGORIES = ("accessibility", "best-practices", "seo")
PAGES = ("", LESSONS[1], "lessons/attention/hopper/", "measurements/", "what-the-kernels-take/")
MOST_BYTES = 45_000
"""Of a page, compressed; the longest lesson has 36,000."""
MOST_ELEMENTS = 7000
TABLES = {"what-the-kernels-take/index.html"}
"""Pages of tables alone, which are laid out only where they are seen."""


@pytest.mark.parametrize("path", [pytest.param(path, marks=when_changed(path)) for path in PAGES])
def test_lighthouse_finds_nothing_to_better(built, chromium, path):
    with host(built) as address:
        report = audit(address + path, CATEGORIES, chromium)
    assert report["finalDisplayedUrl"].endswith(path)
    lost = {name: losses(report, name) for name in CATEGORIES if score(report, name) < 100}
    assert lost == {}


def test_no_page_is_sent_with_more_than_it_shows(built):
    heavy = {}
    for file in sorted(built.rglob("index.html")):
        text = file.read_text(encoding="utf-8")
        size, elements = len(gzip.compress(text.encode())), len(re.findall(r"<[a-z]", text))
        if size > MOST_BYTES or elements > MOST_ELEMENTS:
            heavy[file.relative_to(built).as_posix()] = (size, elements)
    assert set(heavy) <= TABLES, heavy
