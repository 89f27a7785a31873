"""A puzzle is solved where it stands: chosen or written, judged as the command judges, and kept."""

import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.puzzles.test_puzzles import shown
from tests.puzzles.test_wrong_answers import HERE as WRONG
from tests.puzzles.test_wrong_answers import wrong_answers
from tests.sweeps import SIMULATOR
from tilewise.errors import LessonError
from tilewise.kernel.pasted import compiled
from tilewise.outputs.base import Context
from tilewise.puzzles import browser as puzzles_browser
from tilewise.puzzles.browser import page_data, texts
from tilewise.puzzles.catalogue import NAMES, named
from tilewise.puzzles.judging import judge
from tilewise.puzzles.output import PuzzleOutput
from tilewise.simulator.browser import sentences, stepping
from tilewise.simulator.browser.layout import layout
from tilewise.simulator.engine.machine import prepare_wasm
from tilewise.site.frontend import build_assets
from tilewise.site.play.page import compiler_meta
from tilewise.site.play.server import PlayServer

from .conftest import ROOT
from .test_play import paste

PAGE = """<!doctype html><title>…</title><link rel="icon" href="data:,">
<script type="importmap">{"imports": {"tilewise-sentences": "./sentences.js",
  "tilewise-stepping": "./stepping.js", "tilewise-judging": "./judging.js"}}</script>
<script type="module" src="judged.js"></script>"""
NO_PROGRAM = ("does not compile", "The puzzle launches", "left nothing of")
"""In what is said of answers that are turned down before they run."""
TAKEN = ("name", "parameters")
"""What a program must have in common with the puzzle's."""


def said(name: str) -> dict[str, str]:
    """What the command says of each wrong answer, by title."""
    text = (WRONG / f"{name}.said.txt").read_text(encoding="utf-8")
    entries = re.split(r"^=== ", text, flags=re.MULTILINE)[1:]
    return {title: message.strip() for title, _, message in (entry.partition("\n") for entry in entries)}


