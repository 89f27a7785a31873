"""Figures as a reader meets them: drawn near the viewport, steered by mouse and keyboard, in both themes.

The page here holds only figures; how they stand in lessons is tested beside the lessons' pages.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tilewise.figures import (
    Figure,
    Part,
    Series,
    Stop,
    bars,
    block_grid,
    floor_plan,
    heat_map,
    line_chart,
    stepped,
    timeline,
)
from tilewise.frontend import build_assets

from .conftest import FIGURES, ROOT

pytestmark = FIGURES
WORDS = {"title": "A statement", "caption": "What it shows."}


def figures() -> dict[str, Figure]:
    heat = np.linspace(0, 1, 32).reshape(2, 4, 4)
    lines = [
        Series("measured", [1, 10, 100], [1, 2, 20]),
        Series("model", [1, 10, 100], [1, 2, 21], "predicted"),
    ]
    return {
        "grid": block_grid((3, 2), (4, 4), extent=(10, 7), axes=("col", "row"), **WORDS),
        "space": block_grid((2, 2, 2), (2, 2, 2), extent=(4, 3, 3), view="3d", title="In space", caption="c"),
        "large": block_grid(64, 128, title="Large", caption="c"),
        "plan": floor_plan(
            [
                *(Part(f"SM {n}", "processor", (n % 4, n // 4)) for n in range(8)),
                Part("stack", "memory", (5, 0), (2, 2), 3, "16 GB"),
            ],
            [Stop("4 KB", ("SM 3",), "One SM holds it."), Stop("1 GB", ("memory",), "Memory holds it.")],
            levels={"processor": "block", "memory": "global"},
            step_name="working set",
            title="Plan",
            caption="c",
        ),
        "timeline": timeline(
            [
                ("host", 0, 2, "launch"),
                ("device", 1, 5, "kernel", "measured"),
                ("host", 2, 5, "wait", "waste"),
            ],
            unit="µs",
            title="Timeline",
            caption="c",
        ),
        "crowded": timeline(
            [
                *(("consumer 1", 100 * at, 100 * at + 90, "products") for at in range(8)),
                *(("consumer 2", 30 * at, 30 * at + 20, "softmax") for at in range(25)),
                ("consumer 2", 790, 800, "products"),
            ],
            unit="clocks",
            title="Crowded",
            caption="c",
        ),
        "lines": line_chart(lines, x="n", y="time [µs]", log_x=True, title="Lines", caption="c"),
        "bars": bars(
            {"one thread": 9e5, "many threads of a grid": 50.0},
            x="time of one launch, the copies left out [µs]",
            log=True,
            title="Bars",
            caption="c",
        ),
        "heat": heat_map(
            {"S": heat, "P": heat**2},
            steps=["cold", "warm"],
            step_name="temperature",
            x="j",
            y="i",
            title="Heat",
            caption="c",
        ),
        "steps": stepped(
            [
                bars({"a": p, "b": 1 - p}, x="probability", value_range=(0, 1), form=".2f", **WORDS)
                for p in (0.2, 0.5)
            ],
            ["low", "high"],
            step_name="temperature",
            title="Steps",
            caption="c",
        ),
    }


@pytest.fixture(scope="module")
def address(chromium: str, tmp_path_factory: pytest.TempPathFactory, served: Callable[[Path], str]) -> str:
    """A page that holds one figure of each kind under the built styles and scripts."""
    folder = tmp_path_factory.mktemp("figures")
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
    """``open_page(width)`` is the page of figures; an error or a request to another host fails the test."""
    faults: list[str] = []
    ours = (address, "data:", "blob:")

    def open_one(width: int = 1440, **options: Any) -> Page:
        page = open_context(viewport={"width": width, "height": 900}, **options).new_page()
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith(ours) else faults.append(request.url),
        )
        page.goto(address)
        return page

    yield open_one
    assert faults == []


def drawn(page: Page, name: str) -> Locator:
    """The figure, scrolled to and drawn."""
    figure = page.locator(f"#{name}")
    figure.scroll_into_view_if_needed()
    expect(figure).to_have_attribute("data-state", "drawn")
    return figure


def set_slider(figure: Locator, control: str, value: int) -> None:
    figure.locator(f'input[data-control="{control}"]').evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }",
        value,
    )


def switch(figure: Locator, label: str) -> None:
    figure.locator(".tw-choice label", has_text=label).click()


def click_inside(room: Locator, across: float, down: float) -> None:
    """A click as a hand does it, at shares of width and height; the page must answer after it."""
    box = room.bounding_box()
    assert box
    mouse = room.page.mouse
    mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"], steps=3)
    room.page.wait_for_timeout(150)
    mouse.down()
    room.page.wait_for_timeout(120)
    mouse.up()
    room.page.wait_for_function(
        "new Promise((done) => requestAnimationFrame(() => done(true)))", timeout=5000
    )


def wait_for_cubes(figure: Locator) -> None:
    """Wait until the WebGL canvas shows cubes in the blocks' colour, as the reader sees it."""
    canvas = figure.locator(".tw-space canvas").first
    canvas.wait_for()
    assert canvas.evaluate('(one) => Boolean(one.getContext("webgl") || one.getContext("webgl2"))')
    for _ in range(20):
        figure.page.wait_for_timeout(250)
        if (seen := blue_pixels(figure.locator(".tw-space"))) > 2000:
            return
    pytest.fail(f"the canvas shows {seen} pixels of the blocks' colour after 5 s")


