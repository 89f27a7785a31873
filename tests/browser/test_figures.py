"""Figures as a reader meets them: drawn near the viewport, steered by mouse and keyboard, in both themes.

The page here holds only figures; stepped figures have a page of their own.
"""

import base64
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from tilewise.figures import (
    Answer,
    BitFormat,
    Figure,
    Held,
    Meter,
    Part,
    Plot,
    Series,
    Slider,
    Stop,
    bars,
    bit_fields,
    block_grid,
    calculator,
    floor_plan,
    heat_map,
    line_chart,
    sector_map,
    stepped,
    timeline,
)

from .conftest import FIGURES, ROOT, drawn, must_fit, write_figures

pytestmark = FIGURES
WORDS = {"title": "A statement", "caption": "What it shows."}


def roof(bandwidth: int, intensity: float) -> Answer:
    """The rate under a roof of 100, with the roof and the point."""
    rate = min(100.0, bandwidth * intensity)
    memory = rate < 100
    return Answer(
        [rate / (bandwidth * intensity), rate / 100],
        "Memory-bound." if memory else "Compute-bound.",
        ["memory"] if memory else ["arithmetic"],
        lines=[("roof", "predicted", [(0.1, 0.1 * bandwidth), (100 / bandwidth, 100), (1000, 100)])],
        point=(intensity, rate),
    )


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
        "copies": timeline(
            [("memory", 200 * at, 200 * at + 60, f"copy {at + 1}", "read") for at in range(8)],
            unit="µs",
            title="Copies",
            caption="c",
        ),
        "roles": timeline(
            [
                *(("consumer", 100 * at, 100 * at + 60, "GEMMs") for at in range(8)),
                *(("consumer", 100 * at + 60, 100 * at + 100, "softmax", "tile") for at in range(8)),
            ],
            unit="arbitrary units",
            title="Roles",
            caption="c",
        ),
        "lines": line_chart(lines, x="n", y="time [µs]", log_x=True, title="Lines", caption="c"),
        "key": line_chart(
            [
                *(Series(f"kernel {at}", [1, 2], [at, 2 * at]) for at in range(1, 6)),
                Series("model", [1, 2], [1, 3], "predicted"),
            ],
            x="n",
            y="time [µs]",
            title="Key",
            caption="c",
        ),
        "bars": bars(
            {"one thread": 9e5, "many threads of a grid": 50.0},
            x="time of one launch, the copies left out [µs]",
            title="Bars",
            caption="c",
        ),
        "gaps": heat_map({"tasks": np.array([[1, 2], [3, np.nan]])}, x="j", y="i", title="Gaps", caption="c"),
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
        "chosen": calculator(
            [
                Slider("device", ["A100 SXM 80 GB", "H100 SXM", "H200", "RTX 4090"], "H100 SXM"),
                Slider("intensity", [1.0, 2.0, 10.0], 2.0),
            ],
            lambda device, intensity: Answer([intensity / 10], f"{device} at {intensity:g}."),
            meters=[Meter("rate", 1.0)],
            title="Chosen",
            caption="c",
        ),
        "roof": calculator(
            [Slider("bandwidth", [10, 20, 50], 20, "B/s"), Slider("intensity", [1.0, 2.0, 10.0], 2.0)],
            roof,
            meters=[Meter(name, 1.0, "busy", form=".0%") for name in ("memory", "arithmetic")],
            plot=Plot("intensity [FLOP/B]", "rate [FLOP/s]", (0.1, 1000), (1, 1000), log=True),
            title="A roof",
            caption="c",
        ),
        "bits": bit_fields(
            [BitFormat("FP32", 8, 23), BitFormat("FP8 E4M3", 4, 3)],
            {
                "1": [Held(f"{127 << 23:032b}", "exactly"), Held("00111000", "exactly")],
                "1/3": [Held("00111110101010101010101010101011", "0.3333333"), Held("00101011", "0.34375")],
            },
            start="1",
            title="Bits",
            caption="c",
        ),
        "sectors": sector_map([1, 8], [0, 1], start=(1, 0), title="Sectors", caption="c"),
    }


