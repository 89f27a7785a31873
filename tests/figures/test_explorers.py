"""The explorers' specifications and texts: block grid, timeline."""

import pytest

from tilewise.figures import Span, block_grid, timeline

WORDS = {"title": "A statement", "caption": "What it shows."}


def test_the_block_grid_of_a_small_launch():
    figure = block_grid((2, 1), (2, 2), extent=(3, 2), axes=("col", "row"), **WORDS)
    assert figure.to_dict() == {
        "kind": "block_grid",
        "title": "A statement",
        "caption": "What it shows.",
        "alt": "A grid of 2 blocks, each of 2 by 2 threads: 2 blocks, 8 threads, 1 warp in each block. "
        "The problem has 3 by 2 cells: 6 threads work, 2 are idle.",
        "height": 518,
        "narrow_height": 768,
        "spec": {
            "grid": [2, 1, 1],
            "block": [2, 2, 1],
            "extent": [3, 2, 1],
            "axes": ["col", "row", "z"],
            "view": "2d",
            "most": {"grid": [8, 4, 3], "block": [16, 8, 4], "extent": [20, 12, 6]},
            "max_threads": 1024,
        },
        "steps": [
            "Block (0, 0): col 0 to 1, row 0 to 1; 0 of 4 threads idle.",
            "Block (1, 0): col 2 to 3, row 0 to 1; 2 of 4 threads idle.",
        ],
    }


def test_a_block_of_too_many_threads_is_refused():
    with pytest.raises(ValueError, match="at most 1024 threads"):
        block_grid(1, (64, 32), **WORDS)


def test_a_large_grid_says_its_first_blocks():
    figure = block_grid(1000, 32, **WORDS)
    assert figure.steps[63:] == ("Block (63): x 2016 to 2047.", "936 more blocks follow in the same order.")


def test_a_timeline_orders_its_text_by_start():
    figure = timeline(
        [("device", 1.5, 3.0, "kernel", "measured"), Span("host", 0, 1, "launch")], unit="µs", **WORDS
    )
    assert figure.steps == (
        "host: launch, from 0 to 1 µs (1 µs).",
        "device: kernel, from 1.5 to 3 µs (1.5 µs).",
    )
    assert figure.spec["rows"] == ["device", "host"]
    assert figure.spec["moments"] == [0, 1, 1.5, 3]


def test_a_span_that_ends_before_it_starts_is_refused():
    with pytest.raises(ValueError, match="'launch' ends at 1, before it starts at 2"):
        timeline([("host", 2, 1, "launch")], unit="µs", **WORDS)
