"""A kernel that a reader runs on the page: sizes are dragged, counts and hazards follow, links keep them."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.sweeps import SIMULATOR
from tilewise import HazardError, Kernel, Trace, case, ceil_div, integers, normal, output, try_it
from tilewise.cuda.cases import Case
from tilewise.figures import stepped
from tilewise.kernel.try_it import filled
from tilewise.outputs.base import CollectingSink, Context, installed
from tilewise.outputs.try_it import TryOutput
from tilewise.simulator import Run
from tilewise.site.frontend import build_assets

from .conftest import FIGURES, ROOT, must_pass_axe, policy

pytestmark = [
    FIGURES,
    pytest.mark.sweep(*SIMULATOR, "src/tilewise/kernel/try_it.py", packages=["ziglang"]),
]

VEC_ADD = Kernel(r"""
extern "C" __global__
void vec_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
""")
NO_GUARD = Kernel(VEC_ADD.source.replace("if (i < n) ", ""))
SHARED = Kernel(r"""
extern "C" __global__
void strided(const int* x, int* out, int stride) {
    __shared__ int s[1024];
    for (int i = threadIdx.x; i < 1024; i += 32) s[i] = x[i];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x * stride];
}
""")
UNORDERED = Kernel(SHARED.source.replace("    __syncthreads();\n", ""))
ENDLESS = Kernel(r"""
extern "C" __global__
void endless(int* x, int n) {
    volatile int* seen = x;
    while (seen[0] >= 0) seen[threadIdx.x] = n;
}
""")
MOST_GROWN = 3000
"""Bytes that a page may grow by before a reader touches anything, compressed."""


def adding(n: int, block: int) -> Case:
    return case(a=normal(n), b=normal(n), c=output(n), n=n, grid=ceil_div(n, block), block=block)


def wide(n: int) -> Case:
    return adding(n, 64)


def striding(stride: int) -> Case:
    x = integers(1024, low=0, high=9, dtype="int32")
    return case(x=x, out=output(32, dtype="int32"), stride=stride, grid=1, block=32)


def waiting(n: int) -> Case:
    return case(x=output(n * 1000, dtype="uint8"), n=n, grid=1, block=32)


def offers() -> list[TryOutput]:
    sink = CollectingSink()
    with installed(sink):
        try_it(adding, {"with the guard": VEC_ADD, "without": NO_GUARD}, n=(1, 20, 200), block=(1, 8, 64))
        try_it(striding, SHARED, stride=[1, 2, 4, 8, 16, 32])
        try_it(wide, VEC_ADD, n=(1, 64, 65536))
        try_it(striding, UNORDERED, stride=[1, 2])
    return [one for one in sink.outputs if isinstance(one, TryOutput)]


PAGE = """<!doctype html><html lang="en" class="no-js"><head><meta charset="utf-8">
{policy}
<meta name="viewport" content="width=device-width"><title>Runs</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="tilewise/tilewise.css">
<style>body {{ margin: 0 1rem; background: var(--md-default-bg-color) }}</style></head>
<body data-md-color-scheme="default">
<script>document.documentElement.className = "js"</script>
<main class="md-typeset"><article class="md-content__inner"><h1>Runs</h1>{shown}</article></main>
<script src="tilewise/tilewise.js"></script></body></html>"""


def write(folder: Path, outputs: list[TryOutput]) -> str:
    """A page of runs, under the site's own policy; its HTML."""
    (folder / "tilewise").symlink_to(build_assets(ROOT))
    names: list[str] = []

    def add(suffix: str, content: bytes) -> str:
        names.append(f"offer-{len(names)}{suffix}")
        (folder / names[-1]).write_bytes(content)
        return names[-1]

    ids: list[str] = []

    def unique(wanted: str) -> str:
        ids.append(wanted)
        return f"{wanted}-{len(ids)}"

    shown = "\n".join(one.markdown(Context("kernels/first_kernel", 1, add, unique)) for one in outputs)
    (folder / "index.html").write_text(PAGE.format(policy=policy(), shown=shown), encoding="utf-8")
    return shown


