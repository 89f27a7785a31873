"""What lasts is mentioned on the terminal again and again; what is short, or rests, is not."""

import time

from tilewise.build.progress import Progress, lessons_text


def test_what_lasts_is_mentioned_with_how_long():
    said: list[str] = []
    progress = Progress(said.append, often_s=0.05)
    with progress.during("Bundling"), progress.during(lambda: "Running"):
        deadline = time.monotonic() + 20
        while len(said) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
    assert said[0] == "Bundling (0 s); Running (0 s)"
    assert len(said) >= 3
    before = len(said)
    time.sleep(0.15)
    assert len(said) <= before + 1


def test_the_lessons_are_counted_and_the_running_named():
    assert lessons_text(40, 40, ()) == ""
    assert lessons_text(12, 40, ()) == "Running lessons: 12 of 40 done"
    assert lessons_text(12, 40, ("memory/banks",)) == "Running lessons: 12 of 40 done, now memory/banks"