def judged(browser: Browser, address: str, puzzle: object, answers: list[object]) -> list[str]:
    """What the page says of answers to a puzzle."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    page.wait_for_function("document.title === 'ready'")
    found: list[str] = page.evaluate("([puzzle, answers]) => judged(puzzle, answers)", [puzzle, answers])
    context.close()
    return found


@pytest.fixture(scope="module")
def judging_page(served: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("judging")
    (folder / "judged.js").symlink_to(Path(__file__).parent / "judged.js")
    (folder / "run").symlink_to(ROOT / "src/tilewise/site/web/run")
    (folder / "machine.wasm").symlink_to(prepare_wasm())
    (folder / "layout.json").write_text(json.dumps(layout()))
    (folder / "sentences.js").write_text(sentences.script())
    (folder / "stepping.js").write_text(stepping.script())
    (folder / "judging.js").write_text(puzzles_browser.script())
    (folder / "index.html").write_text(PAGE)
    return served(folder)


@pytest.mark.sweep(
    *SIMULATOR,
    "src/tilewise/site/web/run",
    "src/tilewise/kernel/pasted.py",
    "src/tilewise/puzzles/*.py",
    "tests/browser/judged.js",
    packages=["numpy", "ziglang"],
)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.sweep(f"src/tilewise/puzzles/{name}.py", f"tests/puzzles/wrong/{name}.*")
        )
        for name in NAMES
    ],
)
def test_the_page_says_of_every_answer_what_the_command_says(browser, judging_page, name):
    puzzle, told = named(name), said(name)
    data = page_data(puzzle)
    wanted, answers = {}, []
    for wrong in wrong_answers(name):
        made = compiled(wrong.of(puzzle.solution), data["kernel"], options=puzzle.options)
        program = {} if made["faults"] else made["offer"]["kernels"][0]["program"]
        if [program.get(one) for one in TAKEN] != [data["programs"][0][one] for one in TAKEN]:
            assert any(text in told[wrong.title] for text in NO_PROGRAM), wrong.title
            continue
        wanted[wrong.title] = told[wrong.title]
        answers.append({"program": program, "maxThreads": made["offer"]["maxThreads"]})
    for number, text in enumerate(texts(puzzle)):
        try:
            judge(puzzle, text, "answer.cu")
            wanted[f"choice {number}"] = "SOLVED"
        except LessonError as error:
            wanted[f"choice {number}"] = str(error)
        answers.append({"program": data["programs"][number]})
    found = judged(browser, judging_page, data, answers)
    assert dict(zip(wanted, found, strict=True)) == wanted
    solved = [
        text
        for text, verdict in zip(texts(puzzle), found[-len(texts(puzzle)) :], strict=True)
        if verdict == "SOLVED"
    ]
    assert puzzle.solution in solved
    assert len(solved) <= 2, solved


NAME = "kernels/guard"
SOLVED = "Solved. Correct for all 5 sizes and within the budget."


def page_of(output: PuzzleOutput, folder: Path, meta: str = "") -> str:
    """A page with a puzzle's box; its data go into the folder."""

    def add_file(suffix: str, content: bytes) -> str:
        (folder / f"puzzle{suffix}").write_bytes(content)
        return f"assets/puzzle{suffix}"

    panel = output.panel(Context("kernels/puzzles", 1, add_file, lambda wanted: wanted))
    hints = "".join(
        f'<details class="hint"><summary>Hint {at}</summary><p>{escape(one)}</p></details>'
        for at, one in enumerate(output.hints, 1)
    )
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Puzzle</title><link rel="icon" href="data:,">{meta}
<link rel="stylesheet" href="assets/tilewise.css"></head>
<body data-md-color-scheme="default"><main class="md-typeset"><article class="md-content__inner">
<div class="admonition exercise puzzle"><p class="admonition-title">{NAME}</p>{panel}{hints}</div>
</article></main><script src="assets/tilewise.js"></script></body></html>"""


@pytest.fixture(scope="module")
def guard() -> PuzzleOutput:
    return shown(NAME)


@pytest.fixture(scope="module")
def static_site(
    chromium: str,
    served: Callable[[Path], str],
    tmp_path_factory: pytest.TempPathFactory,
    guard: PuzzleOutput,
) -> str:
    folder = tmp_path_factory.mktemp("static")
    shutil.copytree(build_assets(ROOT), folder / "assets")
    (folder / "index.html").write_text(page_of(guard, folder / "assets"), encoding="utf-8")
    return served(folder)


@pytest.fixture(scope="module")
def compiling_server(
    chromium: str, tmp_path_factory: pytest.TempPathFactory, guard: PuzzleOutput
) -> Iterator[str]:
    assets = tmp_path_factory.mktemp("compiling") / "assets"
    shutil.copytree(build_assets(ROOT), assets)
    server = PlayServer(assets, 0)
    server.html = page_of(guard, assets, compiler_meta("/compile", server.requests.token)).encode()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.address
    server.shutdown()
    server.server_close()


@pytest.fixture
def opened(open_at: Callable[..., Page]) -> Callable[..., Page]:
    """``opened(address, width)`` is a page with its puzzle open; a fault of its own fails the test."""

    def open_one(address: str, width: int = 1440, **options: object) -> Page:
        page = open_at(address, width, **options)
        page.get_by_role("button", name="Solve it here").click()
        expect(page.get_by_role("button", name="Check")).to_be_visible(timeout=20_000)
        return page

    return open_one


def choose(page: Page, *texts: str) -> None:
    menus = page.locator(".tw-solve-code select")
    expect(menus).to_have_count(len(texts))
    for at, text in enumerate(texts):
        menus.nth(at).select_option(label=text)


def verdict(page: Page) -> Locator:
    return page.locator(".tw-solve-verdict")


INDEX, FORMULA = "blockIdx.x * blockDim.x + threadIdx.x", "2.0f * a[i] + b[i]"


def test_nothing_of_a_puzzle_is_fetched_before_it_is_opened(open_at, faults, static_site):
    page = open_at(static_site)
    expect(page.get_by_role("button", name="Solve it here")).to_be_visible()
    page.wait_for_timeout(500)
    assert not [
        url for url in faults.requests if re.search(r"solve\.js|puzzle\.json|run_worker|machine", url)
    ]


def test_a_puzzle_is_solved_wrong_and_then_right_on_a_phone(opened, static_site):
    page = opened(static_site, 390, has_touch=True)
    check = page.get_by_role("button", name="Check")
    check.tap()
    expect(verdict(page)).to_contain_text("This blank is still empty.")
    choose(page, INDEX, "i <= n", FORMULA)
    check.tap()
    expect(verdict(page)).to_contain_text("out of bounds: thread 232 of block 3 reads a[1000]")
    expect(verdict(page)).to_contain_text("Launched with n = 1,000, 4 blocks of 256 threads.")
    expect(page.locator(".tw-solve-fault")).to_contain_text("out[i] =")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    choose(page, INDEX, "threadIdx.x < n", FORMULA)
    expect(verdict(page)).to_have_text("")
    choose(page, "threadIdx.x", "i < n", FORMULA)
    check.tap()
    expect(verdict(page)).to_contain_text("wrong value: out[256] is nan, but should be")
    choose(page, INDEX, "i < n", FORMULA)
    check.tap()
    expect(verdict(page)).to_contain_text(SOLVED)
    expect(verdict(page).locator("tbody tr").first).to_have_text("sectors loaded250250")
    expect(verdict(page).get_by_role("link", name="kernels/mirror")).to_have_attribute(
        "href", "#solve-kernels-mirror"
    )
    expect(page.locator(".admonition-title")).to_contain_text("solved")
    page.reload()
    expect(page.locator(".admonition-title")).to_contain_text("solved")
    page.get_by_role("button", name="Solve it here").tap()
    chosen = page.locator(".tw-solve-code select option:checked")
    expect(chosen).to_have_text([INDEX, "i < n", FORMULA])


def test_a_puzzle_is_solved_by_keyboard_and_hints_open_one_by_one(opened, static_site):
    page = opened(static_site)
    page.get_by_role("combobox", name="Blank 1 of 3").focus()
    for text in (INDEX, "i < n", FORMULA):
        page.keyboard.type(text, delay=5)
        page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Check")).to_be_focused()
    page.keyboard.press("Enter")
    expect(verdict(page)).to_contain_text(SOLVED)
    for number in (1, 2, 3):
        page.get_by_role("button", name=f"Hint {number} of 3").press("Enter")
        expect(page.locator("details.hint[open]")).to_have_count(number)
    page.reload()
    page.get_by_role("button", name="Solve it here").press("Enter")
    expect(page.get_by_role("button", name="Hint 3 of 3")).to_be_visible()
    page.get_by_role("button", name="Start over").press("Enter")
    expect(page.locator(".tw-solve-code select option:checked")).to_have_text(["choose …"] * 3)


def test_a_wrong_answer_is_stepped_through_at_the_size_that_fails(opened, static_site):
    page = opened(static_site)
    choose(page, INDEX, "threadIdx.x < n", FORMULA)
    page.get_by_role("button", name="Check").click()
    expect(verdict(page)).to_contain_text("out of bounds")
    page.get_by_role("button", name="Step through it").click()
    expect(page.locator(".tw-figure")).to_have_attribute("data-state", "drawn")
    choose(page, INDEX, "i < n", FORMULA)
    expect(page.locator(".tw-figure")).to_have_count(0)


def test_judging_can_be_stopped(opened, static_site):
    page = opened(static_site, 390, has_touch=True)
    held: list[Route] = []
    page.route("**/machine.wasm", lambda route: held.insert(0, route))  # so judging does not end
    choose(page, INDEX, "i < n", FORMULA)
    check = page.get_by_role("button", name="Check")
    check.tap()
    expect(verdict(page)).to_contain_text("Judging …")
    verdict(page).get_by_role("button", name="Stop").tap()
    expect(verdict(page)).to_have_text("Stopped.")
    page.unroute("**/machine.wasm")
    check.tap()
    expect(verdict(page)).to_contain_text(SOLVED)


def test_without_a_compiler_there_is_no_editor(opened, static_site):
    page = opened(static_site)
    expect(page.locator(".tw-solve-code")).to_be_visible()
    expect(page.get_by_role("button", name="Write it")).to_have_count(0)


def test_a_puzzle_is_written_wrong_then_right_and_the_text_is_kept(opened, compiling_server, guard):
    page = opened(compiling_server)
    text = page.get_by_role("textbox", name="CUDA text of twice_and_add")
    expect(text).to_contain_text("Your code:")
    expect(page.locator(".tw-solve-code")).not_to_be_visible()
    check = page.get_by_role("button", name="Check")
    check.click()
    expect(verdict(page)).to_contain_text("The gaps are still empty.")
    for wrong, message in {
        guard.solution.replace("i < n", "i <= n"): "out of bounds: thread 232 of block 3 reads a[1000]",
        guard.solution.replace("+ threadIdx.x;", "+ threadIdx.x"): "Expected ';' at end of declaration",
        guard.solution.replace(
            "float* out, int n", "float* out, long n"
        ): "The puzzle launches twice_and_add(",
        "int x;": "kernel",
    }.items():
        paste(page, wrong, "CUDA text of twice_and_add")
        page.keyboard.press("Control+Enter")
        expect(verdict(page)).to_contain_text(message)
    paste(page, guard.solution, "CUDA text of twice_and_add")
    check.click()
    expect(verdict(page)).to_contain_text(SOLVED)
    page.reload()
    page.get_by_role("button", name="Solve it here").click()
    expect(text).to_contain_text("if (i < n)")
    page.get_by_role("button", name="Fill in the blanks").click()
    expect(page.locator(".tw-solve-code")).to_be_visible()
    expect(text).not_to_be_visible()


def test_a_text_that_is_changed_or_stopped_while_it_compiles_is_not_judged(opened, compiling_server, guard):
    page = opened(compiling_server)
    held: list[Route] = []
    page.route("**/compile", lambda route: held.insert(0, route))
    for stop in (lambda: page.keyboard.type(" "), verdict(page).get_by_role("button", name="Stop").click):
        paste(page, guard.solution, "CUDA text of twice_and_add")
        page.keyboard.press("Control+Enter")
        expect(verdict(page)).to_contain_text("Compiling …")
        expect(verdict(page).get_by_role("button", name="Stop")).to_be_visible()
        stop()
        said = verdict(page).inner_text()
        assert said in ("", "Stopped.")
        with page.expect_response("**/compile"):
            held.pop().continue_()
        page.wait_for_timeout(500)
        expect(verdict(page)).to_have_text(said)
    page.unroute("**/compile")
    page.get_by_role("button", name="Check").click()
    expect(verdict(page)).to_contain_text(SOLVED)


def test_a_hostile_text_is_data(opened, compiling_server):
    page = opened(compiling_server)
    hostile = """#include "/etc/passwd"
