"""The road map: addresses of the right form, none twice, and a place in the course for each of them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

PAGE = (Path(__file__).parent.parent / "docs" / "road-map.md").read_text(encoding="utf-8")
ADDRESSES = re.findall(r"\]\((https?:[^)]*)\)", PAGE)


def test_addresses_have_the_right_form_and_stand_once() -> None:
    assert len(ADDRESSES) >= 20
    for address in ADDRESSES:
        parts = urlsplit(address)
        assert parts.scheme == "https" and "." in parts.netloc and parts.path, address
        assert not parts.query and not re.search(r"\s", address), address
    bare = [
        re.sub(r"^www\.", "", address.removeprefix("https://")).rstrip("/").lower() for address in ADDRESSES
    ]
    assert len(set(bare)) == len(bare)


def test_each_row_names_what_it_is_good_for_and_a_place_in_the_course() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    assert len(rows) >= 20
    for row in rows:
        what, good_for, beside = (cell.strip() for cell in row.strip("|").split(" | "))
        assert what and good_for
        assert beside == "the whole course" or re.search(r"\]\((lessons/\S+\.py|[\w-]+\.md)", beside), row


def test_the_page_says_of_when_it_is() -> None:
    assert re.search(r"those of [A-Z][a-z]+ 20\d\d", PAGE)
