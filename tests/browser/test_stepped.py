"""Stepped figures as a reader meets them: one slider for all panels, play and pause, keys, links."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from tests.sweeps import SIMULATOR
from tilewise import Kernel, Trace, case, normal, output
from tilewise.figures import Figure, State, stepped

from .conftest import FIGURES, drawn, must_fit, write_figures

pytestmark = [FIGURES, pytest.mark.sweep(*SIMULATOR, packages=["ziglang"])]

TREE = r"""
extern "C" __global__
void tree(const float* x, float* out, int n) {
    __shared__ float s[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // watch: i
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
"""
STRIDE = r"""
extern "C" __global__
void stride(const float* x, float* out, int by) {
    __shared__ float s[256];
    for (int i = threadIdx.x; i < 256; i += 32) s[i] = x[i];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x * by];
}
"""
COPY = r"""
extern "C" __global__
void copy(const float* A, float* B, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    B[y * width + x] = A[y * width + x];
}
"""


def of_copy(side: int, grid: tuple[int, ...], block: tuple[int, ...], title: str) -> Figure:
    copy = Kernel(COPY).on(
        case(A=normal(side, side), B=output(side, side), width=side, grid=grid, block=block)
    )
    return stepped(copy.simulate(trace=Trace(blocks=[0])), title=title, caption="c")


def figures() -> dict[str, Figure]:
    tree = Kernel(TREE).on(case(x=normal(100), out=output(2), n=100, grid=2, block=64))
    banks = Kernel(STRIDE).on(case(x=normal(256), out=output(32), by=8, grid=1, block=32))
    x = np.array([1.0, 3.0, 2.0])
    model = [
        State(
            f"Element {at} enters.",
            line=2,
            values={"m": max(x[: at + 1])},
            arrays={"x": x},
            reads={"x": [at]},
        )
        for at in range(3)
    ]
    run = tree.simulate(trace=Trace())
    return {
        "tree": stepped(run, title="Sums meet in a tree", caption="c"),
        "twin": stepped(run, title="The same once more", caption="c"),
        "banks": stepped(banks.simulate(trace=Trace()), title="Banks", caption="c"),
        "flat": of_copy(8, (2, 2), (4, 4), "Copy"),
        "wide": of_copy(512, (2, 4), (256, 1), "Wide blocks"),
        "row": of_copy(64, (2, 1), (32, 4), "Two blocks"),
        "deep": of_copy(8, (1, 1, 16), (2, 2, 1), "Layers"),
        "model": stepped(model, source="m = -inf\nfor v in x: m = max(m, v)", title="Model", caption="c"),
    }


@pytest.fixture(scope="module")
def address(chromium: str, tmp_path_factory: pytest.TempPathFactory, served: Callable[[Path], str]) -> str:
    """A page that holds stepped figures."""
    return served(write_figures(tmp_path_factory.mktemp("stepped"), figures()))


def go(figure: Locator, step: int) -> None:
    """Move the slider to a step, counted from 1 as the reader does."""
    figure.locator('input[data-control="step"]').evaluate(
        "(input, value) => { input.value = value - 1; input.dispatchEvent(new Event('input')); }", step
    )
    expect(at(figure)).to_have_text(f"{step} of {at(figure).inner_text().split()[-1]}")


def at(figure: Locator) -> Locator:
    return figure.locator(".tw-player output")


def line(figure: Locator) -> str:
    return figure.locator(".tw-line[aria-current=step]").get_attribute("data-line") or ""


def test_one_slider_moves_threads_line_memory_variables_and_words(open_page):
    tree = drawn(open_page(), "tree")
    said = tree.locator(".tw-step-said")
    assert line(tree) == "4"
    expect(tree.locator(".tw-marks .tw-run")).to_have_count(128)
    expect(tree.locator(".tw-watch .tw-fresh")).to_have_count(32)
    expect(said).to_have_text("Step 1, line 4: i = 0 to 127 in threads 0 to 127.")

    go(tree, 2)
    assert line(tree) == "5"
    expect(tree.locator(".tw-marks .tw-read")).to_have_count(100)
    reads = tree.locator(".tw-array", has_text="x (100), 13 sectors over 4 warps")
    expect(reads.locator(".tw-element.tw-read")).to_have_count(100)
    expect(said).to_contain_text("read x[0 to 99] in 13 sectors")

    go(tree, 3)
    expect(tree.locator(".tw-marks .tw-write")).to_have_count(128)
    shared = tree.locator(".tw-array", has_text="s (64), block 0")
    expect(shared.locator(".tw-element.tw-write")).to_have_count(64)
    expect(tree.locator(".tw-watch .tw-fresh")).to_have_count(0)

    go(tree, 4)
    assert line(tree) == "6"
    expect(tree.locator(".tw-marks .tw-acting")).to_have_count(0)
    expect(said).to_contain_text("synchronise at the barrier")


@pytest.mark.parametrize("width", [1440, 390])
def test_wide_blocks_are_folded_so_that_their_threads_are_seen(open_page, width):
    page = open_page(width)
    for name, least, lines in (("wide", 4, 32), ("row", 8, 8)):
        figure = drawn(page, name)
        cells = figure.locator(".tw-flat .tw-cell").evaluate_all(
            "(all) => all.map((one) => one.getBoundingClientRect()).map(({width, y}) => [width, y])"
        )
        assert min(side for side, _ in cells) >= least
        assert len({round(y) for _, y in cells}) == lines
        stage = figure.locator(".tw-flat")
        blank = stage.evaluate("(one) => one.clientHeight - one.firstChild.getBoundingClientRect().height")
        assert blank >= 0
        if name == "wide" or width == 390:  # else arrays beside it are higher
            assert blank <= 30


@pytest.mark.parametrize("width", [1440, 390])
def test_the_name_of_the_last_layer_is_whole(open_page, width):
    deep = drawn(open_page(width), "deep")
    name = deep.locator(".tw-flat .tw-layer").last
    expect(name).to_have_text("z = 15")
    assert name.evaluate(
        "(one) => one.getBoundingClientRect().right <= one.ownerSVGElement.getBoundingClientRect().right"
    )


def test_bank_conflicts_are_counted_by_bank(open_page):
    banks = drawn(open_page(), "banks")
    go(banks, 18)
    expect(banks.locator(".tw-bank-box p")).to_have_text(
        "banks, warp 0 of block 0: 8-way conflict, 8 wavefronts"
    )
    expect(banks.locator(".tw-clash")).to_have_text(["8"] * 4)
    go(banks, 2)
    expect(banks.locator(".tw-bank-box p")).to_have_text("banks, warp 0 of block 0: no conflict")
    expect(banks.locator(".tw-wanted")).to_have_count(32)


def test_play_begins_when_asked_goes_on_until_a_pause_or_the_end_and_begins_anew(
    open_page,
):
    page = open_page()
    tree = drawn(page, "tree")
    spoken = tree.locator(".tw-step-said")
    tree.get_by_role("button", name="play").click()
    expect(spoken).to_have_attribute("aria-live", "off")
    expect(at(tree)).to_have_text("3 of 30", timeout=5000)
    tree.get_by_role("button", name="pause").click()
    expect(spoken).to_have_attribute("aria-live", "polite")
    tree.get_by_role("button", name="play").click()
    tree.get_by_role("button", name="next step").click()
    expect(tree.get_by_role("button", name="play")).to_be_visible()
    model = drawn(page, "model")
    go(model, 2)
    model.get_by_role("button", name="play").click()
    expect(at(model)).to_have_text("3 of 3", timeout=5000)
    model.get_by_role("button", name="play").click()
    expect(at(model)).to_have_text("1 of 3")


def test_who_asks_for_less_motion_steps_by_hand(open_page):
    tree = drawn(open_page(reduced_motion="reduce"), "tree")
    expect(tree.get_by_role("button", name="play")).to_have_count(0)
    tree.get_by_role("button", name="next step").click()
    expect(at(tree)).to_have_text("2 of 30")


def test_keys_step_jump_and_play(open_page):
    page = open_page()
    tree = drawn(page, "tree")
    tree.locator('input[data-control="step"]').focus()
    for key, shown in (
        ("ArrowRight", "2"),
        ("ArrowRight", "3"),
        ("ArrowLeft", "2"),
        ("End", "30"),
        ("Home", "1"),
    ):
        page.keyboard.press(key)
        expect(at(tree)).to_have_text(f"{shown} of 30")
    page.keyboard.press("Space")
    expect(at(tree)).to_have_text("2 of 30", timeout=4000)
    page.keyboard.press("Space")
    tree.locator(".tw-flat").focus()
    page.keyboard.press("End")
    expect(at(tree)).to_have_text("30 of 30")
    page.keyboard.press("ArrowRight")
    expect(tree.locator(".tw-step-mine")).to_contain_text("Thread 1 of block 0")
    expect(at(tree)).to_have_text("30 of 30")


def test_a_moment_is_linked_with_its_view_and_thread(open_page, address):
    page = open_page()
    tree = drawn(page, "tree")
    go(tree, 7)
    tree.locator('.tw-flat [data-k="64"]').click()
    tree.get_by_role("button", name="Copy link to this step").click()
    expect(tree.locator(".tw-copied")).to_have_text("Copied.")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == f"{address}?tree=step7-thread64-2d#tree"

    fresh = open_page(at=link.removeprefix(address))
    there = fresh.locator("#tree")
    expect(there).to_be_in_viewport()
    expect(there).to_have_attribute("data-state", "drawn")
    expect(at(there)).to_have_text("7 of 30")
    expect(there.locator(".tw-step-mine")).to_contain_text("Thread 0 of block 1")
    expect(at(drawn(fresh, "twin"))).to_have_text("1 of 30")


def test_without_a_clipboard_the_link_is_shown_and_nonsense_in_an_address_is_let_be(open_page, address):
    page = open_page(at="?model=step999&tree=<script>")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    expect(at(drawn(page, "model"))).to_have_text("1 of 3")
    tree = drawn(page, "tree")
    tree.get_by_role("button", name="Copy link to this step").click()
    field = tree.get_by_role("textbox", name="Link to this step")
    expect(field).to_have_value(re.compile(r"tree=step1-thread0-2d#tree$"))
    expect(field).to_be_focused()


def test_its_script_is_fetched_where_a_figure_needs_it_and_plotly_is_not(
    open_page,
):
    page = open_page()
    drawn(page, "tree")
    drawn(page, "twin")
    asked = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name.split('/').pop())")
    assert asked.count("stepped.js") == 1 and "plotly.js" not in asked


def test_without_a_script_every_step_is_a_line(open_page):
    page = open_page(java_script_enabled=False)
    tree = page.locator("#tree")
    tree.locator("summary").click()
    expect(tree.locator("details li")).to_have_count(30)
    expect(tree.locator("details li").nth(3)).to_have_text(
        "Step 4, line 6: the threads of a block synchronise at the barrier."
    )


def test_the_controls_stay_in_view_while_the_figure_is(open_page):
    page = open_page(360)
    tree = drawn(page, "tree")
    for part in (".tw-code", ".tw-stage", ".tw-memory-box"):
        tree.locator(part).evaluate("(part) => part.scrollIntoView({ block: 'start' })")
        expect(tree.locator(".tw-player")).to_be_in_viewport(ratio=1)


def test_no_step_moves_what_stands_below(open_page):
    places = (
        "(figure) => [...figure.querySelectorAll('.tw-array, .tw-code, .tw-watch, .tw-player')]"
        ".map((one) => [one.offsetLeft, one.offsetTop, one.offsetWidth])"
    )
    tree = drawn(open_page(360), "tree")
    first = tree.evaluate(places)
    for step in range(2, 31):
        go(tree, step)
        assert tree.evaluate(places) == first, f"step {step}"


@pytest.mark.parametrize("width", [1440, 360])
def test_every_figure_fits_and_can_be_read(open_page, width):
    must_fit(open_page(width), figures())