extern "C" __global__ void twice_and_add(const float* a, const float* b, float* out, int n) {
    <img src=x onerror=alert(1)> `<script>alert(1)</script>` }"""
    paste(page, hostile, "CUDA text of twice_and_add")
    page.keyboard.press("Control+Enter")
    expect(verdict(page).locator("li").first).to_be_visible(timeout=20_000)
    assert verdict(page).locator("img, script").count() == 0
    assert "root:" not in verdict(page).inner_text()
    endless = """extern "C" __global__ void twice_and_add(const float* a, const float* b, float* out, int n) {
    volatile float* seen = out;
    while (seen[0] != 1.0f) seen[threadIdx.x] = 2.0f; }"""
    paste(page, endless, "CUDA text of twice_and_add")
    page.keyboard.press("Control+Enter")
    expect(verdict(page)).to_contain_text(re.compile("race|steps"), timeout=60_000)


def test_a_browser_that_holds_nonsense_still_opens_the_puzzle(open_context, static_site):
    page = open_context().new_page()
    page.goto(static_site)
    for kept in (
        "[1",
        '{"kernels/guard": 5}',
        '{"kernels/guard": {"picks": "<b>", "hints": "x", "text": 7}}',
    ):
        page.evaluate("(kept) => localStorage.setItem('tilewise:puzzles', kept)", kept)
        page.reload()
        page.get_by_role("button", name="Solve it here").click()
        choose(page, INDEX, "i < n", FORMULA)
        page.get_by_role("button", name="Check").click()
        expect(verdict(page)).to_contain_text(SOLVED)


def test_a_puzzle_that_cannot_be_fetched_says_so(open_context, static_site):
    page = open_context().new_page()
    page.route("**/puzzle.json", lambda route: route.abort())
    page.goto(static_site)
    page.get_by_role("button", name="Solve it here").click()
    expect(page.get_by_role("alert")).to_contain_text("could not be fetched")
    page.unroute("**/puzzle.json")
    page.get_by_role("button", name="Solve it here").click()
    expect(page.get_by_role("button", name="Check")).to_be_visible()
