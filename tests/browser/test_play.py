"""The Playground: a reader pastes a kernel, edits it, changes its launch and shares it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import synthetic
from playwright.sync_api import Locator, Page, expect

from tests.sweeps import SIMULATOR
from tilewise import HazardError, Kernel
from tilewise.kernel.pasted import compiled
from tilewise.kernel.try_it import filled
from tilewise.simulator import Run
from tilewise.site.frontend import build_assets
from tilewise.site.play.examples import examples
from tilewise.site.play.server import PlayServer

from .conftest import FIGURES, ROOT, axe_faults, must_pass_axe, policy
from .test_try import drag, totals, wanted

pytestmark = [
    FIGURES,
    pytest.mark.sweep(
        *SIMULATOR,
        "src/tilewise/kernel/pasted.py",
        "src/tilewise/kernel/access_patterns.py",
        "src/tilewise/kernel/proposals.py",
        "src/tilewise/site/play",
        packages=["ziglang"],
    ),
]

PASTED = """\
#include <cstdio>

__global__ void fill(int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = i;
}

__global__ void scale(const float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = by * x[i];
    if (i == 3) printf("three: %d\\n", n);
}

int main() { fill<<<1, 32>>>(nullptr, 5); }
"""
ENDLESS = """\
__global__ void endless(int* x) {
    volatile int* seen = x;
    while (seen[0] >= 0) seen[threadIdx.x] = 1;
}
"""


@pytest.fixture(scope="module")
def address(chromium: str) -> Iterator[str]:
    """The Playground of ``tilewise play``."""
    made = PlayServer(build_assets(ROOT), 0)
    examples()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made.address
    made.shutdown()
    made.server_close()


def editor(page: Page, name: str = "CUDA text") -> Locator:
    return page.get_by_role("textbox", name=name)


def paste(page: Page, text: str, name: str = "CUDA text") -> None:
    """Replace the editor's text by what is on the clipboard."""
    editor(page, name).click()
    page.keyboard.press("Control+A")
    page.evaluate("(text) => navigator.clipboard.writeText(text)", text)
    page.keyboard.press("Control+V")


def native(text: str, name: str, sizes: dict[str, float], grid: int, block: int) -> Run:
    """What Python makes of the launch that the page runs."""
    offer = compiled(text, name)["offer"]
    arguments = [
        filled(one, int(sizes[f"{one['name']}.length"])) if "shape" in one else sizes[one["name"]]
        for one in offer["arguments"]
    ]
    kernel = Kernel(text, name)
    try:
        return kernel.simulate(*arguments, grid=grid, block=block)
    except HazardError as error:
        return error.run


def title(page: Page) -> Locator:
    return page.locator(".tw-run-title")


def test_a_kernel_is_pasted_picked_and_run(open_page):
    page = open_page()
    paste(page, PASTED)
    page.get_by_label("kernel", exact=True).select_option("scale")
    expect(title(page)).to_contain_text("scale<<<4, 256>>> in your browser")
    sizes = {"x.length": 1024, "y.length": 1024, "n": 1024, "by": 0.5}
    assert totals(page.locator(".tw-run")) == wanted(native(PASTED, "scale", sizes, 4, 256))
    expect(page.locator(".tw-output")).to_contain_text("three: 1024")
    expect(page.get_by_label("Example")).to_have_value("")

    drag(page, page.get_by_label("block x"), 64)
    expect(title(page)).to_contain_text("scale<<<16, 64>>>")
    page.get_by_label("elements of y").fill("n - 1")
    hazard = native(PASTED, "scale", sizes | {"y.length": 1023}, 16, 64).hazards[0]
    expect(page.locator(".tw-hazard")).to_contain_text(f"Hazard: {hazard.kind}. {hazard.message}.")
    page.get_by_label("elements of y").fill("n")
    page.get_by_label("x begins with").select_option("0, 1, 2, …")
    page.get_by_label("by as a number").fill("2")
    expect(page.locator(".tw-try-array")).to_contain_text("0  2  4  6  8")