def blue_pixels(place: Locator) -> int:
    """Number of clearly blue pixels in a picture of an element; text and lines are not blue."""
    picture = base64.b64encode(place.screenshot()).decode()
    return int(
        place.page.evaluate(
            """async (picture) => {
                const image = new Image();
                image.src = `data:image/png;base64,${picture}`;
                await image.decode();
                const canvas = new OffscreenCanvas(image.width, image.height);
                const context = canvas.getContext("2d");
                context.drawImage(image, 0, 0);
                const { data } = context.getImageData(0, 0, image.width, image.height);
                let blue = 0;
                for (let at = 0; at < data.length; at += 4) if (data[at + 2] - data[at] > 25) blue += 1;
                return blue;
            }""",
            picture,
        )
    )


def test_plotly_is_fetched_only_for_what_needs_it(open_page: Callable[..., Page]) -> None:
    page = open_page()
    asked = "performance.getEntriesByType('resource').map((one) => one.name.split('/').pop())"
    drawn(page, "grid")
    page.wait_for_load_state("networkidle")
    assert "heat.json" not in page.evaluate(asked)
    drawn(page, "lines").locator(".main-svg").first.wait_for()
    drawn(page, "heat").locator(".main-svg").first.wait_for()
    assert page.evaluate(asked).count("plotly.js") == 1


def test_a_cell_a_thread_and_idle_ones_are_hatched(open_page: Callable[..., Page]) -> None:
    grid = drawn(open_page(), "grid")
    expect(grid.locator(".tw-cell")).to_have_count(70)
    expect(grid.locator(".tw-idle")).to_have_count(26)
    assert (
        grid.locator(".tw-idle").first.get_attribute("fill")
        == f"url(#{grid.locator('pattern').get_attribute('id')})"
    )
    expect(grid).to_contain_text("6 blocks, 96 threads, 26 of them idle (hatched).")


def test_a_click_names_the_thread_and_spells_its_arithmetic(open_page: Callable[..., Page]) -> None:
    grid = drawn(open_page(), "grid")
    grid.locator('[data-k="22"]').click()
    readout = grid.locator(".tw-readout")
    for said in (
        "(1, 0), number 1",
        "(2, 1), number 1 · 4 + 2 = 6",
        "6 = 1 · 4 + 2",
        "1 = 0 · 4 + 1",
        "16 = 1 · 10 + 6",
    ):
        expect(readout).to_contain_text(said)
    expect(grid.locator(".tw-stepper output")).to_have_text("23 of 96")


