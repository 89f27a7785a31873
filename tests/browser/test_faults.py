"""What a page says when something cannot be fetched, and how it goes on."""

import pytest
from playwright.sync_api import expect

GRIDS = "lessons/kernels/grids/"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            lambda route: route.abort(),
            "could not be fetched: the server does not answer. Check the connection.",
        ),
        (
            lambda route: route.fulfill(status=404),
            "not on the server (404). If the site was built anew, reload",
        ),
        (lambda route: route.fulfill(body='{"kind":'), "arrived incomplete. Check the connection."),
    ],
    ids=["no answer", "not there", "cut short"],
)
def test_a_figure_whose_data_fail_says_why_and_tries_again(open_context, site, fault, said):
    page = open_context().new_page()
    page.route("**/assets/figures/*.json", fault)
    page.goto(site + GRIDS)
    figure = page.locator(".tw-figure[data-figure]").first
    figure.scroll_into_view_if_needed()
    expect(figure).to_have_attribute("data-state", "failed")
    expect(figure.locator(".tw-figure-note")).to_contain_text(said)
    page.unroute("**/assets/figures/*.json")
    figure.get_by_role("button", name="Try again").click()
    expect(figure).to_have_attribute("data-state", "drawn")


def test_a_dialog_that_cannot_be_fetched_says_so_and_loses_nothing(open_context, site):
    page = open_context().new_page()
    page.route("**/feedback.js", lambda route: route.abort())
    page.goto(site + GRIDS)
    box = page.locator(".tw-feedback textarea")
    box.fill("Words")
    page.locator(".tw-feedback [data-do=open]").click()
    expect(page.locator(".tw-feedback-note")).to_contain_text("could not be fetched. Check the connection")
    expect(box).to_have_value("Words")