def test_without_its_guard_a_kernel_meets_a_hazard_at_a_thread(open_page):
    page = open_page(390)
    guarded = """\
__global__ void more(const float* a, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + 1;
}
"""
    paste(page, guarded)
    expect(title(page)).to_contain_text("more<<<4, 256>>>")
    page.get_by_label("n as a number").fill("1000")
    expect(page.locator(".tw-try-array")).to_contain_text("after the run, 1000")
    expect(page.locator(".tw-hazard")).to_have_count(0)
    editor(page).locator(".cm-line", has_text="if (i < n)").click()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    page.keyboard.press("Delete")
    run = native(
        guarded.replace("if (i < n)", ""), "more", {"a.length": 1000, "c.length": 1000, "n": 1000}, 4, 256
    )
    expect(page.locator(".tw-hazard")).to_contain_text(run.hazards[0].message)
    expect(page.locator(".tw-hazard")).to_contain_text("thread 232 of block 3")
    expect(page.locator(".cm-lint-marker-warning")).to_have_count(1)
    expect(page.locator(".tw-try-status")).to_contain_text(run.hazards[0].message)
    assert page.get_by_label("n as a number").input_value() == "1000"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_pasted_kernel_is_stepped_through_and_the_steps_follow_the_launch(
    open_page,
):
    page = open_page(390, has_touch=True)
    paste(page, PASTED)
    page.get_by_label("kernel", exact=True).select_option("scale")
    expect(title(page)).to_contain_text("scale<<<")  # before that, the fields are those of the first kernel
    page.get_by_label("n as a number").fill("20")
    page.get_by_label("threads along x").fill("32")
    expect(title(page)).to_contain_text("scale<<<1, 32>>>")
    page.get_by_role("button", name="Step through it").tap()
    figure = page.locator(".tw-figure")
    expect(figure).to_have_attribute("data-state", "drawn")
    expect(figure.locator(".tw-figure-title")).to_have_text("scale<<<1, 32>>>, step by step")
    figure.get_by_role("button", name="next step").tap()
    expect(figure.locator(".tw-player output")).to_contain_text("2 of")
    page.get_by_label("n as a number").fill("40")
    expect(figure.locator(".tw-figure-title")).to_have_text("scale<<<2, 32>>>, step by step")
    page.get_by_role("button", name="Close the steps").tap()
    expect(figure).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_errors_stand_at_their_lines_and_go_when_repaired(open_page):
    page = open_page()
    paste(page, "\n__global__ void k(int* a) {\n    a[0] = bb;\n    cc = 1;\n}\n")
    faults = page.locator(".tw-play-faults li")
    expect(faults).to_have_text(
        ["Line 3 Use of undeclared identifier 'bb'.", "Line 4 Use of undeclared identifier 'cc'."]
    )
    expect(page.locator(".cm-lint-marker-error")).to_have_count(2)
    faults.nth(1).get_by_role("button").click()
    expect(editor(page)).to_be_focused()
    page.keyboard.press("Shift+End")
    page.keyboard.type("    a[1] = 2;")
    page.keyboard.press("F8")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("End")
    page.keyboard.type(" // here")
    editor(page).locator(".cm-line", has_text="bb").dblclick()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    page.keyboard.type("    a[0] = 1;")
    page.keyboard.press("Control+Enter")
    expect(title(page)).to_contain_text("k<<<1, 256>>>")
    expect(faults).to_have_count(0)
    expect(page.locator(".cm-lint-marker-error")).to_have_count(0)


def test_the_keyboard_leaves_the_editor(open_page):
    page = open_page()
    expect(title(page)).to_be_visible()
    editor(page).focus()
    page.keyboard.press("Tab")
    expect(editor(page)).not_to_be_focused()
    assert "\t" not in editor(page).inner_text()


def test_a_link_brings_text_kernel_and_launch(open_page):
    page = open_page()
    paste(page, PASTED)
    page.get_by_label("kernel", exact=True).select_option("scale")
    expect(title(page)).to_contain_text("scale<<<")
    page.get_by_label("n as a number").fill("100")
    page.get_by_label("block x").focus()
    page.get_by_label("threads along x").fill("32")
    page.get_by_label("x begins with").select_option("own numbers")
    page.get_by_label("Numbers of x").fill("3, 4")
    expect(title(page)).to_contain_text("scale<<<4, 32>>>")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    address = page.evaluate("navigator.clipboard.readText()")
    assert "#code=" in address
    assert "scale" not in address

    other = open_page(at=address.partition("/#")[2] and "#" + address.partition("#")[2])
    expect(title(other)).to_contain_text("scale<<<4, 32>>>")
    expect(other.locator(".tw-try-array")).to_contain_text("1.5  2  1.5  2")
    assert other.get_by_label("n as a number").input_value() == "100"
    expect(editor(other)).to_contain_text("by * x[i]")

    strange = open_page(at="#code=not-a-link")
    expect(title(strange)).to_contain_text("add<<<4, 256>>>")


