"""An exercise: a task for the reader, a folded answer, and the tests that the answer passes in every build.

In: Markdown, an answer and tests as functions. Out: a block with the answer's source. The tests run where
``exercise`` is called, so a wrong answer makes the lesson fail at that line.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, ClassVar, Self

from tilewise.outputs.base import Context, Task, sink
from tilewise.outputs.kinds import attribute, fence, folded


@dataclass(frozen=True)
class ExerciseOutput(Task):
    """A task, its hint and its tested answer."""

    kind: ClassVar[str] = "exercise"
    title: str
    """A few words."""
    task: str
    """What to do, in Markdown."""
    answer: str
    """The answer's source; empty for an exercise without code."""
    language: str = "python"
    """The answer's language: ``python`` or ``cuda``."""
    tests: str = ""
    """The tests' source."""
    hint: str = ""
    """A first step, in Markdown."""
    explanation: str = ""
    """Text next to the answer, in Markdown."""
    wrong_answers: int = 0
    """The number of wrong answers that the tests rejected."""

    def texts(self) -> tuple[str, ...]:
        """Task, hint and explanation."""
        return (self.task, self.hint, self.explanation)

    def with_texts(self, texts: Sequence[str]) -> Self:
        """The same exercise with other texts."""
        task, hint, explanation = texts
        return replace(self, task=task, hint=hint, explanation=explanation)

    def text(self) -> str:
        """Title, task and test result; the answer stays in the lesson's file."""
        lines = [f"exercise: {self.title}", textwrap.indent(self.task, "  ")]
        if self.tests:
            lines.append(f"  [the answer passes its tests{self._rejected()}]")
        return "\n".join(lines)

    def _rejected(self) -> str:
        if not self.wrong_answers:
            return ""
        plural = "answer" if self.wrong_answers == 1 else "answers"
        return f"; {self.wrong_answers} wrong {plural} rejected"

    def markdown(self, context: Context) -> str:
        """A ``!!! exercise`` block with folds for the hint, the tests and the answer."""
        parts = [self.task]
        if self.hint:
            parts.append(folded("Hint", "hint", self.hint))
        if self.tests:
            parts.append(folded("Tests", "tests", fence(self.tests, ".python")))
        if self.answer or self.explanation:
            code = fence(self.answer, f".{self.language}") if self.answer else ""
            answer = "\n\n".join(part for part in (self.explanation, code) if part)
            parts.append(folded("Answer", "answer", answer))
        inside = textwrap.indent("\n\n".join(parts), "    ", lambda line: bool(line.strip()))
        title = escape(attribute(self.title), quote=False)
        return f'!!! exercise "{title}"\n\n{inside}'


def exercise(
    title: str,
    task: str,
    answer: Any = None,
    tests: Callable[[Any], Any] | None = None,
    *,
    hint: str | None = None,
    explanation: str | None = None,
    wrong: Iterable[Any] = (),
) -> None:
    """Show an exercise, and test its answer immediately.

    Args:
        title: a few words.
        task: what to do, in Markdown.
        answer: a function or a ``Kernel``; its source is folded on the page.
        tests: called with the answer; raises, for example by ``assert``, if it is wrong.
        hint: a first step, in Markdown, folded.
        explanation: Markdown next to the answer, in its fold.
        wrong: answers that the tests must all reject. ``{old: new}`` is the answer with all occurrences of
            texts in its source replaced.

    Raises:
        AssertionError: the answer fails, or a wrong one passes.
        TypeError: a text is not a string, or the answer is neither a function nor a ``Kernel``.
        ValueError: an answer without tests or tests without an answer, or a text to be replaced is not in the
            answer.
    """
    for name, text in (("title", title), ("task", task), ("hint", hint), ("explanation", explanation)):
        if not isinstance(text, str) and not (text is None and name in ("hint", "explanation")):
            raise TypeError(f"exercise(): {name} must be a text, and is {type(text).__name__}")
    if (answer is None) != (tests is None):
        missing = "tests" if tests is None else "an answer"
        raise ValueError(f'exercise "{title}" has no {missing}; give it both or neither')
    rejected = 0
    if tests is not None:
        tests(answer)
        for candidate in wrong:
            _must_fail(title, tests, answer, candidate)
            rejected += 1
    source, language = _source(answer)
    sink().add(
        ExerciseOutput(
            title=title,
            task=inspect.cleandoc(task),
            answer=source,
            language=language,
            tests=_source(tests)[0],
            hint=inspect.cleandoc(hint or ""),
            explanation=inspect.cleandoc(explanation or ""),
            wrong_answers=rejected,
        )
    )


def _must_fail(title: str, tests: Callable[[Any], Any], answer: Any, candidate: Any) -> None:
    is_edit = isinstance(candidate, Mapping)
    wrong = _edited(answer, candidate) if is_edit else candidate
    try:
        tests(wrong)
    except Exception:  # any exception counts: a wrong answer may also crash
        return
    name = f"with {candidate}" if is_edit else getattr(wrong, "__name__", getattr(wrong, "name", repr(wrong)))
    raise AssertionError(
        f'the tests of exercise "{title}" accept the wrong answer {name}; test what it gets wrong'
    )


def _edited(answer: Any, edits: Mapping[str, str]) -> Any:
    is_kernel = hasattr(answer, "source")
    source = answer.source if is_kernel else _source(answer)[0]
    for old, new in edits.items():
        if old not in source:
            raise ValueError(f"exercise(): the answer has no {old!r}, which a wrong answer replaces")
        source = source.replace(old, new)
    if is_kernel:
        return type(answer)(source, answer.name, defines=answer.defines, options=answer.options)
    scope = dict(answer.__globals__)
    exec(source, scope)
    return scope[answer.__name__]


def _source(what: Any) -> tuple[str, str]:
    if what is None:
        return "", "python"
    if callable(what) and hasattr(what, "__code__"):
        return textwrap.dedent(inspect.getsource(what)).rstrip(), "python"
    if not hasattr(what, "source"):
        raise TypeError(f"exercise(): an answer is a function or a Kernel, and this is {type(what).__name__}")
    return what.source.strip("\n"), "cuda"
