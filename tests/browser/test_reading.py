"""What a reader does on a page: tabs, folds, copying, notes, themes, print; also without script."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

ROOT = Path(__file__).parent.parent.parent
FIRST, GRIDS, SERIAL = (f"lessons/kernels/{name}/" for name in ("first_kernel", "grids", "serial_attention"))


def chosen_tabs(page: Page) -> set[str]:
    """The names of the tabs that are shown in sets with both pseudocode and CUDA."""
    return set(
        page.evaluate(
            """() => [...document.querySelectorAll(".tabbed-set")]
                .filter((set) => set.querySelector(".tabbed-labels").innerText.includes("Pseudocode"))
                .map((set) => {
                    const inputs = [...set.querySelectorAll(":scope > input")];
                    const labels = set.querySelectorAll(":scope > .tabbed-labels > label");
                    return labels[inputs.findIndex((input) => input.checked)].innerText.trim();
                })"""
        )
    )


def tab(page: Page, name: str) -> Locator:
    return page.locator(".tabbed-labels > label", has_text=re.compile(f"^{re.escape(name)}$")).first


def test_a_chosen_tab_is_chosen_on_every_page_and_visit(page, site):
    page.goto(site + FIRST)
    assert chosen_tabs(page) == {"CUDA C"}
    tab(page, "Pseudocode").click()
    assert chosen_tabs(page) == {"Pseudocode"}
    page.locator(".md-footer__link--next").click()
    expect(page.locator("article h1")).to_contain_text("Grids")
    expect(page.locator(".tabbed-block:visible .tw-code").first).to_be_visible()
    assert chosen_tabs(page) == {"Pseudocode"}


def test_the_kernel_and_its_pseudocode_stand_beside_each_other_where_there_is_room(page, site):
    page.goto(site + FIRST)
    blocks = page.locator(".tabbed-set").first.locator(".tabbed-content > .tabbed-block")
    expect(blocks.nth(1)).to_be_visible()
    kernel, pseudocode = (blocks.nth(at).locator("pre > code").first for at in (0, 1))
    one, other = kernel.bounding_box(), pseudocode.bounding_box()
    assert one and other and one["x"] + one["width"] <= other["x"]
    for code in (kernel, pseudocode):
        assert code.evaluate("code => code.scrollWidth <= code.clientWidth + 1"), "a line is cut"
    page.set_viewport_size({"width": 1000, "height": 900})
    expect(blocks.nth(0)).to_be_visible()
    expect(blocks.nth(1)).to_be_hidden()
    tab(page, "Pseudocode").click()
    expect(blocks.nth(0)).to_be_hidden()
    expect(blocks.nth(1)).to_be_visible()


@pytest.mark.parametrize("width", [1440, 1240, 1024])
def test_no_name_of_a_tab_is_cut_on_a_screen(page, site, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(site + "lessons/toolbox/front_ends/")
    names = page.locator(".tabbed-labels")
    expect(names.first.locator("label")).to_have_count(5)
    page.wait_for_load_state("networkidle")
    assert names.evaluate_all("all => all.filter((one) => one.scrollWidth > one.clientWidth).length") == 0


def test_the_folds_under_an_output_are_one_line_and_open_in_place(page, site):
    page.goto(site + FIRST)
    line = page.locator("article .tw-measurement > .tw-folds:has(> details:nth-child(3))").first
    summaries = line.locator("> details > summary")
    assert any(said.startswith("Recorded on NVIDIA H") for said in summaries.all_inner_texts())

    def tops() -> list[int]:
        """Where each title begins, in whole pixels."""
        return summaries.evaluate_all("all => all.map((one) => Math.round(one.getBoundingClientRect().y))")

    assert len(set(tops())) == 1
    summaries.first.focus()
    page.keyboard.press("Enter")
    fold = line.locator("> details").first
    expect(fold).to_have_js_property("open", True)
    assert len(set(tops())) == 1, "what opens pushes no entry away"
    inside = fold.locator("> :nth-child(2)").bounding_box()
    assert inside and inside["y"] > tops()[0]


def test_the_checks_of_a_page_are_one_badge_that_opens_their_list(page, site):
    page.goto(site + FIRST)
    badge = page.locator("article details.tw-checks")
    checks = badge.locator("ul").first.locator("li")
    badge.locator("summary").click()
    expect(checks.first).to_be_visible()
    expect(badge.locator("summary")).to_have_text(
        re.compile(rf"^✓\s+{checks.count()} checks? passed in this build$")
    )
    assert page.locator("article .tw-check").count() == 0
    checks.first.locator("a").last.click()
    page.wait_for_function("location.hash && document.querySelector(location.hash).matches('h2, h3')")


def test_folds_are_closed_and_open_by_click_and_by_key(page, site):
    page.goto(site + FIRST)
    folds = page.locator("article details.code")
    assert folds.count() >= 3
    assert page.locator("article details[open]").count() == 0
    folds.nth(0).locator("summary").click()
    expect(folds.nth(0)).to_have_js_property("open", True)
    folds.nth(1).locator("summary").focus()
    page.keyboard.press("Enter")
    expect(folds.nth(1)).to_have_js_property("open", True)


def test_a_link_to_a_term_opens_its_definition(page, site):
    page.goto(site + FIRST)
    link = page.locator("article a.tw-term").first
    target = link.get_attribute("href").partition("#")[2]
    fold = page.locator("details", has=page.locator(f'[id="{target}"]'))
    expect(fold).to_have_js_property("open", False)
    link.click()
    expect(fold).to_have_js_property("open", True)
    expect(page.locator(f'[id="{target}"]')).to_be_in_viewport()


def test_an_address_that_points_into_a_fold_opens_it(page, site):
    page.goto(site + FIRST)
    target = page.locator("article details.tw-provenance dl.tw-provenance-list").last.get_attribute("id")
    page.goto("about:blank")
    page.goto(f"{site}{FIRST}#{target}")
    fold = page.locator("details", has=page.locator(f'[id="{target}"]')).last
    expect(fold).to_have_js_property("open", True)
    expect(page.locator(f'[id="{target}"]')).to_be_in_viewport()


def test_copy_takes_the_source_alone(open_context, site):
    context = open_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(site + FIRST)
    tab(page, "CUDA C").click()
    listing = page.locator(".tw-kernel:visible").first
    listing.scroll_into_view_if_needed()
    listing.hover()
    listing.locator('[data-md-type="copy"]').first.click()
    page.wait_for_function("navigator.clipboard.readText().then((text) => text.includes('__global__'))")
    copied = page.evaluate("navigator.clipboard.readText()")
    lesson = (ROOT / "lessons" / "kernels" / "first_kernel.py").read_text()
    assert "__global__" in copied
    assert copied.strip() in lesson
    assert copied.rstrip().endswith("}")


def test_copied_formulas_are_the_tex_that_was_written(open_context, site):
    page = open_context(permissions=["clipboard-read", "clipboard-write"]).new_page()
    page.goto(site + SERIAL)
    lesson = (ROOT / "lessons" / "kernels" / "serial_attention.py").read_text()

    def copied(selector: str) -> str:
        page.evaluate(
            """selector => getSelection().selectAllChildren(document.querySelector(selector))""", selector
        )
        page.evaluate("navigator.clipboard.writeText('')")
        page.keyboard.press("Control+c")
        page.wait_for_function("navigator.clipboard.readText().then((text) => text !== '')")
        return page.evaluate("navigator.clipboard.readText()")

    block = copied("article div.tw-math").strip()
    assert block.startswith("$$") and block.endswith("$$")
    lines = [line.strip() for line in block.strip("$").splitlines()]
    assert all(f"# {line}" in lesson for line in lines if line)
    sentence = copied("article > p:has(span.tw-math)")
    assert re.search(r"\$[^$]+\$", sentence)
    words = " ".join(sentence.split())
    assert words[:60] in re.sub(r"\s*\n# ", " ", lesson)


def test_light_and_dark_differ_and_the_choice_lasts(open_context, site):
    page = open_context(color_scheme="light").new_page()
    page.goto(site + FIRST)
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.locator("label[title='Switch to the dark theme'], label[for^=__palette]:visible").first.click()
    page.wait_for_function("() => document.body.dataset.mdColorScheme === 'slate'")
    dark = page.evaluate(paper)
    assert light != dark
    page.reload()
    page.wait_for_function("() => document.body.dataset.mdColorScheme === 'slate'")
    assert page.evaluate(paper) == dark


def boxes(page: Page) -> list[dict[str, float]]:
    """Where each visible note stands, and its mark, in page coordinates."""
    return page.evaluate(
        """() => [...document.querySelectorAll(".footnote > ol > li:not([hidden])")].map((note) => {
            const marks = [...document.querySelectorAll("a.footnote-ref")];
            const mark = marks.find((each) => each.hash === "#" + note.id);
            const [a, b] = [note.getBoundingClientRect(), mark.getBoundingClientRect()];
            const text = mark.closest("p, li").getBoundingClientRect();
            return { top: a.top + scrollY, bottom: a.bottom + scrollY, left: a.left, right: a.right,
                     mark: b.top + scrollY, end: text.right };
        })"""
    )


def test_notes_stand_in_the_margin_of_a_wide_screen(page, site):
    page.goto(site + FIRST)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(300)
    notes = boxes(page)
    assert notes
    assert all(note["left"] >= note["end"] and note["right"] <= 1440 for note in notes)
    free = 0.0
    for note in notes:
        assert note["top"] >= free, "two notes overlap"
        # Beside code that reaches into the margin a note goes above or below it.
        assert abs(note["top"] - max(note["mark"], free)) < 200, "a note stands away from its mark"
        free = note["bottom"]


def test_note_and_mark_lead_to_each_other_by_keyboard(open_context, site):
    page = open_context(viewport={"width": 400, "height": 900}).new_page()
    page.goto(site + FIRST)
    page.wait_for_load_state("networkidle")
    mark = page.locator("a.footnote-ref").first
    mark.focus()
    page.wait_for_timeout(300)  # Material notes where the page stands a moment after it has scrolled there
    page.keyboard.press("Enter")
    note = page.locator(".footnote > ol > li").first
    expect(note).to_be_in_viewport()
    page.wait_for_function("id => location.hash === `#${id}`", arg=note.get_attribute("id"))
    page.keyboard.press("Tab")
    back = page.evaluate("document.activeElement.closest('li')?.id")
    assert back == note.get_attribute("id")
    note.locator(".footnote-backref").focus()
    page.wait_for_timeout(300)
    page.keyboard.press("Enter")
    expect(mark).to_be_in_viewport()
    page.wait_for_function("location.hash.startsWith('#fnref')")


def test_print_opens_folds_and_shows_every_tab(page, site):
    page.goto(site + FIRST)
    page.wait_for_load_state("networkidle")
    page.locator("article details.code summary").first.click()
    opened = page.locator("article details[open]").count()
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("article details:not([open])").count() == 0
    blocks = page.locator("article .tabbed-block")
    assert blocks.count() >= 2
    assert all(
        block.is_visible() for block in blocks.all() if block.evaluate("b => b.textContent.trim() !== ''")
    )
    assert not page.locator(".md-header").is_visible()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.locator("article details[open]").count() == opened


def lit(page: Page) -> dict[str, list[str]]:
    """The lines that are lit, by tab, shown or not."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".tabbed-set")][0]
            .querySelectorAll(".tabbed-block").values().map((block) => [
                block.dataset.tab,
                [...block.querySelectorAll(".tw-paired")].map((line) => line.textContent.trim())
                    .filter(Boolean),
            ]))"""
    )


SOFTMAX = {
    "Pseudocode": ["for j in range(N):", "row_sum += np.exp(S[i, j] - row_max)"],
    "CUDA C": ["for (int j = 0; j < N; ++j) row_sum += expf(S[i * N + j] - row_max);"],
}


def test_a_region_is_reached_by_key_and_enter_turns_to_its_lines_in_the_other_tab(page, site):
    page.set_viewport_size({"width": 1000, "height": 900})  # too narrow for both tabs at once
    page.goto(site + SERIAL)
    page.wait_for_load_state("networkidle")
    first = page.locator(".tabbed-block:visible [data-regions] span[tabindex='0']")
    assert first.count() == 5
    first.nth(2).focus()
    assert lit(page) == SOFTMAX
    assert "Pseudocode" in (first.nth(2).get_attribute("aria-description") or "")
    page.keyboard.press("Enter")
    assert chosen_tabs(page) == {"Pseudocode"}
    assert lit(page) == SOFTMAX
    assert page.evaluate("document.activeElement.textContent.trim()") == SOFTMAX["Pseudocode"][0]
    page.locator(".tw-turn").click()
    assert chosen_tabs(page) == {"CUDA C"}
    assert lit(page) == SOFTMAX
