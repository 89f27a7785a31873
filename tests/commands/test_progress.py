"""Progress on a terminal, where there is a bar, and in a file, where there is none."""

from __future__ import annotations

import io

import pytest

from tilewise.commands.progress import Display


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_bar_stands_below_the_lines_and_says_how_much_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    stream, clock = Terminal(), Clock()
    display = Display(stream, 4, clock)
    display.begin("kernels/grids: mirror")
    clock.now_s = 20.0
    display.tick(0.5)
    assert display.bar() == "[###.....................] 0 of 4, about 2 min 20 s left kernels/grids: mirror"
    assert stream.getvalue().endswith(f"\r\x1b[2K{display.bar()}")
    display("  one line more")
    above, _, below = stream.getvalue().rpartition("\n")
    assert above.endswith("  one line more"), "the bar is wiped before a line and drawn again below it"
    assert below == f"\r\x1b[2K{display.bar()}"
    display.end()
    display.close()
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_the_bar_is_no_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    Display(stream, 4, Clock()).begin("a name that is much longer than the terminal is wide")
    assert all(len(part.rpartition("\x1b[2K")[2]) < 40 for part in stream.getvalue().split("\n")[-1:])


def test_it_is_drawn_ten_times_a_second_at_most() -> None:
    stream, clock = Terminal(), Clock()
    display = Display(stream, 1, clock)
    display.begin("x")
    before = len(stream.getvalue())
    for share in range(50):
        display.tick(share / 50)
    assert len(stream.getvalue()) == before


def test_a_file_gets_plain_lines_that_count() -> None:
    stream = io.StringIO()
    display = Display(stream, 2)
    for name in ("vec_add", "mirror"):
        display.begin(name)
        display.tick(0.5)
        display.end()
    display.close()
    lines = [line[9:] for line in stream.getvalue().splitlines()]
    assert lines == ["(1 of 2) vec_add", "(2 of 2) mirror"]
    assert "\x1b" not in stream.getvalue()
    assert "\r" not in stream.getvalue()