@pytest.fixture(scope="module")
def folder(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    write(made, offers())
    return made


@pytest.fixture(scope="module")
def address(folder: Path, served: Callable[[Path], str]) -> str:
    return served(folder)


def drag(page: Page, slider: Locator, value: int) -> None:
    """Take a slider's thumb with the mouse and bring it to a value, in small moves."""
    box = slider.bounding_box()
    assert box
    least, most, now = (int(slider.get_attribute(name) or 0) for name in ("min", "max", "value"))
    thumb = 16

    def at(number: int) -> float:
        return box["x"] + thumb / 2 + (box["width"] - thumb) * (number - least) / (most - least)

    page.mouse.move(at(now), box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(at(value), box["y"] + box["height"] / 2, steps=15)
    page.mouse.up()
    expect(slider).to_have_value(str(value))


def native(n: int, block: int, kernel: Kernel = VEC_ADD) -> Run:
    """What Python makes of the same launch."""
    offer = offers()[0].offer
    a, b, c = (filled(one, n) for one in offer["arguments"][:3])
    try:
        return kernel.simulate(a, b, c, n, grid=ceil_div(n, block), block=block)
    except HazardError as error:
        return error.run


def steps(n: int, block: int, kernel: Kernel = VEC_ADD) -> list[str]:
    """What Python's stepped figure of the same launch says."""
    offer = offers()[0].offer
    a, b, c = (filled(one, n) for one in offer["arguments"][:3])
    launch = kernel.on(case(a=a, b=b, c=c, n=n, grid=ceil_div(n, block), block=block))
    run = launch.simulate(trace=Trace(), hazards="collect")
    return list(stepped(run, title="A statement", caption="What it shows.").steps)


def totals(run: Locator, row: int = 0) -> list[str]:
    return run.locator("tfoot tr").nth(row).locator("td.tw-right").all_inner_texts()


def wanted(run: Run) -> list[str]:
    return [str(cell.text) for cell in run.as_output().total.cells]


def test_a_phone_reader_drags_the_block_size_and_sees_the_counts_move(open_page, faults):
    page = open_page(390)
    page.wait_for_timeout(300)
    late = ("run.js", "run_worker.js", "machine.wasm", "offer-0.json")
    assert not [url for url in faults.requests if url.endswith(late)], "fetched before it was touched"
    run = page.locator("#try-1")
    assert totals(run) == wanted(native(20, 8))

    drag(page, run.get_by_label("block", exact=True), 32)
    expect(run.locator(".tw-run-title")).to_contain_text("vec_add<<<1, 32>>> in your browser")
    assert totals(run) == wanted(native(20, 32))
    assert totals(run, 1)[0] == wanted(native(20, 8))[0]
    expect(run.locator(".tw-try-counts")).to_contain_text("25 instructions (75 on the page)")
    accesses = run.locator(".tw-try-warp li")
    expect(accesses.first).to_have_text("line 4 loads from a: 20 lanes, 3 sectors")
    assert accesses.first.locator("b").count() == 3
    assert accesses.first.locator(".tw-try-sectors .tw-try-used").count() == 20
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    run.get_by_label("kernel").select_option("without")
    run.get_by_label("block as a number").fill("64")
    expect(run.locator(".tw-run-title")).to_contain_text("vec_add<<<1, 64>>>")
    run.get_by_label("block as a number").fill("32")
    expect(run.get_by_label("block", exact=True)).to_have_value("32")
    hazard = native(20, 32, NO_GUARD).hazards[0]
    expect(run.locator(".tw-hazard")).to_contain_text(f"Hazard: {hazard.kind}. {hazard.message}.")
    expect(run.locator(".tw-hazard")).to_contain_text("c[i] = a[i] + b[i];")
    expect(run.locator(".tw-try-status")).to_contain_text(hazard.message)


def test_a_hazards_sentence_has_code_in_it(open_page):
    page = open_page()
    run = page.locator("#try-4")
    run.get_by_label("stride").press("ArrowRight")
    hazard = run.locator(".tw-hazard")
    expect(hazard).to_contain_text("Hazard: race.")
    written = "for (int i = threadIdx.x; i < 1024; i += 32) s[i] = x[i];"
    expect(hazard.locator("code").first).to_have_text(written)
    expect(hazard).not_to_contain_text("`")
    expect(run.locator(".tw-try-status")).to_contain_text("touched at line 4")
    expect(run.locator(".tw-try-status")).not_to_contain_text("`")


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_steps_beyond_a_hazard_say_that_the_counts_end_there(open_page, scheme):
    page = open_page()
    page.evaluate("(scheme) => (document.body.dataset.mdColorScheme = scheme)", scheme)
    run = page.locator("#try-1")
    ends = "The counts below end at the hazard; the steps go on past it."
    run.get_by_label("block", exact=True).press("ArrowRight")
    run.get_by_role("button", name="Step through it").click()
    caption = run.locator("figcaption").first
    expect(caption).to_contain_text("barriers keep their order")
    expect(caption).not_to_contain_text(ends)
    run.get_by_label("kernel").select_option("without")
    expect(caption).to_contain_text(ends)
    sign = run.locator(".tw-marks .tw-outside").first
    expect(sign).to_be_visible()
    key = run.locator(".tw-key-sign.tw-outside")
    expect(key.locator("..")).to_have_text("! out of bounds")
    ground = key.evaluate("(one) => getComputedStyle(one).backgroundColor")
    assert sign.evaluate("(one) => getComputedStyle(one).fill") == ground
    assert ground not in ("rgb(0, 0, 0)", "rgba(0, 0, 0, 0)")


def test_the_source_gives_way_to_the_counts(open_page):
    page = open_page()
    run = page.locator("#try-1")
    run.evaluate("(one) => { one.style.width = '560px'; }")
    run.get_by_label("block", exact=True).press("ArrowRight")
    expect(run.locator(".tw-run-title code")).to_have_text("vec_add<<<3, 9>>>")
    assert run.locator(".tw-table").evaluate("(one) => one.scrollWidth <= one.clientWidth")
    source = run.locator(".tw-source").first
    narrow = source.bounding_box()
    source.hover()
    wide = source.bounding_box()
    assert narrow and wide and 100 < narrow["width"] < wide["width"]


def test_the_table_stays_where_it_is_scrolled_while_a_slider_moves(
    open_page,
):
    page = open_page(800)
    run = page.locator("#try-2")
    slider = run.get_by_label("stride")
    slider.press("ArrowRight")
    table = run.locator(".tw-table")
    result = run.locator(".tw-try-result")
    expect(result).to_have_attribute("data-answers", "1")
    table.evaluate("(one) => { one.scrollLeft = 40; }")
    slider.press("ArrowRight")
    expect(result).to_have_attribute("data-answers", "2")
    assert table.evaluate("(one) => one.scrollLeft") == 40


def test_each_count_says_what_it_is_where_there_is_no_room_for_columns(
    open_page,
):
    page = open_page(390)
    run = page.locator("#try-1")
    run.get_by_label("block", exact=True).press("ArrowRight")
    expect(run.locator(".tw-run-title code")).to_have_text("vec_add<<<3, 9>>>")
    table = run.locator(".tw-table")
    assert table.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    names = table.locator("tfoot tr").first.locator("td[data-name]")
    shown = names.evaluate_all(
        "(all) => all.map((one) => getComputedStyle(one, '::before').content.slice(1, -2))"
    )
    assert shown[:4] == ["issued", "lanes", "global loads: requests", "sectors"]


def test_arrays_are_what_python_makes_of_the_same_inputs(open_page):
    page = open_page()
    run = page.locator("#try-1")
    inputs = run.get_by_label("n", exact=True)
    inputs.focus()
    page.keyboard.press("ArrowLeft")
    expect(run.locator(".tw-run-title")).to_contain_text("in your browser")
    a, b = (filled(one, 19) for one in offers()[0].offer["arguments"][:2])
    shown = run.locator(".tw-try-array code").last.inner_text().replace("−", "-").split()
    assert [float(one) for one in shown] == pytest.approx((a + b).tolist(), rel=1e-5)

    run.get_by_label("inputs").select_option("0, 1, 2, …")
    expect(run.locator(".tw-try-array")).to_contain_text("0  2  4  6  8")
    run.get_by_label("inputs").select_option("own numbers")
    run.get_by_label("Numbers, repeated").fill("1, 2.5")
    expect(run.locator(".tw-try-array")).to_contain_text("2  5  2  5  2")


def test_a_number_that_is_typed_first_is_not_lost(open_page):
    page = open_page()
    run = page.locator("#try-1")
    run.get_by_label("block as a number").fill("16")
    expect(run.locator(".tw-run-title")).to_contain_text("vec_add<<<2, 16>>> in your browser")
    expect(run.get_by_label("block", exact=True)).to_have_value("16")


def test_a_link_keeps_the_choice_and_reset_leaves_it(
    open_page,
):
    page = open_page()
    stride = page.locator("#try-2").get_by_label("stride")
    stride.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#try-2 output")).to_have_text("16")
    expect(page.locator("#try-2 .tw-try-counts")).to_contain_text(
        "16 wavefronts of shared loads (1 on the page)"
    )
    expect(page.locator("#try-2 .tw-try-warp")).to_contain_text(
        "loads from s: 32 lanes, up to 16 words per bank"
    )
    page.wait_for_url(re.compile(r"try-2=stride\.16"))

    other = open_page(at="?" + page.url.partition("?")[2])
    expect(other.locator("#try-2 output")).to_have_text("16")
    expect(other.locator("#try-2 .tw-try-counts")).to_contain_text("16 wavefronts of shared loads")
    other.locator("#try-2").get_by_role("button", name="Reset").click()
    expect(other.locator("#try-2 .tw-try-counts")).not_to_contain_text("on the page")
    other.wait_for_url(lambda url: "try-2" not in url)

    strange = open_page(at="?try-1=n.9999~block.<b>~kernel.7~fill.own.x_1e999~n.-3&try-2=")
    expect(strange.locator("#try-1 .tw-run-title")).to_contain_text("vec_add<<<3, 8>>> in your browser")


def test_a_reader_steps_through_their_own_run(open_page):
    page = open_page(390)
    run = page.locator("#try-1")
    run.get_by_label("block as a number").fill("16")
    run.get_by_role("button", name="Step through it").click()
    said = run.locator(".tw-step-said")
    wanted = steps(20, 16)
    expect(said).to_have_text(wanted[0])
    assert run.locator(".tw-figure-alt li").all_text_contents() == wanted
    run.get_by_role("button", name="next step").click()
    expect(said).to_have_text(wanted[1])

    run.get_by_label("kernel").select_option("without")
    expect(run.locator(".tw-figure-alt li").nth(1)).to_contain_text("out of bounds")
    assert run.locator(".tw-figure-alt li").all_text_contents() == steps(20, 16, NO_GUARD)
    expect(run.locator(".tw-wrong")).to_contain_text("c[i] = a[i] + b[i];")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    page.wait_for_url(re.compile(r"kernel\.1"))
    expect(said).to_have_text(steps(20, 16, NO_GUARD)[1])
    run.get_by_role("button", name="Copy link to this step").click()
    expect(run.locator(".tw-copied")).to_have_text("Copied.")
    link = page.evaluate("navigator.clipboard.readText()")
    other = open_page(at="?" + link.partition("?")[2])
    expect(other.locator("#try-1 .tw-step-said")).to_have_text(steps(20, 16, NO_GUARD)[1])
    other.locator("#try-1").get_by_role("button", name="Close the steps").click()
    expect(other.locator("#try-1 .tw-figure")).to_have_count(0)
    other.wait_for_url(lambda url: "steps=" not in url)


def test_of_a_large_run_a_part_is_stepped_and_the_figure_says_which(
    open_page,
):
    page = open_page()
    run = page.locator("#try-3")
    run.get_by_label("n", exact=True).press("End")
    run.get_by_role("button", name="Step through it").click()
    expect(run.locator(".tw-try-steps figcaption")).to_contain_text("block 0 of 1,024; the table counts all.")
    assert run.locator(".tw-figure-alt li").count() == 3
    expect(run.locator(".tw-stage-note")).to_have_text("The first 4,096 of 65,536 threads are drawn.")


@pytest.mark.parametrize("width", [1440, 390])
def test_a_step_shows_its_words_whole_and_an_array_that_it_touches(open_page, width):
    page = open_page(width)
    run = page.locator("#try-2")
    run.get_by_label("stride", exact=True).press("ArrowRight")
    expect(run.locator(".tw-run-title")).to_contain_text("in your browser")
    run.get_by_role("button", name="Step through it").click()
    run.locator(".tw-try-steps").evaluate("(steps) => steps.scrollIntoView()")
    expect(run.locator(".tw-figure")).to_have_attribute("data-state", "drawn")
    for step in range(6):
        if step:
            run.get_by_role("button", name="next step").click()
        expect(run.locator(".tw-player output")).to_contain_text(f"{step + 1} of ")
        assert run.locator(".tw-step-words").evaluate("(one) => one.scrollHeight <= one.clientHeight + 1")
        assert run.locator(".tw-arrays").evaluate("""(arrays) => {
            const { top, bottom } = arrays.getBoundingClientRect();
            const touched = arrays.querySelectorAll(".tw-element:is(.tw-read, .tw-write, .tw-update)");
            const places = [...touched].map((one) => one.getBoundingClientRect());
            return places.some((one) => one.top >= top && one.bottom <= bottom);
        }""")


def test_a_page_that_is_opened_anew_has_each_control_once(
    open_page,
):
    page = open_page()
    run = page.locator("#try-1")
    mounted = """async () => {
        const { mount } = await import("./tilewise/run.js");
        const page = new AbortController();
        await mount(document.getElementById("try-1"), page.signal);
        return () => page.abort();
    }"""
    page.evaluate(f"async () => {{ (await ({mounted})())(); await ({mounted})(); }}")
    for name in ("Reset", "Copy link"):
        expect(run.get_by_role("button", name=name)).to_have_count(1)
    expect(run.get_by_label("inputs")).to_have_count(1)
    run.get_by_label("block as a number").fill("16")
    expect(run.locator(".tw-run-title")).to_contain_text("vec_add<<<2, 16>>>")


def test_without_script_the_pages_own_run_stands_and_the_page_hardly_grows(open_page, tmp_path):
    page = open_page(java_script_enabled=False)
    assert totals(page.locator("#try-1")) == wanted(native(20, 8))
    expect(page.locator("#try-1 form")).to_be_hidden()
    for one in offers():
        shown = one.markdown(Context("x", 1, lambda suffix, content: "x" + suffix, lambda name: name))
        assert len(gzip.compress(shown.encode())) < MOST_GROWN


def test_an_endless_run_says_so_and_can_be_stopped(open_context, served, tmp_path):
    offer = offers()[1]
    from tilewise.simulator.browser.program import program_data

    endless = {
        **offer.offer,
        "kernels": [{"label": "endless", "program": program_data(ENDLESS.entry)}],
        "sizes": [{"name": "n", "start": 1, "least": 0, "most": 100}],
        "arguments": [
            {
                "name": "x",
                "type": "i4",
                "written": True,
                "shape": [["*", "n", 1 << 20]],
                "fill": {"kind": "output"},
            },
            {"name": "n", "type": "i4", "written": False, "value": "n"},
        ],
    }
    endless["arguments"][0]["fill"] = {"kind": "constant", "value": 1}
    write(tmp_path, [TryOutput(offer.run, endless, "An endless kernel.")])
    page = open_context().new_page()
    page.goto(served(tmp_path))
    run = page.locator("#try-1")
    run.get_by_label("n", exact=True).fill("3")
    stop = run.get_by_role("button", name="Stop")
    expect(run.locator(".tw-try-progress")).to_contain_text(
        "% of the 20,000,000 warp instructions", timeout=20_000
    )
    stop.click()
    expect(run.locator(".tw-try-progress")).to_have_text("Stopped. The table shows the run before.")
    run.get_by_label("n", exact=True).fill("90")
    expect(run.locator(".tw-try-refused")).to_contain_text(
        "The arrays would take 360 MiB; the page runs up to 64 MiB."
    )


def test_the_panel_passes_axe(open_page, axe):
    page = open_page(360)
    run = page.locator("#try-1")
    run.get_by_label("kernel").select_option("without")
    expect(run.locator(".tw-hazard")).to_be_visible()
    must_pass_axe(page, axe, "#try-1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
