"""A kernel of ``try_it`` in the frame that a notebook shows, without a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

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

SCALE = """\
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""


def test_it_runs_again_with_sizes_of_the_readers_own(
    open_context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    shown: list[dict[str, str]] = []
    with installed(NotebookSink(lambda data, raw: shown.append(data))):
        try_it(
            lambda n, block: case(x=normal(n), y=output(n), n=n, grid=ceil_div(n, block), block=block),
            Kernel(SCALE),
            n=(1, 100, 200),
            block=(1, 32, 64),
        )
    (data,) = shown
    assert "scale<<<4, 32>>>" in data["text/plain"]
    cells = tmp_path / "cells.html"
    cells.write_text(f"<!doctype html><p>A cell</p>{data['text/html']}<p>The next</p>", encoding="utf-8")
    faults: list[str] = []
    page = open_context(viewport={"width": 700, "height": 900}, offline=True).new_page()
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: faults.append(request.url) if request.url[:4] == "http" else None)
    page.goto(cells.as_uri())
    run = page.frame_locator("iframe").locator(".tw-try")
    run.get_by_label("block", exact=True).press("ArrowRight")
    expect(run.locator(".tw-run-title")).to_contain_text("scale<<<4, 33>>> in your browser")
    expect(run.locator(".tw-try-counts")).to_contain_text("18 sectors of global loads")
    expect(run.locator(".tw-run tfoot tr")).to_have_count(1)  # there is no page to compare with
    fits = "(one) => Math.abs(one.offsetHeight - one.contentDocument.documentElement.offsetHeight) < 8"
    page.wait_for_function(f"() => ({fits})(document.querySelector('iframe'))")
    assert faults == []
