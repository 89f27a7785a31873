"""The page that ``tilewise trace`` writes, opened from a folder without a server or a network."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.sweeps import SIMULATOR
from tilewise.__main__ import main

from .conftest import FIGURES

pytestmark = [FIGURES, pytest.mark.sweep(*SIMULATOR, "src/tilewise/cli/trace*.py", packages=["ziglang"])]

SHIFTED = """\
extern "C" __global__ void shift(const float* x, float* y) { y[threadIdx.x] = x[(int)threadIdx.x - 3]; }
"""
SOURCE = """\
extern "C" __global__ void scale(const float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // watch: i
    if (i < n) y[i] = x[i] * by;
}
"""


@pytest.mark.parametrize(("first", "said"), [(3, None), (2, "reads x[-3]; x has 40 elements, from -2 to 37")])
def test_a_pointer_into_an_array_is_one_in_the_browser_too(open_at, tmp_path, first, said):
    (tmp_path / "shift.cu").write_text(SHIFTED, encoding="utf-8")
    out = tmp_path / "shift.html"
    command = ["trace", str(tmp_path / "shift.cu"), "--grid", "1", "--block", "32", "--out", str(out)]
    assert main([*command, "--arg", f"x=f32[40]+{first}", "--arg", "y=out:f32[32]"]) == (said is not None)
    page = open_at(out.as_uri())
    run = page.locator("#tw-again")
    run.get_by_role("button", name="Run", exact=True).click()
    expect(run.locator(".tw-run-title")).to_contain_text("shift<<<1, 32>>> in your browser")
    expect(run.locator(".tw-hazard")).to_have_text(re.compile(re.escape(said)) if said else [])


@pytest.fixture(scope="module")
def written(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a launch that reaches past the end."""
    folder = tmp_path_factory.mktemp("trace")
    (folder / "scale.cu").write_text(SOURCE, encoding="utf-8")
    page = folder / "scale.html"
    given = ("x=f32[100]", "y=out:f32[100]", "n=101", "by=0.5")
    parts = [part for one in given for part in ("--arg", one)]
    command = ["trace", str(folder / "scale.cu"), "--grid", "4", "--block", "32", "--out", str(page), *parts]
    assert main(command) == 1
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 360])
def test_it_opens_from_a_folder_and_asks_nobody(open_at, written, width, scheme):
    page = open_at(f"{written.as_uri()}?steps=step3-thread100-2d#steps", width, color_scheme=scheme)
    figure = page.locator("#steps")
    expect(figure).to_have_attribute("data-state", "drawn")
    expect(figure.locator(".tw-player output")).to_have_text("3 of 3")
    expect(figure.locator(".tw-line[aria-current=step].tw-wrong")).to_have_attribute("data-line", "3")
    expect(figure.locator(".tw-marks .tw-outside")).to_have_count(1)
    expect(figure.locator(".tw-step-mine")).to_contain_text("accesses out-of-bounds element y[100]")
    expect(page.locator(".tw-found")).to_contain_text("thread 4 of block 3 reads x[100]")
    expect(page.locator(".tw-found code")).to_contain_text("if (i < n) y[i] = x[i] * by;")
    figure.get_by_role("button", name="previous step").click()
    expect(figure.locator(".tw-player output")).to_have_text("2 of 3")
    expect(figure.locator('input[value="3d"]')).to_have_count(0)  # the launch has one axis
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert (
        page.evaluate("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[scheme]
    )


def test_its_launch_is_changed_and_run_again_offline(open_at, written):
    page = open_at(written.as_uri(), 390, has_touch=True, offline=True)
    run = page.locator("#tw-again")
    run.get_by_role("button", name="Run", exact=True).tap()
    expect(run.locator(".tw-run-title")).to_contain_text("scale<<<4, 32>>> in your browser")
    expect(run.locator(".tw-hazard")).to_contain_text("thread 4 of block 3 reads x[100]; x has 100 elements")
    totals = page.locator(".tw-run tfoot tr:first-child")
    expect(totals).to_have_count(2)
    assert totals.nth(1).inner_text() == totals.nth(0).inner_text()
    run.get_by_label("n as a number").fill("100")
    expect(run.locator(".tw-hazard")).to_have_count(0)
    assert totals.nth(1).inner_text() != totals.nth(0).inner_text()
    run.get_by_label("x begins with").select_option("0, 1, 2, …")
    expect(run.locator(".tw-try-array").last).to_contain_text("0  0.5  1  1.5  2")
    run.get_by_label("threads along x").fill("64")
    run.get_by_label("blocks along x").fill("ceil_div(n, blockDim.x)")
    expect(run.locator(".tw-run-title")).to_contain_text("scale<<<2, 64>>>")
    run.get_by_role("button", name="Step through it").tap()
    expect(run.locator(".tw-figure")).to_have_attribute("data-state", "drawn")
    run.get_by_label("blocks along x").fill("nonsense")
    expect(run.locator(".tw-try-refused").first).to_contain_text("There is no nonsense")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