def test_hovering_previews_and_leaving_returns_to_the_selected_thread(open_page: Callable[..., Page]) -> None:
    grid = drawn(open_page(), "grid")
    grid.locator('[data-k="22"]').click()
    grid.locator('[data-k="95"]').hover()
    expect(grid.locator(".tw-readout")).to_contain_text("Idle: col = 11 is not below 10.")
    grid.locator("figcaption").hover()
    expect(grid.locator(".tw-readout")).to_contain_text("(2, 1), number 1 · 4 + 2 = 6")


def test_arrow_keys_walk_over_the_grid_and_across_blocks(open_page: Callable[..., Page]) -> None:
    page = open_page()
    grid = drawn(page, "grid")
    grid.locator(".tw-flat").focus()
    for key in ["ArrowRight"] * 5 + ["ArrowDown"]:
        page.keyboard.press(key)
    expect(grid.locator(".tw-readout")).to_contain_text("(1, 1), number 1 · 4 + 1 = 5")
    assert grid.locator(".tw-flat").evaluate("(root) => getComputedStyle(root).outlineStyle") == "solid"


def test_step_buttons_and_slider_move_the_same_step(open_page: Callable[..., Page]) -> None:
    page = open_page()
    grid = drawn(page, "grid")
    grid.get_by_role("button", name="next thread").click()
    expect(grid.locator(".tw-stepper output")).to_have_text("2 of 96")
    grid.locator('input[data-control="step"]').focus()
    page.keyboard.press("ArrowRight")
    expect(grid.locator(".tw-stepper output")).to_have_text("3 of 96")
    grid.get_by_role("button", name="previous thread").click()
    expect(grid.locator(".tw-stepper output")).to_have_text("2 of 96")


@pytest.mark.parametrize("width", [1440, 360])
@pytest.mark.parametrize("name", ["grid", "large"])
def test_little_room_is_left_empty_around_the_threads(
    open_page: Callable[..., Page], width: int, name: str
) -> None:
    grid = drawn(open_page(width), name)
    stage, threads = (grid.locator(part).bounding_box() for part in (".tw-stage", ".tw-flat svg"))
    assert stage and threads
    above, below = threads["y"] - stage["y"], stage["y"] + stage["height"] - threads["y"] - threads["height"]
    assert below < 45
    assert abs(above - below) < 2 or below < 0  # in the middle, or larger than its room


def test_sliders_change_the_launch(open_page: Callable[..., Page]) -> None:
    grid = drawn(open_page(), "grid")
    set_slider(grid, "gridDim.x", 2)
    set_slider(grid, "blockDim.z", 2)
    expect(grid.locator(".tw-launch")).to_have_text("<<<(2, 2), (4, 4, 2)>>>")
    expect(grid.locator("[data-k]")).to_have_count(128)


def test_a_block_that_cuda_refuses_is_said(open_page: Callable[..., Page]) -> None:
    large = drawn(open_page(), "large")
    set_slider(large, "blockDim.y", 8)
    set_slider(large, "blockDim.z", 4)
    expect(large).to_contain_text("CUDA refuses this launch: 128 · 8 · 4 = 4,096 threads")


def test_a_large_launch_draws_its_first_threads_and_says_so(open_page: Callable[..., Page]) -> None:
    large = drawn(open_page(), "large")
    expect(large.locator("[data-k]")).to_have_count(4096)
    expect(large).to_contain_text("The first 4,096 of 8,192 threads are drawn.")


def test_space_is_drawn_in_webgl(open_page: Callable[..., Page]) -> None:
    space = drawn(open_page(), "space")
    wait_for_cubes(space)


def test_selection_launch_and_height_outlive_the_switch(open_page: Callable[..., Page]) -> None:
    grid = drawn(open_page(), "grid")
    set_slider(grid, "gridDim.x", 2)
    grid.locator('[data-k="22"]').click()
    before = (grid.locator(".tw-readout").inner_text(), grid.bounding_box())
    switch(grid, "3-D")
    grid.locator(".tw-space canvas").first.wait_for()
    expect(grid.locator(".tw-flat")).to_be_hidden()
    assert (grid.locator(".tw-readout").inner_text(), grid.bounding_box()) == before
    set_slider(grid, "step", 30)
    switch(grid, "2-D")
    expect(grid.locator(".tw-stepper output")).to_have_text("31 of 64")
    expect(grid.locator(".tw-launch")).to_have_text("<<<(2, 2), (4, 4)>>>")