def test_fields_say_what_is_wrong_with_them(open_page):
    page = open_page()
    expect(title(page)).to_be_visible()
    refused = page.locator(".tw-try-refused")
    for label, text, said in (
        ("blocks along x", "ceil_div(m, 2)", "There is no m; there is n, blockDim.x"),
        ("blocks along x", "alert(1)", "There is no alert"),
        ("blocks along x", "n / 0", "It divides by 0."),
        ("blocks along x", "(n", "It ends too early."),
        ("blocks along x", "3000000000", "A grid can't be 3000000000"),
        ("threads along x", "2000", "A block of 2000 × 1 × 1 has 2,000 threads"),
        ("elements of a", "1000000000", "MiB; the page runs up to 64 MiB."),
        ("dynamic shared memory", "300000", "at most 232,448 are possible"),
    ):
        field = page.get_by_label(label)
        before = field.input_value()
        field.fill(text)
        expect(refused).to_contain_text(said)
        field.fill(before)
        expect(title(page)).to_be_visible()


def test_a_launch_that_the_text_rules_out_is_refused(open_page):
    page = open_page()
    text = "__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) both(int* a) {\n"
    paste(page, text + "    if (threadIdx.x == 0) a[blockIdx.x] = 1;\n}\n")
    expect(title(page)).to_contain_text("both<<<8, 128>>>")
    page.get_by_label("threads along x").fill("256")
    refused = page.locator(".tw-try-refused")
    expect(refused).to_contain_text("the kernel promises at most 128 by __launch_bounds__")
    page.get_by_label("threads along x").fill("64")
    expect(title(page)).to_contain_text("both<<<16, 64>>>")
    page.get_by_label("blocks along x").fill("3")
    expect(refused).to_contain_text("A grid of 3 × 1 × 1 is not a whole number of clusters of 2 × 1 × 1")