@pytest.fixture(scope="module")
def address(chromium: str, tmp_path_factory: pytest.TempPathFactory, served: Callable[[Path], str]) -> str:
    """A page that holds figures of each kind but stepped ones."""
    return served(write_figures(tmp_path_factory.mktemp("figures"), figures()))


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
    for _ in range(120):
        figure.page.wait_for_timeout(250)
        if (seen := blue_pixels(figure.locator(".tw-space"))) > 2000:
            return
    pytest.fail(f"the canvas shows {seen} pixels of the blocks' colour after 30 s")


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


def test_plotly_is_fetched_only_for_what_needs_it(open_page):
    page = open_page()
    asked = "performance.getEntriesByType('resource').map((one) => one.name.split('/').pop())"
    drawn(page, "grid")
    page.wait_for_load_state("networkidle")
    assert "heat.json" not in page.evaluate(asked)
    drawn(page, "lines").locator(".main-svg").first.wait_for()
    drawn(page, "heat").locator(".main-svg").first.wait_for()
    assert page.evaluate(asked).count("plotly.js") == 1


def test_a_cell_a_thread_and_idle_ones_are_hatched(open_page):
    grid = drawn(open_page(), "grid")
    expect(grid.locator(".tw-cell")).to_have_count(70)
    expect(grid.locator(".tw-idle")).to_have_count(26)
    assert (
        grid.locator(".tw-idle").first.get_attribute("fill")
        == f"url(#{grid.locator('pattern').get_attribute('id')})"
    )
    expect(grid).to_contain_text("6 blocks, 96 threads, 26 of them idle (hatched).")


def test_a_thread_is_previewed_and_selected_with_its_arithmetic(open_page):
    grid = drawn(open_page(), "grid")
    readout = grid.locator(".tw-readout")
    grid.locator('[data-k="22"]').click()
    for words in ("(1, 0), number 1", "(2, 1), number 1 · 4 + 2 = 6", "6 = 1 · 4 + 2", "16 = 1 · 10 + 6"):
        expect(readout).to_contain_text(words)
    expect(grid.locator(".tw-stepper output")).to_have_text("23 of 96")
    grid.locator('[data-k="95"]').hover()
    expect(readout).to_contain_text("Idle: col = 11 is not below 10.")
    grid.locator("figcaption").hover()
    expect(readout).to_contain_text("(2, 1), number 1 · 4 + 2 = 6")
    grid.get_by_role("button", name="next thread").click()
    expect(grid.locator(".tw-stepper output")).to_have_text("24 of 96")


def test_arrow_keys_walk_over_the_grid_and_across_blocks(open_page):
    page = open_page()
    grid = drawn(page, "grid")
    grid.locator(".tw-flat").focus()
    for key in ["ArrowRight"] * 5 + ["ArrowDown"]:
        page.keyboard.press(key)
    expect(grid.locator(".tw-readout")).to_contain_text("(1, 1), number 1 · 4 + 1 = 5")
    assert grid.locator(".tw-flat").evaluate("(root) => getComputedStyle(root).outlineStyle") == "solid"


def test_sliders_change_the_launch(open_page):
    grid = drawn(open_page(), "grid")
    set_slider(grid, "gridDim.x", 2)
    set_slider(grid, "blockDim.z", 2)
    expect(grid.locator(".tw-launch")).to_have_text("<<<(2, 2), (4, 4, 2)>>>")
    expect(grid.locator("[data-k]")).to_have_count(128)
    set_slider(grid, "data col", 4)
    set_slider(grid, "data row", 3)
    expect(grid.locator(".tw-cell")).to_have_count(12)
    expect(grid.locator(".tw-stage-note")).to_contain_text("116 of them idle")
    grid.locator('[data-k="16"]').click()
    expect(grid.locator(".tw-readout")).to_contain_text("Idle: z = 1 is not below 1.")


