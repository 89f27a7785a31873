"""Records: a lesson's GPU results are current, and explained if they missed their bound."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tilewise.course.lesson import Lesson
from tilewise.course.rules.model import RunRule
from tilewise.errors import LessonError, nearest
from tilewise.measurements.output import EVERY, Measurement
from tilewise.outputs.kinds import NOT_CURRENT, Text

if TYPE_CHECKING:
    from tilewise.build.run.runner import LessonRun


def _faults(lesson: Lesson, run: LessonRun) -> Iterator[LessonError]:
    headings = [mention.text for mention in lesson.prose.headings]
    for cell, outputs in zip(lesson.cells, run.outputs, strict=True):
        for output in outputs:
            if isinstance(output, Measurement):
                if output.stale and not output.pending:
                    yield LessonError(lesson.path, cell.first_line, output.stale)
                elif not output.stale:
                    yield from unexplained(output, headings, lesson.path, cell.first_line)
            elif isinstance(output, Text) and output.source == NOT_CURRENT:
                message = f'the recorded output "{cell.record}" is missing or stale.'
                repair = f"Record it on a GPU: tilewise record {lesson.id}"
                yield LessonError(lesson.path, cell.first_line, message, repair)


def unexplained(table: Measurement, headings: Collection[str], path: str, line: int) -> Iterator[LessonError]:
    """Variants without an explanation, and reasons that name none of the lesson's headings."""
    reasons = dict(table.reasons)
    label = f'measure("{table.name}"): '
    for variant, heading in reasons.items():
        if heading not in headings:
            message = f'{label}the reason for "{variant}" stands under "{heading}", which is no heading here.'
            yield LessonError(path, line, message, nearest(heading, headings))
    for variant, times in table.missed().items():
        if variant not in reasons and EVERY not in reasons:
            message = (
                f'{label}"{variant}" took {times:,.3g} times as long as its bound, and at most '
                f"{table.within:g} times needs no explanation."
            )
            repair = (
                f'Say why, and where: reasons={{"{variant}": "the heading"}}; "{EVERY}" is every variant.'
            )
            yield LessonError(path, line, message, repair)


RECORDS = RunRule(
    "records",
    "What a GPU printed or took is recorded or pending; where a variant is more than twice as slow as its "
    "bound, reasons= names the heading that says why.",
    '# %%\nprint("Hello.")\n',
    '# %% needs="gpu" record="raw"\nprint("Hello from the GPU.")\n',
    _faults,
    stops=False,
)