def test_a_click_in_space_selects_the_cube_under_it(open_page: Callable[..., Page]) -> None:
    space = drawn(open_page(), "space")
    wait_for_cubes(space)
    chosen = set()
    for across, down in ((0.4, 0.45), (0.5, 0.55), (0.6, 0.45)):
        click_inside(space.locator(".tw-space"), across, down)
        chosen.add(space.locator(".tw-stepper output").inner_text())
    assert len(chosen) > 1


def test_without_webgl_the_flat_view_says_why(open_page: Callable[..., Page], address: str) -> None:
    page = open_page()
    page.add_init_script(
        "const real = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
        " return kind.startsWith('webgl') ? null : real.call(this, kind, ...rest); };"
    )
    page.goto(address)
    space = drawn(page, "space")
    expect(space.locator(".tw-cell")).to_have_count(36)
    expect(space).to_contain_text("3-D needs WebGL, which this browser does not offer here")
    expect(space.locator('input[value="3d"]')).to_be_disabled()


def test_a_floor_plan_lights_what_its_stop_names_in_both_views(open_page: Callable[..., Page]) -> None:
    plan = drawn(open_page(), "plan")
    assert plan.locator(".tw-plan-lit title").all_text_contents() == ["SM 3"]
    expect(plan.locator(".tw-readout")).to_have_text("One SM holds it.")
    plan.get_by_role("button", name="next working set").click()
    assert plan.locator(".tw-plan-lit title").all_text_contents() == ["stack"]
    expect(plan.locator(".tw-stepper output")).to_have_text("1 GB")
    expect(plan.locator(".tw-plan-label-lit")).to_have_text("16 GB")
    before = plan.bounding_box()
    switch(plan, "3-D")
    wait_for_cubes(plan)
    after = plan.bounding_box()
    assert before is not None
    assert after is not None
    assert before["height"] == after["height"]


def test_the_timeline_says_who_is_busy(open_page: Callable[..., Page]) -> None:
    line = drawn(open_page(), "timeline")
    set_slider(line, "step", 2)
    expect(line.locator(".tw-readout")).to_have_text("From 2 µs on, host: wait; device: kernel.")
    expect(line.locator(".tw-stepper output")).to_have_text("2 µs")


@pytest.mark.parametrize("width", [360, 1440])
def test_no_name_of_a_timeline_stands_on_another(open_page: Callable[..., Page], width: int) -> None:
    line = drawn(open_page(width), "crowded")
    names = line.locator(".tw-span-label")
    boxes = [box for box in (name.bounding_box() for name in names.all()) if box]
    assert len(boxes) >= 3
    for at, one in enumerate(boxes):
        for other in boxes[:at]:
            apart = abs(one["y"] - other["y"]) >= 12
            assert apart or one["x"] >= other["x"] + other["width"] or other["x"] >= one["x"] + one["width"]
    assert names.first.text_content() == "products"
    room = line.bounding_box()
    assert room is not None
    assert max(box["x"] + box["width"] for box in boxes) <= room["x"] + room["width"]


def test_a_stepped_chart_shows_the_data_of_its_step(open_page: Callable[..., Page]) -> None:
    steps = drawn(open_page(), "steps")
    expect(steps.locator(".bartext").first).to_have_text("\u00a00.20")
    steps.get_by_role("button", name="next temperature").click()
    expect(steps.locator(".bartext").first).to_have_text("\u00a00.50")
    expect(steps.locator(".tw-stepper output")).to_have_text("high")


def test_charts_follow_the_theme(open_page: Callable[..., Page]) -> None:
    page = open_page()
    lines = drawn(page, "lines")
    tick = lines.locator(".xtick text").first
    tick.wait_for()
    light = tick.evaluate("(text) => getComputedStyle(text).fill")
    page.evaluate("document.body.dataset.mdColorScheme = 'slate'")
    page.wait_for_timeout(500)
    assert lines.locator(".xtick text").first.evaluate("(text) => getComputedStyle(text).fill") != light


