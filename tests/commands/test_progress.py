"""Progress of a recording: lines that count, and say how much time is left."""

from __future__ import annotations

import io

from tilewise.commands.progress import Display


def test_lines_count() -> None:
    stream = io.StringIO()
    display = Display(stream, 2)
    for name in ("vec_add", "mirror"):
        display.begin(name)
        display.end()
    assert [line[9:] for line in stream.getvalue().splitlines()] == ["(1 of 2) vec_add", "(2 of 2) mirror"]


def test_what_is_left_is_corrected_by_what_the_first_took() -> None:
    stream, now_s = io.StringIO(), [0.0]
    display = Display(stream, 2, lambda: now_s[0], {"a": 60.0, "b": 30.0})
    display.begin("a")
    now_s[0] = 120.0
    display.end()
    display.begin("b")
    lines = [line[9:] for line in stream.getvalue().splitlines()]
    assert lines == ["(1 of 2) a, about 1 min 30 s left", "(2 of 2) b, about 1 min 00 s left"]
