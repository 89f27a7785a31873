"""A kernel of ``try_it`` in the frame that a notebook shows, without a server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.sweeps import SIMULATOR
from tilewise import Kernel, case, ceil_div, normal, output, try_it
from tilewise.cli.notebook import NotebookSink
from tilewise.outputs.base import installed

from .conftest import FIGURES

pytestmark = [
    FIGURES,
    pytest.mark.sweep(
        *SIMULATOR, "src/tilewise/cli/notebook.py", "src/tilewise/kernel", packages=["ziglang"]
    ),
]

STRICTEST = (
    '<meta http-equiv="Content-Security-Policy" content="'
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    'img-src https: data:; connect-src https:; child-src https: data:">'
)
"""What VS Code lets a cell's output do with `notebook.experimental.enableCsp` on; others allow more."""

SCALE = """\
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""


FLIP = """\
extern "C" __global__ void flip(const float* x, float* y, int width, int height) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col < width && row < height) y[row * width + col] = x[row * width + width - 1 - col];
}
"""


@pytest.fixture
def cell(open_at: Callable[..., Page], tmp_path: Path) -> Callable[..., Page]:
    """Opens a notebook's cell with what `try_it` shows there, offline; no fault is met."""

    def opened(*given: Any, **sizes: Any) -> Page:
        shown: list[dict[str, str]] = []
        with installed(NotebookSink(lambda data, raw: shown.append(data))):
            try_it(*given, **sizes)
        (data,) = shown
        assert "<<<" in data["text/plain"]
        cells = tmp_path / "cells.html"
        html = f"<!doctype html>{STRICTEST}<p>A cell</p>{data['text/html']}<p>The next</p>"
        cells.write_text(html, encoding="utf-8")
        return open_at(cells.as_uri(), 700, offline=True)

    return opened


def fits(page: Page) -> None:
    """Wait until the frame is as high as what it holds."""
    is_so = "(one) => Math.abs(one.offsetHeight - one.contentDocument.documentElement.offsetHeight) < 8"
    page.wait_for_function(f"() => ({is_so})(document.querySelector('iframe'))")


def test_it_runs_again_with_sizes_of_the_readers_own(cell):
    page = cell(
        lambda n, block: case(x=normal(n), y=output(n), n=n, grid=ceil_div(n, block), block=block),
        Kernel(SCALE),
        n=(1, 100, 200),
        block=(1, 32, 64),
    )
    run = page.frame_locator("iframe").locator(".tw-try")
    run.get_by_label("block", exact=True).press("ArrowRight")
    expect(run.locator(".tw-run-title")).to_contain_text("scale<<<4, 33>>> in your browser")
    expect(run.locator(".tw-try-counts")).to_contain_text("18 sectors of global loads")
    expect(run.locator(".tw-run tfoot tr")).to_have_count(1)  # there is no page to compare with
    fits(page)


def test_it_is_stepped_flat_and_without_an_address(cell):
    page = cell(
        lambda width, height: case(
            x=normal(width * height),
            y=output(width * height),
            width=width,
            height=height,
            grid=(ceil_div(width, 4), ceil_div(height, 2)),
            block=(4, 2),
        ),
        Kernel(FLIP),
        width=(1, 5, 20),
        height=(1, 3, 20),
    )
    run = page.frame_locator("iframe").locator(".tw-try")
    run.get_by_role("button", name="Step through it").click()
    figure = run.locator(".tw-figure")
    expect(figure).to_have_attribute("data-state", "drawn")
    before = figure.locator(".tw-step-said").inner_text()
    figure.get_by_role("button", name="next step").click()
    expect(figure.locator(".tw-step-said")).not_to_have_text(before)
    expect(figure.locator(".tw-marks")).not_to_have_count(0)
    expect(run.get_by_role("button", name="Copy link")).to_have_count(0)
    expect(figure.locator("input[value='3d']")).to_have_count(0)  # Plotly is not in the frame
    fits(page)
    run.get_by_label("height", exact=True).press("ArrowRight")
    expect(figure.locator(".tw-launch")).to_have_text("flip<<<(2, 2), (4, 2)>>>")
    expect(run.locator(".tw-run-title")).to_contain_text("in your browser")