def test_nothing_offers_to_send_data_away(open_page: Callable[..., Page]) -> None:
    lines = drawn(open_page(), "lines")
    lines.locator(".main-svg").first.wait_for()
    lines.hover()
    expect(lines.locator(".modebar-btn")).to_have_count(0)


@pytest.mark.parametrize("width", [1440, 360])
@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_no_label_is_cut_and_none_is_small(open_page: Callable[..., Page], width: int, scheme: str) -> None:
    page = open_page(width)
    page.evaluate("(scheme) => { document.body.dataset.mdColorScheme = scheme; }", scheme)
    for name in figures():
        figure = drawn(page, name)
        page.wait_for_timeout(700)
        found = figure.evaluate(
            """(figure) => {
                const room = figure.querySelector(".tw-figure-body").getBoundingClientRect();
                const faults = [];
                const words = ".tw-figure-body :is(text, p, label, output, dt, dd, code, span)";
                for (const one of figure.querySelectorAll(words)) {
                    const box = one.getBoundingClientRect();
                    if (!one.textContent.trim() || !box.width || one.closest(".gl-container")) continue;
                    const says = one.textContent.trim().slice(0, 30);
                    if (parseFloat(getComputedStyle(one).fontSize) < 12) faults.push(`small: ${says}`);
                    if (one.closest("pre, .tw-arrays")) continue;
                    if (box.left < room.left - 1 || box.right > room.right + 1) faults.push(`cut: ${says}`);
                }
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
    page.wait_for_timeout(1000)
    assert page.evaluate(heights) == before


def test_a_reload_keeps_step_view_and_sizes(open_page: Callable[..., Page]) -> None:
    page = open_page()
    grid = drawn(page, "grid")
    set_slider(grid, "blockDim.x", 3)
    set_slider(grid, "step", 17)
    page.reload()
    grid = drawn(page, "grid")
    expect(grid.locator(".tw-launch")).to_have_text("<<<(3, 2), (3, 4)>>>")
    expect(grid.locator(".tw-stepper output")).to_have_text("18 of 72")


def test_a_swapped_page_lets_go_of_old_figures_and_draws_new_ones(open_page: Callable[..., Page]) -> None:
    page = open_page()
    lines = drawn(page, "lines")
    lines.locator(".main-svg").first.wait_for()
    page.evaluate(
        """() => {
            const main = document.querySelector("main");
            const fresh = main.cloneNode(true);
            for (const figure of fresh.querySelectorAll(".tw-figure")) {
                delete figure.dataset.state;
                figure.querySelector(".tw-figure-body").replaceChildren();
            }
            main.replaceWith(fresh);
            document.dispatchEvent(new Event("tw:content"));
        }"""
    )
    drawn(page, "lines").locator(".main-svg").first.wait_for()
    expect(drawn(page, "grid").locator(".tw-cell")).to_have_count(70)
    assert page.evaluate("document.getElementById('plotly.js-style-global').parentElement.tagName") == "BODY"


def test_without_a_script_the_words_remain(open_page: Callable[..., Page]) -> None:
    page = open_page(java_script_enabled=False)
    grid = page.locator("#grid")
    expect(grid.locator(".tw-figure-title")).to_have_text("A statement")
    expect(grid.locator("figcaption")).to_have_text("What it shows.")
    expect(grid.locator(".tw-figure-note")).to_contain_text("scripts are switched off here")
    grid.locator("summary").click()
    expect(grid.locator("details li")).to_have_count(6)


def test_a_figure_whose_data_are_missing_says_so(open_page: Callable[..., Page], address: str) -> None:
    page = open_page()
    page.route("**/grid.json", lambda route: route.fulfill(status=200, body="not json"))
    page.reload()
    expect(page.locator("#grid")).to_have_attribute("data-state", "failed")
    assert page.locator("#grid .tw-figure-note").inner_text()
