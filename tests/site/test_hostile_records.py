"""Hostile texts in a record and in the guess before its table stay texts, in the page and in its boxes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sites import cold
from static_host import host
from test_hostile import EVIL
from test_measured import BORN, keyed

from tilewise.measurements.record import Record, Row, write_record

pytestmark = pytest.mark.browser

LESSON = "part_1/lesson_02"
MEASURE = '''

# %%
from tilewise import Guess, Kernel, case, measure, normal, output

TWICE = Kernel(r"""
extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
""")
BAD = r"""EVIL"""
measure(
    "twice",
    variants={
        BAD: lambda n: TWICE.on(case(x=normal(n), y=output(n), n=n, grid=1, block=64)),
        "plain": lambda n: TWICE.on(case(x=normal(n), y=output(n), n=n, grid=1, block=64)),
    },
    cases=[{"n": 64}],
    count_case={"n": 64},
    bytes=lambda n: 8 * n,
    reference=lambda x: 2 * x,
    note=BAD,
    within=99,
    guess=Guess(
        BAD + "?", of="plain", over=BAD, at={"n": 64}, between=(0.1, 9), models={BAD: 1.0}, because=BAD
    ),
)
'''


@pytest.fixture
def hostile_record(project: Path, tmp_path: Path, web_cache: Path) -> Path:
    """A build, without the policy of published ones, of a lesson whose record and guess are hostile."""
    file = project / "lessons" / f"{LESSON}.py"
    file.write_text(file.read_text(encoding="utf-8") + MEASURE.replace("EVIL", EVIL), encoding="utf-8")
    born = {**BORN, "driver": EVIL, "date": EVIL, "cpu": EVIL, "versions": {"cuda": EVIL, EVIL: "1"}}
    row = Row(EVIL, "variant", {"n": 64}, (90.0,), 89.0, 90.0, 91.0, None, 512, None)
    rows = (row, replace(row, variant="plain", samples_us=(45.0,), p20=44.0, median=45.0, p80=46.0))
    path = project / "lessons" / "measurements" / "nvidia-h100-80gb-hbm3" / "twice.json"
    write_record(Record("twice", LESSON, "fp32", born, keyed(project, rows)), path)
    assert cold(project, tmp_path / "cold", web_cache, whole=True).problems == {}
    return tmp_path / "cold" / "written"


def test_hostile_records_and_guesses_stay_texts(hostile_record: Path, browser: Any) -> None:
    with host(hostile_record) as address:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.add_init_script("window.hacked = () => { window.ran = true; }")
        page.goto(f"{address}lessons/{LESSON}/")
        page.wait_for_load_state("networkidle")
        guess = page.locator(".tw-guess")
        assert EVIL in guess.locator(".tw-guess-question").inner_text()
        model = guess.locator("[data-value]")
        assert EVIL in model.inner_text()
        model.click()
        guess.locator("[data-do=compare]").click()
        assert EVIL in guess.locator(".tw-guess-verdict").inner_text()
        table = page.locator(".tw-measurement .tw-table").first
        assert EVIL in table.inner_text()
        page.locator(".tw-measurement details.tw-provenance > summary").click()
        assert EVIL in page.locator(".tw-measurement dl.tw-provenance-list").inner_text()
        table.locator("a.tw-number").first.hover()
        box = page.locator(".tw-provenance-box:visible")
        box.wait_for()
        assert EVIL in box.inner_text()
        assert page.locator("article :is(script, img), [onerror]").count() == 0
        assert page.evaluate("window.ran") is None
        context.close()