def test_the_command_opens_a_file(open_at, tmp_path):
    (tmp_path / "mine.cu").write_text(PASTED.replace("fill", "fill_mine"), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "tilewise", "play", "mine.cu", "--no-browser"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        assert address
        page = open_at(address[0])
        expect(page).to_have_title("mine.cu · Playground")
        expect(title(page)).to_contain_text("fill_mine<<<1, 32>>>")
        expect(editor(page)).to_contain_text("fill_mine<<<1, 32>>>(nullptr, 5);")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        process.stdout.close()
    assert (tmp_path / "mine.cu").read_text(encoding="utf-8") == PASTED.replace("fill", "fill_mine")


def test_an_endless_kernel_is_stopped(open_page):
    page = open_page()
    paste(page, ENDLESS)
    page.get_by_label("x begins with").select_option("ones")
    progress = page.locator(".tw-try-progress")
    expect(progress).to_contain_text("% of the 20,000,000 warp instructions", timeout=20_000)
    progress.get_by_role("button", name="Stop").click()
    expect(progress).to_have_text("Stopped. The table shows the run before.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_playground_passes_axe(open_page, axe, scheme):
    page = open_page(360, color_scheme=scheme)
    expect(page.locator(".tw-hazard")).to_be_visible()
    shown = page.evaluate("document.documentElement.dataset.mdColorScheme")
    assert shown == {"light": "default", "dark": "slate"}[scheme]
    for _ in range(2):
        assert axe_faults(page, axe) == []
        paste(page, "__global__ void k(int* a) { a[0] = bb; }\n")
        expect(page.locator(".tw-play-faults")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


SITE_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">{policy}
<meta name="viewport" content="width=device-width"><title>Playground</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="tilewise/tilewise.css">
<style>body {{ margin: 0 1rem; color: var(--tw-ink); background: var(--tw-paper) }}</style></head>
<body data-md-color-scheme="default">
<main class="md-typeset"><article class="md-content__inner"><h1>Playground</h1>
<div class="tw-play" data-examples="examples.json"></div></article></main>
<script src="tilewise/tilewise.js"></script></body></html>"""


def test_without_a_compiler_examples_run_and_the_page_says_how_to_edit(
    open_at, faults, served, tmp_path, axe
):
    (tmp_path / "tilewise").symlink_to(build_assets(ROOT))
    (tmp_path / "examples.json").write_bytes(examples())
    (tmp_path / "index.html").write_text(SITE_PAGE.format(policy=policy()), encoding="utf-8")
    page = open_at(served(tmp_path), 390)
    expect(page.locator(".tw-play-panel")).to_contain_text("tilewise play mine.cu")
    expect(title(page)).to_contain_text("add<<<4, 256>>>")
    expect(page.locator(".tw-hazard")).to_contain_text("thread 232 of block 3")
    page.get_by_label("n as a number").fill("1024")
    expect(page.locator(".tw-hazard")).to_have_count(0)
    for number, one in enumerate(json.loads(examples())):
        page.get_by_label("Example").select_option(str(number))
        expect(title(page)).to_contain_text(f"{one['kernel']}<<<")
    expect(page.locator(".tw-hazard").first).to_contain_text("Hazard: race.")
    expect(editor(page)).to_have_count(0)
    assert not [url for url in faults.requests if url.endswith("editor.js")]
    must_pass_axe(page, axe, ".tw-play")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


LESSON = '''

# %%
from tilewise import case, ceil_div, normal, output, try_it
from tilewise import Kernel

ADD = Kernel(r"""
extern "C" __global__
void add_one(const float* a, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + PLUS;
}
""", defines={"PLUS": 1})


def one_more(n, block):
    return case(a=normal(n), c=output(n), n=n, grid=ceil_div(n, block), block=block)


try_it(one_more, ADD, n=(1, 20, 200), block=(1, 8, 64))
'''


QUIETLY = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "TILEWISE_CACHE": str(ROOT / ".cache/tilewise")}
"""The environment of MkDocs for a course in another folder: it keeps what it compiles in this one's cache."""


def write_course(folder: Path) -> Path:
    """A course of one lesson, whose kernel can be edited, and the Playground; the folder again."""
    [name] = synthetic.write_project(folder, 1)
    lesson = folder / "lessons" / f"{name}.py"
    head, mark, rest = lesson.read_text(encoding="utf-8").partition("# %% tab")
    lesson.write_text(head + LESSON.lstrip() + "\n" + mark + rest, encoding="utf-8")
    (folder / "docs" / "playground.md").write_text(
        '# Playground\n\n<div class="tw-play" data-examples="examples.json"></div>\n', encoding="utf-8"
    )
    config = folder / "mkdocs.yml"
    text = config.read_text(encoding="utf-8").replace("  - glossary.md", "  - playground.md\n  - glossary.md")
    config.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def course(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of ``mkdocs serve`` for a course of one lesson and the Playground."""
    folder = write_course(tmp_path_factory.mktemp("course"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "log.txt"
    out = log.open("w", encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "mkdocs", "serve", "--dev-addr", f"127.0.0.1:{port}"],
        cwd=folder,
        env=QUIETLY,
        stdout=out,
        stderr=subprocess.STDOUT,
    )
    address = f"http://127.0.0.1:{port}/"
    deadline = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(f"{address}playground/", timeout=20).close()
            break
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, "mkdocs serve does not answer"
            time.sleep(0.2)
    yield address
    process.terminate()
    process.wait(timeout=30)
    out.close()


def test_under_make_serve_the_playground_compiles(open_at, course):
    page = open_at(f"{course}playground/")
    expect(title(page)).to_contain_text("add<<<4, 256>>>")
    paste(page, PASTED)
    expect(title(page)).to_contain_text("fill<<<1, 32>>>")


def test_under_make_serve_a_panels_kernel_is_edited_in_place(open_at, faults, course, axe):
    page = open_at(f"{course}lessons/part_1/lesson_01/", 390)
    panel = page.locator(".tw-try")
    expect(panel).to_be_visible(timeout=60_000)
    assert not [url for url in faults.requests if url.endswith(("editor.js", "edit.js"))]
    panel.get_by_role("button", name="Edit").click()
    text = panel.get_by_role("textbox", name="CUDA text of add_one")
    expect(text).to_be_focused()
    line = text.locator(".cm-line", has_text="if (i < n)")
    line.click()
    page.keyboard.press("Home")
    for _ in range(len("if (i < n) ")):
        page.keyboard.press("Delete")
    expect(panel.locator(".tw-hazard")).to_contain_text("thread 4 of block 2 reads a[20]; a has 20 elements")
    page.keyboard.type("oops ")
    expect(panel.locator(".tw-play-faults")).to_contain_text("Line 4")
    must_pass_axe(page, axe, ".tw-try")
    panel.get_by_role("button", name="Line 4").first.click()
    page.keyboard.press("Control+Z")
    panel.get_by_role("button", name="Back to the page's text").click()
    expect(panel.locator(".tw-hazard")).to_have_count(0)
    expect(panel.locator(".tw-play-faults")).to_have_count(0)
    expect(text).to_contain_text("if (i < n) c[i]")
    text.locator(".cm-line", has_text="int n").click()
    page.keyboard.press("End")
    page.keyboard.press("Control+A")
    page.keyboard.type('extern "C" __global__ void add_one(float* a) { a[0] = PLUS; }')
    expect(panel.locator(".tw-play-faults")).to_contain_text("This panel passes a, c, n to add_one.")
    panel.get_by_role("button", name="Edit").click()
    expect(text).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
