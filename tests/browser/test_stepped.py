"""Stepped figures as a reader meets them: one slider for all panels, play and pause, keys, links."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.sweeps import SIMULATOR
from tilewise import Kernel, Trace, case, normal, output
from tilewise.figures import Figure, State, stepped
from tilewise.frontend import build_assets

from .conftest import FIGURES, ROOT

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


def figures() -> dict[str, Figure]:
    tree = Kernel(TREE).on(case(x=normal(100), out=output(2), n=100, grid=2, block=64))
    banks = Kernel(STRIDE).on(case(x=normal(256), out=output(32), by=8, grid=1, block=32))
    copy = Kernel(COPY).on(case(A=normal(8, 8), B=output(8, 8), width=8, grid=(2, 2), block=(4, 4)))
    past = Kernel(COPY).on(case(A=normal(4), B=output(4), width=8, grid=1, block=8))
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
    comes_and_goes = [
        State(text, arrays={"x": [1.0, np.nan], "chip": [held]}, reads={"x": [0, 1]})
        for text, held in (("Empty.", np.nan), ("Made.", 2.0), ("Cleared.", np.nan))
    ]
    run = tree.simulate(trace=Trace())
    return {
        "tree": stepped(run, launch=tree, title="Sums meet in a tree", caption="c"),
        "twin": stepped(run, launch=tree, title="The same once more", caption="c"),
        "banks": stepped(banks.simulate(trace=Trace()), launch=banks, title="Banks", caption="c"),
        "flat": stepped(copy.simulate(trace=Trace(blocks=[0])), launch=copy, title="Copy", caption="c"),
        "wrong": stepped(
            past.simulate(trace=Trace(), hazards="collect"), launch=past, title="Past the end", caption="c"
        ),
        "empty": stepped(comes_and_goes, blanks=True, title="Empty places", caption="c"),
        "model": stepped(
            model, source="m = -inf\nfor v in x: m = max(m, v)", language="python", title="Model", caption="c"
        ),
        "box": stepped(
            [State("The first.", threads=[0, 1]), State("The others.", threads=[2, 3])],
            grid=2,
            block=2,
            cell="multiply-add",
            title="Box",
            caption="c",
        ),
    }


@pytest.fixture(scope="module")
def address(chromium: str, tmp_path_factory: pytest.TempPathFactory, served: Callable[[Path], str]) -> str:
    """A page that holds stepped figures under the built styles and scripts."""
    folder = tmp_path_factory.mktemp("stepped")
    (folder / "tilewise").symlink_to(build_assets(ROOT))
    body = ""
    for name, figure in figures().items():
        (folder / f"{name}.json").write_bytes(figure.json_bytes())
        body += f'<div style="min-height:60vh">{figure.html(f"{name}.json", name)}</div>'
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Figures</title>'
    (folder / "index.html").write_text(
        f'<!doctype html><html lang="en"><head>{head}<link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="tilewise/tilewise.css"></head>'
        "<style>main { max-width: 720px; margin: 0 auto; padding: 0 16px }</style>"
        '<body data-md-color-scheme="default"><main class="md-typeset">'
        f'{body}</main><script src="tilewise/figures.js"></script></body></html>',
        encoding="utf-8",
    )
    return served(folder)


@pytest.fixture
def open_page(open_context: Callable[..., BrowserContext], address: str) -> Iterator[Callable[..., Page]]:
    """``open_page(width, at)`` is the page, at a query; an error or a foreign request fails the test."""
    faults: list[str] = []
    ours = (address, "data:", "blob:")

    def open_one(width: int = 1440, at: str = "", **options: Any) -> Page:
        page = open_context(viewport={"width": width, "height": 900}, **options).new_page()
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "request", lambda request: None if request.url.startswith(ours) else faults.append(request.url)
        )
        page.goto(address + at)
        return page

    yield open_one
    assert faults == []


def drawn(page: Page, name: str) -> Locator:
    figure = page.locator(f"#{name}")
    figure.scroll_into_view_if_needed()
    expect(figure).to_have_attribute("data-state", "drawn")
    return figure


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


def test_one_slider_moves_threads_line_memory_variables_and_words(open_page: Callable[..., Page]) -> None:
    tree = drawn(open_page(), "tree")
    said = tree.locator(".tw-step-said")
    assert line(tree) == "4"
    expect(tree.locator(".tw-marks .tw-run")).to_have_count(128)
    expect(tree.locator(".tw-watch .tw-fresh")).to_have_count(32)
    expect(said).to_have_text("Step 1, line 4: i is 0 to 127 in threads 0 to 127.")

    go(tree, 2)
    assert line(tree) == "5"
    expect(tree.locator(".tw-marks .tw-read")).to_have_count(100)
    reads = tree.locator(".tw-array", has_text="x (100), 13 sectors")
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
    expect(said).to_contain_text("meet at the barrier")


def test_shared_memory_shows_what_it_holds_in_the_selected_threads_block(
    open_page: Callable[..., Page],
) -> None:
    tree = drawn(open_page(), "tree")
    go(tree, 3)
    first = tree.locator(".tw-array", has_text="s (64)").locator("text").first
    values = next(one["v"] for one in _moment(2)["p"])
    expect(first).to_have_text(_brief(values[0]))
    tree.locator('.tw-flat [data-k="64"]').click()
    expect(tree.locator(".tw-array", has_text="s (64), block 1")).to_have_count(1)
    expect(tree.locator(".tw-array", has_text="s (64)").locator("text").first).to_have_text(
        _brief(values[64])
    )
    expect(tree.locator(".tw-watch-box")).to_contain_text("variables, warp 0 of block 1")
    expect(tree.locator(".tw-watch td[data-k='64']")).to_have_text("64")


def _moment(number: int) -> Any:
    return json.loads(figures()["tree"].json_bytes())["spec"]["moments"][number]


def _brief(value: float) -> str:
    short = next(s for s in (f"{float(f'{value:.{d}g}'):g}" for d in (4, 3, 2, 1)) if len(s) <= 5)
    return short.replace("-", "−")


def test_the_selected_threads_own_deed_is_said(open_page: Callable[..., Page]) -> None:
    tree = drawn(open_page(), "tree")
    go(tree, 2)
    tree.locator('.tw-flat [data-k="70"]').click()
    own = tree.locator(".tw-step-mine")
    expect(own).to_contain_text("Thread 6 of block 1, lane 6 of warp 0: reads x[70] = ")
    expect(own).to_contain_text("It has i = 70.")
    tree.locator('.tw-flat [data-k="127"]').click()
    expect(own).to_contain_text("does nothing in this step")


def test_the_source_is_the_kernels_and_is_coloured(open_page: Callable[..., Page]) -> None:
    tree = drawn(open_page(), "tree")
    lines = tree.locator(".tw-line")
    expect(lines).to_have_count(12)
    text = lines.evaluate_all(
        """(rows) => rows.map((row) => {
            const copy = row.cloneNode(true);
            copy.querySelectorAll(".tw-line-number, .tw-line-mark").forEach((one) => one.remove());
            return copy.textContent;
        })"""
    )
    assert "\n".join(text) == TREE.strip()
    word, other = lines.nth(2).locator(".k").first, lines.nth(2)
    colour = "(node) => getComputedStyle(node).color"
    assert word.evaluate(colour) != other.evaluate(colour)


def test_bank_conflicts_are_counted_by_bank(open_page: Callable[..., Page]) -> None:
    banks = drawn(open_page(), "banks")
    go(banks, 18)
    expect(banks.locator(".tw-bank-box p")).to_have_text(
        "banks, warp 0 of block 0: 8 words of one bank, 8 passes"
    )
    expect(banks.locator(".tw-clash")).to_have_text(["8"] * 4)
    go(banks, 2)
    expect(banks.locator(".tw-bank-box p")).to_have_text("banks, warp 0 of block 0: no conflict")
    expect(banks.locator(".tw-wanted")).to_have_count(32)


def test_what_a_sector_brings_along_is_hatched(open_page: Callable[..., Page]) -> None:
    flat = drawn(open_page(), "flat")
    reads = flat.locator(".tw-array", has_text="A (8 × 8), 4 sectors")
    expect(reads.locator(".tw-element.tw-read")).to_have_count(16)
    expect(reads.locator("svg .tw-fetched")).to_have_count(16)
    go(flat, 2)
    expect(flat.locator(".tw-array", has_text="A (8 × 8)").locator("svg .tw-fetched")).to_have_count(0)


def test_a_hazard_is_marked_at_its_line_and_thread(open_page: Callable[..., Page]) -> None:
    past = drawn(open_page(), "wrong")
    wrong = past.locator(".tw-wrong")
    expect(wrong).to_have_attribute("data-line", "5")
    expect(wrong).to_have_attribute("title", "out of bounds: " + (wrong.get_attribute("title") or "")[15:])
    expect(past.locator(".tw-step-said")).to_contain_text("threads 4 to 7 reach outside A, to [4 to 7]")
    expect(past.locator(".tw-marks .tw-outside")).to_have_count(4)


def test_an_empty_place_of_a_model_shows_nothing_and_is_not_written(open_page: Callable[..., Page]) -> None:
    figure = drawn(open_page(), "empty")
    seen = []
    for step in (1, 2, 3):
        go(figure, step)
        x, chip = figure.locator(".tw-array").all()
        texts = [x.locator("text").all_text_contents(), chip.locator("text").all_text_contents()]
        seen.append((*texts, x.locator("rect.tw-read").count(), chip.locator("rect.tw-write").count()))
    empty = (["1", ""], [""], 1, 0)
    assert seen == [empty, (["1", ""], ["2"], 1, 1), empty]


def test_a_model_steps_without_threads(open_page: Callable[..., Page]) -> None:
    model = drawn(open_page(), "model")
    expect(model.locator(".tw-stage")).to_have_count(0)
    go(model, 2)
    expect(model.locator(".tw-watch td")).to_have_text("3")
    expect(model.locator(".tw-element.tw-read")).to_have_count(1)
    expect(model.locator(".tw-array text")).to_have_text(["1", "3", "2"])
    expect(model.locator(".tw-step-said")).to_have_text("Step 2, line 2: Element 1 enters. m is 3.")
    assert line(model) == "2"


def test_cells_that_are_no_threads_are_called_by_their_name(open_page: Callable[..., Page]) -> None:
    box = drawn(open_page(), "box")
    own = box.locator(".tw-step-mine")
    expect(own).to_have_text("The multiply-add at 0 is part of this step.")
    go(box, 2)
    expect(own).to_have_text("The multiply-add at 0 is not part of this step.")


def test_both_views_show_the_same_step_and_thread_in_the_same_height(open_page: Callable[..., Page]) -> None:
    tree = drawn(open_page(), "tree")
    go(tree, 3)
    tree.locator('.tw-flat [data-k="40"]').click()
    before = (tree.locator(".tw-step-mine").inner_text(), tree.bounding_box())
    tree.locator(".tw-choice label", has_text="3-D").click()
    tree.locator(".tw-space canvas").first.wait_for()
    expect(tree.locator(".tw-flat")).to_be_hidden()
    assert (tree.locator(".tw-step-mine").inner_text(), tree.bounding_box()) == before
    go(tree, 5)
    tree.locator(".tw-choice label", has_text="2-D").click()
    expect(tree.locator(".tw-marks .tw-read")).to_have_count(64)


def test_nothing_plays_before_it_is_asked_to(open_page: Callable[..., Page]) -> None:
    page = open_page()
    tree = drawn(page, "tree")
    page.wait_for_timeout(1500)
    expect(at(tree)).to_have_text("1 of 30")


def test_play_goes_on_by_itself_and_pause_stops_it(open_page: Callable[..., Page]) -> None:
    page = open_page()
    tree = drawn(page, "tree")
    said = tree.locator(".tw-step-said")
    expect(said).to_have_attribute("aria-live", "polite")
    tree.get_by_role("button", name="play").click()
    expect(said).to_have_attribute("aria-live", "off")
    expect(at(tree)).to_have_text("3 of 30", timeout=5000)
    tree.get_by_role("button", name="pause").click()
    stopped = at(tree).inner_text()
    expect(said).to_have_attribute("aria-live", "polite")
    page.wait_for_timeout(1500)
    expect(at(tree)).to_have_text(stopped)


def test_playing_ends_at_the_last_step_and_begins_anew(open_page: Callable[..., Page]) -> None:
    model = drawn(open_page(), "model")
    go(model, 2)
    model.get_by_role("button", name="play").click()
    expect(at(model)).to_have_text("3 of 3", timeout=5000)
    model.get_by_role("button", name="play").click()
    expect(at(model)).to_have_text("1 of 3")


def test_a_step_by_hand_stops_playing(open_page: Callable[..., Page]) -> None:
    page = open_page()
    tree = drawn(page, "tree")
    tree.get_by_role("button", name="play").click()
    tree.get_by_role("button", name="next step").click()
    now = at(tree).inner_text()
    page.wait_for_timeout(1500)
    expect(at(tree)).to_have_text(now)


def test_who_asks_for_less_motion_steps_by_hand(open_page: Callable[..., Page]) -> None:
    page = open_page(reduced_motion="reduce")
    tree = drawn(page, "tree")
    expect(tree.get_by_role("button", name="play")).to_have_count(0)
    tree.locator('input[data-control="step"]').focus()
    page.keyboard.press("Space")
    page.wait_for_timeout(1500)
    expect(at(tree)).to_have_text("1 of 30")
    tree.get_by_role("button", name="next step").click()
    expect(at(tree)).to_have_text("2 of 30")


def test_keys_step_jump_and_play(open_page: Callable[..., Page]) -> None:
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


def test_a_moment_is_linked_with_its_view_and_thread(open_page: Callable[..., Page], address: str) -> None:
    page = open_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
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


def test_a_link_opens_the_view_in_space(open_page: Callable[..., Page]) -> None:
    tree = drawn(open_page(at="?tree=step2-thread5-3d#tree"), "tree")
    expect(tree.locator('input[value="3d"]')).to_be_checked()
    expect(at(tree)).to_have_text("2 of 30")


def test_without_a_clipboard_the_link_is_shown_to_be_copied(
    open_page: Callable[..., Page], address: str
) -> None:
    page = open_page()
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    tree = drawn(page, "tree")
    go(tree, 3)
    tree.get_by_role("button", name="Copy link to this step").click()
    field = tree.get_by_role("textbox", name="Link to this step")
    expect(field).to_have_value(f"{address}?tree=step3-thread0-2d#tree")
    expect(field).to_be_focused()


def test_the_address_follows_the_reader_and_not_the_page(
    open_page: Callable[..., Page], address: str
) -> None:
    page = open_page(at="?q=kept")
    drawn(page, "tree")
    page.wait_for_timeout(800)
    assert page.url == f"{address}?q=kept"
    go(page.locator("#tree"), 4)
    go(drawn(page, "twin"), 6)
    page.wait_for_function("location.search.includes('twin')")
    assert page.url == f"{address}?q=kept&tree=step4-thread0-2d&twin=step6-thread0-2d"
    page.reload()
    expect(at(drawn(page, "tree"))).to_have_text("4 of 30")
    expect(at(drawn(page, "twin"))).to_have_text("6 of 30")


@pytest.mark.parametrize("asked", ["step999", "step0", "step-3", "<script>", "step2-thread99999-3dx", "%00"])
def test_an_address_that_asks_for_nonsense_is_let_be(open_page: Callable[..., Page], asked: str) -> None:
    expect(at(drawn(open_page(at=f"?model={asked}"), "model"))).to_have_text("1 of 3")


def test_two_figures_do_not_disturb_each_other(open_page: Callable[..., Page]) -> None:
    page = open_page()
    tree = drawn(page, "tree")
    go(tree, 5)
    twin = drawn(page, "twin")
    go(twin, 2)
    twin.get_by_role("button", name="play").click()
    page.keyboard.press("Home")
    expect(at(twin)).to_have_text("1 of 30")
    expect(at(tree)).to_have_text("5 of 30")
    assert line(tree) == "8"


def test_its_script_is_fetched_only_where_a_figure_needs_it(
    open_context: Callable[..., BrowserContext], address: str
) -> None:
    asked: list[str] = []
    page = open_context().new_page()
    page.on("request", lambda request: asked.append(request.url.rsplit("/", 1)[1]))
    page.route(
        address,
        lambda route: route.fulfill(
            body='<link rel="icon" href="data:,"><script src="tilewise/figures.js"></script>',
            content_type="text/html",
        ),
    )
    page.goto(address)
    page.wait_for_function(
        "performance.getEntriesByType('resource').some((one) => one.name.endsWith('figures.js'))"
    )
    page.wait_for_timeout(1000)
    assert "figures.js" in asked and "stepped.js" not in asked
    assert "tw-memory-box" not in (build_assets(ROOT) / "figures.js").read_text(encoding="utf-8")
    page.unroute(address)
    page.goto(address)
    drawn(page, "tree")
    drawn(page, "twin")
    assert asked.count("stepped.js") == 1
    assert "plotly.js" not in asked


def test_without_a_script_every_step_is_a_line(open_page: Callable[..., Page]) -> None:
    page = open_page(java_script_enabled=False)
    tree = page.locator("#tree")
    tree.locator("summary").click()
    expect(tree.locator("details li")).to_have_count(30)
    expect(tree.locator("details li").nth(3)).to_have_text(
        "Step 4, line 6: the threads of a block meet at the barrier."
    )


def test_the_controls_stay_in_view_while_the_figure_is(open_page: Callable[..., Page]) -> None:
    page = open_page(360)
    tree = drawn(page, "tree")
    for part in (".tw-code", ".tw-stage", ".tw-memory-box"):
        tree.locator(part).evaluate("(part) => part.scrollIntoView({ block: 'start' })")
        expect(tree.locator(".tw-player")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("width", [1440, 360])
def test_no_step_moves_what_stands_below(open_page: Callable[..., Page], width: int) -> None:
    page = open_page(width)
    places = (
        "(figure) => [...figure.querySelectorAll('.tw-array, .tw-code, .tw-watch, .tw-player')]"
        ".map((one) => [one.offsetLeft, one.offsetTop, one.offsetWidth])"
    )
    for name in ("tree", "flat", "banks"):
        figure = drawn(page, name)
        first = figure.evaluate(places)
        for step in range(2, int(at(figure).inner_text().split()[-1]) + 1):
            go(figure, step)
            assert figure.evaluate(places) == first, f"{name}, step {step}"


@pytest.mark.parametrize("width", [1440, 360])
@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_no_part_is_cut_small_or_left_empty(open_page: Callable[..., Page], width: int, scheme: str) -> None:
    page = open_page(width)
    page.evaluate("(scheme) => { document.body.dataset.mdColorScheme = scheme; }", scheme)
    for name in figures():
        figure = drawn(page, name)
        found = figure.evaluate(
            """(figure) => {
                const faults = [];
                const body = figure.querySelector(".tw-figure-body");
                const room = body.getBoundingClientRect();
                for (const one of body.querySelectorAll("text, p, label, output, td, th, button")) {
                    const box = one.getBoundingClientRect();
                    if (!one.textContent.trim() || !box.width) continue;
                    const says = one.textContent.trim().slice(0, 30);
                    if (parseFloat(getComputedStyle(one).fontSize) < 12) faults.push(`small: ${says}`);
                    if (box.left < room.left - 1 || box.right > room.right + 1) faults.push(`cut: ${says}`);
                }
                const words = body.querySelector(".tw-step-words");
                const used = [...words.children].reduce((all, one) => all + one.offsetHeight, 0);
                if (used > words.clientHeight + 1) faults.push(`words cut: ${used} in ${words.clientHeight}`);
                if (words.clientHeight - used > 80) faults.push(`empty: ${words.clientHeight - used}`);
                if (body.scrollHeight > body.clientHeight + 1) faults.push("taller than its room");
                return faults;
            }"""
        )
        assert found == [], name
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_room_is_kept_before_a_figure_is_drawn(open_page: Callable[..., Page]) -> None:
    page = open_page()
    heights = (
        "() => [...document.querySelectorAll('.tw-figure')].map((figure) => Math.round(figure.offsetHeight))"
    )
    before = page.evaluate(heights)
    for name in figures():
        drawn(page, name)
    page.wait_for_timeout(500)
    assert page.evaluate(heights) == before
