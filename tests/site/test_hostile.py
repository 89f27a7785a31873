"""Hostile texts in what a lesson shows, records and asks stay texts: nothing runs, even without a policy."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic
from sites import cold
from static_host import host
from test_measured import BORN, keyed

from tilewise.measurements.record import Record, Row, write_record

pytestmark = pytest.mark.browser

EVIL = "</script></style></title></textarea></pre><script>hacked()</script><img src=x onerror=hacked()>{{x}}"
LESSON = r'''# ---
# title: "Quotes ' \" onload=hacked() and & in a title"
# needs: []
# summary: "EVIL"
# description: "EVIL \" onload=hacked()"
# ---

# %% [markdown]
# A number from the run: {{ said }}.
#
# ??? definition "Odd & term' onmouseover=hacked()"
#     Its meaning is plain: `EVIL`.

# %%
# EVIL
BAD = r"""EVIL"""
print(BAD)

# %%
from tilewise import Table, publish, show

publish(said=BAD)
show(Table([BAD, "b"], [[BAD, "[x](javascript:hacked())"], ["| a | <b>", "`</td>`"]], caption=BAD))

# %%
import numpy as np

from tilewise.figures import Series, bars, heat_map, line_chart, timeline

show(bars({BAD: 1.0, "b": 2.0}, x=BAD, title=BAD, caption=BAD))

# %%
show(line_chart([Series(BAD, [1, 2], [1, 2])], x=BAD, y=BAD, title=BAD, caption=BAD))

# %%
show(heat_map({BAD: np.eye(3)}, x=BAD, y=BAD, title=BAD, caption=BAD))

# %%
show(timeline([(BAD, 0, 2, BAD), ("device", 2, 3, "b", "measured")], unit="µs", title=BAD, caption=BAD))

# %%
from tilewise import Kernel

K = Kernel(r"""
// EVIL
extern "C" __global__ void k(float* a) { a[0] = 1; /* EVIL */ }
""")

# %%
from tilewise import Trace, case
from tilewise.figures import stepped

one = K.on(case(a=np.zeros(4, np.float32), grid=1, block=2))
show(stepped(one.simulate(trace=Trace()), title=BAD, caption=BAD, alt=BAD, step_name=BAD))

# %%
from tilewise.figures.kinds.calculator import Answer, Meter, Slider, calculator

show(
    calculator(
        [Slider(BAD, [1, 2], 1, BAD)],
        lambda **given: Answer([1.0], BAD, [BAD]),
        meters=[Meter(BAD, 2.0, BAD)],
        title=BAD,
        caption=BAD,
    )
)

# %%
from tilewise import exercise


def double(x):
    return x + x  # EVIL


def doubles(answer):
    assert answer(2) == 4, BAD


exercise(BAD, "Write `EVIL`.", double, doubles, hint="`EVIL`", explanation="`EVIL`")
'''
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


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, web_cache: Path) -> Path:
    """A served build of a lesson that shows and one that measures what is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    project = folder / "project"
    synthetic.write_project(project, 3)
    shows, measures = (project / "lessons/part_1" / f"lesson_0{number}.py" for number in (1, 2))
    prose, _, rest = LESSON.partition("# %%\n")
    shows.write_text(
        prose.replace("EVIL", EVIL.replace("{{x}}", "")) + "# %%\n" + rest.replace("EVIL", EVIL), "utf-8"
    )
    measures.write_text(measures.read_text("utf-8") + MEASURE.replace("EVIL", EVIL), "utf-8")
    born = {**BORN, "driver": EVIL, "date": EVIL, "cpu": EVIL, "versions": {"cuda": EVIL, EVIL: "1"}}
    row = Row(EVIL, "variant", {"n": 64}, (90.0,), 89.0, 90.0, 91.0, None, 512, None)
    rows = (row, replace(row, variant="plain", samples_us=(45.0,), p20=44.0, median=45.0, p80=46.0))
    path = project / "lessons" / "measurements" / "nvidia-h100-80gb-hbm3" / "twice.json"
    write_record(Record("twice", "part_1/lesson_02", "fp32", born, keyed(project, rows)), path)
    assert cold(project, folder / "cold", web_cache, whole=True).problems == {}
    return folder / "cold" / "written"


@pytest.fixture
def page(hostile: Path, browser: Any) -> Iterator[Any]:
    """A page at the build's address; the test fails if a hostile text has become an element or has run."""
    with (
        host(hostile) as address,
        browser.new_context(viewport={"width": 1280, "height": 900}, base_url=address) as context,
    ):
        opened = context.new_page()
        opened.add_init_script("window.hacked = () => { window.ran = true; }")
        yield opened
        assert opened.locator("article script, [onerror], [onload], [onmouseover]").count() == 0
        assert opened.evaluate("window.ran") is None


def test_nothing_that_a_lesson_shows_can_run(hostile, page):
    lesson = "lessons/part_1/lesson_01/"
    for path in ("", "glossary/", lesson):
        assert "<script>hacked" not in (hostile / path / "index.html").read_text(encoding="utf-8")
        page.goto(path)
        page.wait_for_load_state("networkidle")
        assert page.locator("article script, [onerror], [onload], [onmouseover]").count() == 0
    assert page.locator('[href^="javascript:" i]').count() == 0
    figures = page.locator(".tw-figure[data-figure]")
    assert figures.count() == 6
    for figure in figures.all():
        figure.scroll_into_view_if_needed()
        page.wait_for_function("one => one.dataset.state === 'drawn'", arg=figure.element_handle())
        figure.hover()
        for slider in figure.get_by_role("slider").all():
            slider.press("ArrowRight")
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    assert "<script>hacked()</script>" in page.locator(".md-content__inner").inner_text()
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 300))")  # Material closes it until then
    page.keyboard.press("/")
    page.keyboard.type("script hacked", delay=10)
    page.wait_for_timeout(700)  # what the search shows, if anything, is there


def test_hostile_records_and_guesses_stay_texts(page):
    page.goto("lessons/part_1/lesson_02/")
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
