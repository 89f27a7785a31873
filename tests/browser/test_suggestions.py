"""Suggesting a change: from a selection or the box at a page's end, by hand and key, nothing unasked."""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, expect

ROOT = Path(__file__).parent.parent.parent
SERIAL = "lessons/kernels/serial_attention/"
QUOTE = "The scores and the weighted sum do the same"
REPOSITORY = "https://forge.example/people/course"
SELECT = """([element, from, to]) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const words = element.firstChild;
    if (to) { range.setStart(words, from); range.setEnd(words, to); }
    getSelection().removeAllRanges();
    getSelection().addRange(range);
}"""


def select(page: Page, element: Locator, first: int = 0, last: int = 0) -> str:
    element.scroll_into_view_if_needed()
    page.evaluate(SELECT, [element.element_handle(), first, last])
    return str(page.evaluate("getSelection().toString()"))


def with_repository(page: Page, address: str = REPOSITORY) -> None:
    page.evaluate("at => document.querySelector('.tw-feedback').dataset.repository = at", address)


def sent(page: Page) -> dict[str, str]:
    """What the link would send: title and text, and the address before them."""
    link = urlsplit(page.locator("dialog a.tw-act-main").get_attribute("href") or "")
    return {name: values[0] for name, values in parse_qs(link.query).items()} | {
        "at": f"{link.scheme}://{link.netloc}{link.path}"
    }


def open_from_box(page: Page, text: str) -> Locator:
    page.locator(".tw-feedback textarea").fill(text)
    page.locator(".tw-feedback [data-do=open]").click()
    dialog = page.locator("dialog.tw-dialog")
    expect(dialog).to_be_visible()
    return dialog


def kept(page: Page) -> list[str]:
    return list(page.evaluate("Object.keys(localStorage).filter((name) => name.startsWith('tilewise:'))"))


def test_a_selection_offers_a_suggestion_that_names_page_heading_quote_file_and_line(page, site):
    page.goto(site + SERIAL)
    paragraph = page.locator("article > p", has_text=QUOTE)
    quote = select(page, paragraph, 0, len(QUOTE))
    page.locator(".tw-suggest").click()
    expect(page.locator(".tw-dialog-quote")).to_have_text(quote)
    expect(page.locator("dialog textarea")).to_be_focused()
    page.locator("dialog textarea").fill("Say which of them.")
    preview = page.locator(".tw-dialog-preview").inner_text()
    lines = (ROOT / "lessons/kernels/serial_attention.py").read_text().splitlines()
    line = 1 + next(at for at, text in enumerate(lines) if QUOTE in text)
    assert preview.split("\n") == [
        "Attention with one thread per query: Say which of them.",
        "",
        "- Page: Attention with one thread per query, “Same multiply-adds, different time: sectors”",
        f"- Address: {site}{SERIAL}#same-multiply-adds-different-time-sectors",
        f"- Source: lessons/kernels/serial_attention.py, line {line}",
        "",
        "```text",
        QUOTE,
        "```",
        "",
        "Say which of them.",
    ]


def test_everything_goes_by_keyboard_and_the_focus_comes_back(page, site):
    page.goto(site + SERIAL)
    quote = select(page, page.locator("article > p", has_text=QUOTE), 0, len(QUOTE))
    expect(page.locator(".tw-suggest")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator(".tw-suggest")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("dialog textarea")).to_be_focused()
    page.keyboard.type("Which?")
    for _ in range(12):
        page.keyboard.press("Tab")
        outside = "!document.activeElement.closest('dialog') && document.activeElement !== document.body"
        assert not page.evaluate(outside), "the focus leaves the dialog"
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    assert page.evaluate("getSelection().toString()") == quote
    expect(page.locator(".tw-feedback textarea")).to_have_value("Which?")
    page.locator(".tw-feedback [data-do=open]").press("Enter")
    expect(page.locator("dialog textarea")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".tw-feedback [data-do=open]")).to_be_focused()


def test_hostile_text_stays_text_on_the_page_and_in_the_issue(page, site):
    page.goto(site + SERIAL)
    evil = '<img src=x onerror="window.owned = 1">```\n````<script>window.owned = 1</script>\n&amp;\ud800'
    page.evaluate(
        """text => {
            const paragraph = document.createElement("p");
            paragraph.id = "evil";
            paragraph.textContent = text;
            document.querySelector("article h2").after(paragraph);
        }""",
        evil,
    )
    with_repository(page)
    select(page, page.locator("#evil"))
    page.locator(".tw-suggest").click()
    page.locator("dialog textarea").fill("<svg onload='window.owned = 2'>&title=no#x")
    assert page.evaluate("window.owned") is None
    assert page.locator("dialog :is(img, script, svg)").count() == 0
    what = sent(page)
    assert set(what) == {"title", "body", "at"}
    assert what["body"].endswith("<svg onload='window.owned = 2'>&title=no#x")
    fenced = re.search(r"^(`+)text\n(.*?)\n\1$", what["body"], re.S | re.M)
    assert fenced and len(fenced[1]) == 5 and "<script>" in fenced[2] and "�" in fenced[2]


def test_the_link_opens_a_prefilled_issue_and_nothing_is_sent_before(page, site, faults):
    page.goto(site + SERIAL)
    page.wait_for_load_state("networkidle")
    with_repository(page)
    before = len(faults.requests)
    dialog = open_from_box(page, "Tables & figures: 100 % ü")
    what = sent(page)
    assert what["at"] == f"{REPOSITORY}/issues/new"
    assert what["title"] == "Attention with one thread per query: Tables & figures: 100 % ü"
    assert what["body"].endswith("\n\nTables & figures: 100 % ü")
    assert dialog.locator("a.tw-act-main").get_attribute("rel") == "noopener noreferrer"
    asked = [url.removeprefix(site) for url in faults.requests[before:] if not url.endswith("favicon.svg")]
    assert asked == ["assets/tilewise/feedback.js"]
    assert kept(page) == []


def test_a_draft_survives_a_reload_once_the_reader_keeps_it_and_is_forgotten_on_request(page, site):
    page.goto(site + SERIAL)
    quote = select(page, page.locator("article > p", has_text=QUOTE), 0, len(QUOTE))
    page.locator(".tw-suggest").click()
    page.locator("dialog textarea").fill("Half a thought")
    assert kept(page) == [], "something was stored without a click"
    page.locator("dialog").get_by_role("button", name="Keep a draft").click()
    page.locator("dialog textarea").fill("Half a thought, and more")
    page.reload()
    box = page.locator(".tw-feedback textarea")
    expect(box).to_have_value("Half a thought, and more")
    page.locator(".tw-feedback [data-do=open]").click()
    expect(page.locator(".tw-dialog-quote")).to_have_text(quote)
    page.keyboard.press("Escape")
    page.locator(".tw-feedback").get_by_role("button", name="Forget the draft").click()
    assert kept(page) == []


def test_words_that_are_not_kept_are_not_lost_without_a_question(page, site):
    page.goto(site + SERIAL)
    page.locator(".tw-feedback textarea").click()
    page.keyboard.type("Not kept")
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    with page.expect_event("dialog"):
        page.evaluate("location.reload()")
    assert asked == ["beforeunload"]
    expect(page.locator(".tw-feedback textarea")).to_have_value("Not kept")
    page.locator(".md-footer__link--prev").click()
    expect(page.locator("article h1")).to_contain_text("Puzzles")
    expect(page.locator(".tw-feedback textarea")).to_have_value("")
    page.go_back()
    expect(page.locator(".tw-feedback textarea")).to_have_value("Not kept")