def test_a_launch_that_is_large_or_refused_says_so(open_page):
    large = drawn(open_page(), "large")
    expect(large.locator("[data-k]")).to_have_count(1024)
    expect(large).to_contain_text("The first 1,024 of 8,192 threads are drawn.")
    set_slider(large, "blockDim.y", 8)
    set_slider(large, "blockDim.z", 4)
    expect(large).to_contain_text("CUDA refuses this launch: 128 · 8 · 4 = 4,096 threads")


def test_selection_launch_and_height_outlive_the_switch(open_page):
    grid = drawn(open_page(), "space")
    switch(grid, "2-D")
    set_slider(grid, "gridDim.x", 1)
    grid.locator('[data-k="22"]').click()
    before = (grid.locator(".tw-readout").inner_text(), grid.bounding_box())
    switch(grid, "3-D")
    grid.locator(".tw-space canvas").first.wait_for()
    expect(grid.locator(".tw-flat")).to_be_hidden()
    assert (grid.locator(".tw-readout").inner_text(), grid.bounding_box()) == before
    set_slider(grid, "step", 30)
    switch(grid, "2-D")
    expect(grid.locator(".tw-stepper output")).to_have_text("31 of 32")
    expect(grid.locator(".tw-launch")).to_have_text("<<<(1, 2, 2), (2, 2, 2)>>>")


def test_a_launch_without_a_third_axis_is_flat(open_page):
    page = open_page()
    for name in ("grid", "large"):
        figure = drawn(page, name)
        expect(figure.locator(".tw-cell").first).to_be_visible()
        expect(figure.locator('input[value="3d"]')).to_have_count(0)


def test_a_click_in_space_selects_the_cube_under_it(open_page):
    space = drawn(open_page(), "space")
    wait_for_cubes(space)
    chosen = set()
    for across, down in ((0.4, 0.45), (0.5, 0.55), (0.6, 0.45)):
        click_inside(space.locator(".tw-space"), across, down)
        chosen.add(space.locator(".tw-stepper output").inner_text())
    assert len(chosen) > 1


IN_SPACE = ("block_grid", "stepped", "floor_plan")
"""The kinds that can be seen in space."""


