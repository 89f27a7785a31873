"""Hostile texts in whatever a lesson shows stay texts: nothing runs, even without the site's policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sites import cold
from static_host import host

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
show(line_chart([Series(BAD, [1, 2], [1, 2])], x=BAD, y=BAD, title=BAD, caption=BAD, alt=BAD))

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
show(stepped(one.simulate(trace=Trace()), launch=one, title=BAD, caption=BAD, alt=BAD, step_name=BAD))

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


@pytest.fixture
def hostile(project: Path, tmp_path: Path, web_cache: Path) -> tuple[Path, str]:
    """A served build, which has no policy, with one hostile lesson; and the lesson's address in it."""
    first = sorted((project / "lessons").glob("*/[a-z]*.py"))[0]
    prose, _, rest = LESSON.partition("# %%\n")
    first.write_text(
        prose.replace("EVIL", EVIL.replace("{{x}}", "")) + "# %%\n" + rest.replace("EVIL", EVIL), "utf-8"
    )
    assert cold(project, tmp_path / "cold", web_cache, whole=True).problems == {}
    return tmp_path / "cold" / "written", f"lessons/{first.parent.name}/{first.stem}/"


def test_nothing_that_a_lesson_shows_can_run(hostile: tuple[Path, str], browser: Any) -> None:
    site, lesson = hostile
    for page in ("", lesson, "glossary/"):
        text = (site / page / "index.html").read_text(encoding="utf-8")
        assert "Content-Security-Policy" not in text
        assert "<script>hacked" not in text
    with host(site) as address:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.add_init_script("window.hacked = () => { window.ran = true; }")
        for path in ("", "glossary/", lesson):
            page.goto(address + path)
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
        page.evaluate("new Promise((resolve) => setTimeout(resolve, 300))")  # Material closes it until then
        page.keyboard.press("/")
        page.keyboard.type("script hacked", delay=10)
        page.wait_for_timeout(700)
        assert page.locator("article script, [onerror]").count() == 0
        assert page.evaluate("window.ran") is None
        assert "<script>hacked()</script>" in page.locator(".md-content__inner").inner_text()
        context.close()
