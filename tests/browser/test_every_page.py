"""Every page: it fits, obeys the policy, and axe-core finds nothing serious.

Five pages are always looked at, on a screen and on a phone; each other page on a phone, where less fits, when
its text or what makes pages has changed.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from .conftest import ROOT, Faults

SIZES = {"screen": (1440, 900), "phone": (360, 740)}
SCHEMES = {"default": None, "slate": ["color-contrast"]}
"""The themes, and the rules of axe for each: the second changes nothing but colours."""
SOURCES = {
    **{
        f"{file.relative_to(ROOT).with_suffix('').as_posix()}/": file
        for file in sorted((ROOT / "lessons").glob("*/*.py"))
    },
    **{
        f"{file.relative_to(ROOT / 'docs').with_suffix('').as_posix()}/".removesuffix("index/"): file
        for file in sorted((ROOT / "docs").rglob("*.md"))
    },
    "404.html": ROOT / "src/tilewise/site/web/overrides/404.html",
}
"""Every page's address, and the file that its text comes from."""
ALWAYS = {
    "",
    "lessons/kernels/first_kernel/",
    "lessons/memory/coalescing/",
    "lessons/attention/hopper/",
    "measurements/",
}
MAKES_PAGES = [f"src/tilewise/{name}" for name in ("build/page", "figures", "outputs", "site")]


def when_changed(address: str) -> pytest.MarkDecorator:
    """The mark of a test that runs when a page's text or what makes pages has changed."""
    return pytest.mark.sweep(
        *MAKES_PAGES,
        text=[SOURCES[address].relative_to(ROOT).as_posix(), "tests/browser/audits/package.json"],
        packages=["mkdocs-material"],
    )


def pages() -> Iterator[Any]:
    """Every page, as a case."""
    for address in SOURCES:
        for size in SIZES if address in ALWAYS else ["phone"]:
            marks = () if address in ALWAYS else when_changed(address)
            yield pytest.param(address, size, id=f"{address or 'front page'}-{size}", marks=marks)


COLLECT = """
    window.broken = [];
    document.addEventListener("securitypolicyviolation", (event) =>
        window.broken.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


def watched(context: BrowserContext, host: str) -> tuple[Page, Faults]:
    """A page that keeps what its policy stopped, and its faults."""
    page, faults = context.new_page(), Faults()
    page.add_init_script(COLLECT)
    faults.watch(page, host)
    return page, faults


def must_be_clean(page: Page, faults: Faults) -> None:
    assert page.evaluate("window.broken") == []
    assert faults.console == []
    assert faults.elsewhere == []


def read_through(page: Page) -> None:
    """Scroll to the end, so that everything that loads late, 1,000 px before it is seen, has loaded."""
    height = page.evaluate("document.documentElement.scrollHeight")
    for top in range(0, height, 2000):
        page.evaluate("top => window.scrollTo({ top, behavior: 'instant' })", top)
        page.wait_for_timeout(60)
    page.wait_for_load_state("networkidle")


def everything_shown(page: Page) -> None:
    """Open every fold, read to the end, wait for the figures."""
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("article .tw-later").count() == 0
    read_through(page)
    for figure in page.locator(".tw-figure[data-figure]").all():
        figure.scroll_into_view_if_needed()
        page.wait_for_function("figure => figure.dataset.state === 'drawn'", arg=figure.element_handle())


COLOURED = {"lessons/kernels/first_kernel/", "lessons/toolbox/machine_code/"}
LEAVE_FEW = """(coloured) => {
  document.querySelectorAll("article tbody tr:nth-child(n+5)").forEach((row) => row.remove());
  if (coloured) return;
  document.querySelectorAll(".highlight code").forEach((code) => (code.textContent = code.textContent));
}"""
"""Rows of tables and coloured words of code are most of a long page, and alike: of rows four are left, and
colours on two pages, which have every kind of them."""


def serious_faults(page: Page, axe: str, only: list[str] | None = None) -> list[str]:
    """What axe calls serious or critical, one line for each element; by all its rules, or some."""
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(axe)
    options = {"resultTypes": ["violations"], **({"runOnly": only} if only else {})}
    results: list[dict[str, Any]] = page.evaluate(
        "async (options) => (await axe.run(options)).violations", options
    )
    return [
        f"{found['id']}: {node['html'][:200]} {node['failureSummary'].splitlines()[-1].strip()[:160]}"
        for found in results
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"]
    ]


@pytest.mark.parametrize(("address", "size"), list(pages()))
def test_a_page_fits_obeys_the_policy_and_has_no_serious_fault(
    open_context,
    site,
    axe,
    address,
    size,
):
    width, height = SIZES[size]
    context = open_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
    page, faults = watched(context, site)
    page.goto(site + address)
    hidden = "(headings) => headings.filter((one) => !one.checkVisibility()).map((one) => one.id)"
    assert page.locator("article h2").evaluate_all(hidden) == []
    everything_shown(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if size == "phone" and address.startswith("lessons/"):
        wide = "(all) => all.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.innerText)"
        assert page.locator("article .tw-table").evaluate_all(wide) == []
    must_be_clean(page, faults)
    page.evaluate(LEAVE_FEW, address in COLOURED)
    found = {}
    for scheme, rules in SCHEMES.items():
        page.evaluate("name => document.body.setAttribute('data-md-color-scheme', name)", scheme)
        page.wait_for_timeout(150)
        found[scheme] = serious_faults(page, axe, rules)
    assert found == {scheme: [] for scheme in SCHEMES}


def test_these_are_all_pages(built):
    made = {path.relative_to(built).as_posix() for path in built.rglob("*.html")}
    beside = {name for name in made if re.search(r"(^|/)(folded|rows-[0-9a-f]+)\.html$", name)}
    assert {address.removesuffix("index.html") for address in made - beside} == set(SOURCES)
    assert {name.rpartition("/")[0] + "/index.html" for name in beside} <= made
    assert set(SOURCES) >= ALWAYS