LESSONS_IN_SPACE = [  # not those that only step through a list of charts
    file.relative_to(ROOT).with_suffix("").as_posix()
    for file in sorted((ROOT / "lessons").glob("*/*.py"))
    if re.search(rf"\b(?:{'|'.join(IN_SPACE)})\((?!\s*\[)", file.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(
    "lesson", [pytest.param(one, marks=pytest.mark.sweep(f"{one}.py")) for one in LESSONS_IN_SPACE]
)
def test_a_click_on_any_figure_of_a_lesson_in_space_is_answered_within_a_second(lesson, open_context, site):
    page = open_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(f"{site}{lesson}/")
    figures = page.locator(", ".join(f".tw-figure[data-kind={kind}]" for kind in IN_SPACE))
    assert figures.count()
    for figure in figures.all():
        figure.scroll_into_view_if_needed()
        expect(figure).to_have_attribute("data-state", "drawn")
        if not figure.locator('input[value="3d"]').count():
            continue  # flat, or a model without threads
        switch(figure, "3-D")
        figure.locator(".tw-space canvas").first.wait_for()
        page.wait_for_timeout(400)
        must_answer_a_click(figure, figure.locator(".tw-figure-title").inner_text())


def must_answer_a_click(figure: Locator, name: str) -> None:
    """A click on a mark selects it, and after each click the page goes on.

    The second is one of the page's own work: a machine that draws without a GPU for several tests at a time
    takes longer by the clock. A plan has nothing to select.
    """
    is_plan = figure.get_attribute("data-kind") == "floor_plan"
    page, space = figure.page, figure.locator(".tw-space")
    readout = figure.locator(".tw-readout, .tw-step-words").first
    space.scroll_into_view_if_needed()
    box = space.bounding_box()
    assert box
    counters = page.context.new_cdp_session(page)
    counters.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy_s() -> float:
        metrics = counters.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    before = readout.inner_text()
    places = [(0.1 * across, 0.1 * down) for down in (5, 6, 4, 7, 3) for across in (5, 4, 6, 3, 7, 2, 8)]
    for across, down in places[: 3 if is_plan else None]:
        page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"], steps=3)
        page.wait_for_timeout(100)
        worked = busy_s()
        page.mouse.down()
        page.wait_for_timeout(100)
        page.mouse.up()
        page.wait_for_function(
            "new Promise((done) => requestAnimationFrame(() => done(true)))", timeout=10_000
        )
        assert busy_s() - worked < 1, f"{name}: a click keeps the page busy for {busy_s() - worked:.1f} s"
        page.mouse.move(box["x"] + 2, box["y"] + 2)
        page.wait_for_timeout(100)
        if readout.inner_text() != before:
            return
    assert is_plan, f"{name}: no click selects anything"


def test_without_webgl_the_flat_view_says_why(open_page, address):
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


def test_a_floor_plan_lights_what_its_stop_names_in_both_views(open_page):
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


def test_the_timeline_says_who_is_busy(open_page):
    line = drawn(open_page(), "timeline")
    set_slider(line, "step", 2)
    expect(line.locator(".tw-readout")).to_have_text("From 2 µs on, host: wait; device: kernel.")
    expect(line.locator(".tw-stepper output")).to_have_text("2 µs")


def test_no_name_of_a_timeline_stands_on_another(open_page):
    line = drawn(open_page(360), "crowded")
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


def test_names_that_a_phone_has_no_room_for_are_numbers_or_a_key(open_page):
    page = open_page(360)
    names = drawn(page, "copies").locator(".tw-span-label")
    assert names.all_text_contents() == [str(at) for at in range(1, 9)]
    roles = drawn(page, "roles")
    assert roles.locator(".tw-key > span").all_text_contents() == [" GEMMs", " softmax"]
    expect(roles.locator(".tw-span-label")).to_have_count(0)
    wide = open_page(1440)
    assert drawn(wide, "copies").locator(".tw-span-label").first.text_content() == "copy 1"
    expect(drawn(wide, "roles").locator(".tw-key")).to_be_hidden()


def test_no_two_entries_of_a_phones_key_look_alike(open_page):
    key = drawn(open_page(360), "key").locator(".tw-key")
    expect(key.locator("svg")).to_have_count(6)
    assert key.locator("> span").last.text_content() == " model"
    signs = key.locator("svg").evaluate_all("signs => signs.map((sign) => sign.outerHTML)")
    assert len(set(signs)) == 6
    assert "undefined" not in "".join(signs)


def test_a_stepped_chart_shows_the_data_of_its_step(open_page):
    steps = drawn(open_page(), "steps")
    expect(steps.locator(".bartext").first).to_have_text("\u00a00.20")
    steps.get_by_role("radio", name="high").check()
    expect(steps.locator(".bartext").first).to_have_text("\u00a00.50")
    expect(steps.get_by_role("radio", name="high")).to_be_checked()


def test_a_heat_map_with_empty_cells_is_drawn(open_page):
    gaps = drawn(open_page(), "gaps")
    expect(gaps.locator(".heatmap-label")).to_have_count(3)


def test_charts_follow_the_theme_and_offer_to_send_nothing_away(open_page):
    page = open_page()
    lines = drawn(page, "lines")
    lines.hover()
    tick = lines.locator(".xtick text").first
    expect(lines.locator(".modebar-btn")).to_have_count(0)
    light = tick.evaluate("(text) => getComputedStyle(text).fill")
    page.evaluate("document.body.dataset.mdColorScheme = 'slate'")
    expect(tick).not_to_have_css("fill", light)


@pytest.mark.parametrize("width", [1440, 360])
def test_every_figure_fits_and_can_be_read(open_page, width):
    must_fit(open_page(width), figures())


def test_a_calculators_sliders_move_bars_verdict_and_point_and_stay_after_a_reload(
    open_page,
):
    page = open_page()
    figure = drawn(page, "roof")
    verdict, point = figure.locator(".tw-calculator-verdict"), figure.locator(".tw-point")
    expect(verdict).to_have_text("Memory-bound.")
    assert figure.locator(".tw-meter-value").all_text_contents() == ["100% busy", "40% busy"]
    before = float(point.get_attribute("cx") or 0)
    figure.get_by_role("slider", name="intensity").focus()
    page.keyboard.press("ArrowRight")
    expect(verdict).to_have_text("Compute-bound.")
    assert figure.locator(".tw-meter-value").all_text_contents() == ["50% busy", "100% busy"]
    assert figure.locator(".tw-meter-limit .tw-meter-label").all_text_contents() == ["arithmetic"]
    assert float(point.get_attribute("cx") or 0) > before + 20
    page.reload()
    expect(drawn(page, "roof").locator(".tw-calculator-verdict")).to_have_text("Compute-bound.")


def test_sliders_set_the_sectors_that_lanes_touch(open_page):
    sectors = drawn(open_page(), "sectors")
    used, fetched = (
        sectors.locator(f".tw-sector-memory {name}")
        for name in (".tw-sector-used", '.tw-sector-cell:not([data-sector="none"])')
    )
    assert (used.count(), fetched.count()) == (32, 32)
    set_slider(sectors, "offset", 1)
    assert (used.count(), fetched.count()) == (32, 40)
    set_slider(sectors, "stride", 1)
    assert (used.count(), fetched.count()) == (32, 256)
    expect(sectors.locator(".tw-calculator-verdict")).to_contain_text("32 sectors")


@pytest.mark.parametrize("width", [1440, 360])
def test_names_are_chosen_by_buttons_and_numbers_by_a_slider(open_page, width):
    page = open_page(width)
    figure = drawn(page, "chosen")
    verdict = figure.locator(".tw-calculator-verdict")
    expect(figure.get_by_role("slider")).to_have_count(1)
    gpu = figure.get_by_role("group", name="device")
    expect(gpu.get_by_role("radio")).to_have_count(4)
    expect(gpu.get_by_role("radio", name="H100 SXM")).to_be_checked()
    gpu.get_by_role("radio", name="RTX 4090").check()
    expect(verdict).to_have_text("RTX 4090 at 2.")
    page.keyboard.press("ArrowLeft")
    expect(verdict).to_have_text("H200 at 2.")
    for label in gpu.locator("label").all():
        box = label.bounding_box()
        assert box and box["x"] + box["width"] <= width and box["height"] >= 24
    page.reload()
    expect(drawn(page, "chosen").get_by_role("radio", name="H200")).to_be_checked()


def test_a_slider_sets_the_bits_of_every_format(open_page):
    bits = drawn(open_page(), "bits")
    bits.locator("input[type=range]").press("ArrowRight")
    expect(bits.locator(".tw-bit-said").first).to_have_text("0.3333333")
    row = bits.locator(".tw-bit-row .tw-bit-cells[role=img]").last
    assert "".join(row.locator(".tw-bit").all_text_contents()) == "00101011"
    assert row.get_attribute("aria-label") == "FP8 E4M3: 0 0101 011"


def test_a_reload_keeps_step_view_and_sizes(open_page):
    page = open_page()
    grid = drawn(page, "grid")
    set_slider(grid, "blockDim.x", 3)
    set_slider(grid, "step", 17)
    page.reload()
    grid = drawn(page, "grid")
    expect(grid.locator(".tw-launch")).to_have_text("<<<(3, 2), (3, 4)>>>")
    expect(grid.locator(".tw-stepper output")).to_have_text("18 of 72")


def test_a_swapped_page_lets_go_of_old_figures_and_draws_new_ones(open_page):
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


def test_without_a_script_the_words_remain(open_page):
    page = open_page(java_script_enabled=False)
    grid = page.locator("#grid")
    expect(grid.locator(".tw-figure-title")).to_have_text("A statement")
    expect(grid.locator("figcaption")).to_have_text("What it shows.")
    expect(grid.locator(".tw-figure-note")).to_contain_text("needs JavaScript")
    grid.locator("summary").click()
    expect(grid.locator("details li")).to_have_count(6)
