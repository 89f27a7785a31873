"""An experiment: variants of one piece of work, the sizes to time and to count, and libraries beside them.

In: what a lesson gives to ``measure``. Out: a checked ``Experiment`` with its keys, and the ``Measurement``
that the lesson shows.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewise.cuda.cases import Case
from tilewise.errors import LessonError
from tilewise.measurements.answers import values_of
from tilewise.measurements.archive import Archive, lesson_id, lesson_root
from tilewise.measurements.counting import COUNTS
from tilewise.measurements.guess import Guess, asked
from tilewise.measurements.key import METHOD_VERSION, digest, function_tokens, launches_code
from tilewise.measurements.output import EVERY, WITHIN, Measurement

Parameters = Mapping[str, Any]
Place = tuple[str, tuple[tuple[str, Any], ...]]
"""A label and the parameters of a case."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What a lesson wants measured: the arguments of ``measure``, and where the call is."""

    name: str
    variants: Mapping[str, Callable[..., Any]]
    cases: tuple[Parameters, ...]
    count_case: Parameters | None = None
    bytes: Callable[..., float] | None = None
    flop: Callable[..., float] | None = None
    library: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    reference: Callable[..., Any] | None = None
    tolerance: float = 1e-5
    arithmetic: str = "fp32"
    counts: tuple[str, ...] = ()
    note: str | None = None
    path: str
    """The lesson's file as messages name it."""
    line: int
    root: Path
    lesson: str
    with_host: bool = False
    fold: str = ""
    within: float = WITHIN
    reasons: Mapping[str, str] = field(default_factory=dict)
    _tokens: dict[Place, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    _codes: dict[Place, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def error(self, message: str, repair: str = "") -> LessonError:
        """A fault of this experiment, at the lesson's line."""
        return LessonError(self.path, self.line, f'measure("{self.name}"): {message}', repair)

    def launches(self, variant: str, parameters: Parameters) -> tuple[Any, ...]:
        """The launches of a variant at a size.

        Raises:
            LessonError: its function does not take the parameters or returns something else.
        """
        made = self._call(self.variants[variant], f'the variant "{variant}"', parameters)
        launches = tuple(made) if isinstance(made, list | tuple) else (made,)
        if not launches or not all(
            hasattr(launch, "kernel") and hasattr(launch, "case") for launch in launches
        ):
            raise self.error(
                f'the variant "{variant}" returned {type(made).__name__}.',
                "Return kernel.on(case) or a list of those.",
            )
        return launches

    def work(self, parameters: Parameters) -> tuple[float | None, float | None]:
        """Bytes and operations at a size; None for what the lesson does not give."""
        moved = self._call(self.bytes, "bytes", parameters) if self.bytes else None
        done = self._call(self.flop, "flop", parameters) if self.flop else None
        return _number(moved), _number(done)

    def _call(self, function: Callable[..., Any], what: str, parameters: Parameters) -> Any:
        try:
            inspect.signature(function).bind(**parameters)
        except (TypeError, ValueError) as error:
            raise self.error(
                f"{what} does not take the parameters {', '.join(parameters)}: {error}.",
                "Give every function of measure() the names that the cases have.",
            ) from None
        return function(**parameters)

    @staticmethod
    def place(label: str, parameters: Parameters) -> Place:
        """Where a variant or library at a size stands among an experiment's rows."""
        return label, tuple(sorted(parameters.items()))

    def tokens(self, label: str, parameters: Parameters) -> str:
        """The key of all that could change a row's result, by its tokens; labels and names do not count."""
        here = self.place(label, parameters)
        if here not in self._tokens:
            if label in self.library:
                first = self.launches(next(iter(self.variants)), parameters)
                inputs = Case(values_of(first)).fingerprint()
                own = [self._functions[label], inputs]
            else:
                own = [one.fingerprint() for one in self.launches(label, parameters)]
            self._tokens[here] = digest({**self._facts(parameters), "own": own})
        return self._tokens[here]

    def code(self, label: str, parameters: Parameters) -> str:
        """The key of the same by what a variant's kernels say, whatever the names in them.

        Raises:
            CompileError: clang refuses a kernel, or would not pass on all that it says.
            ToolchainError: there is no clang.
        """
        here = self.place(label, parameters)
        if here not in self._codes:
            self._codes[here] = digest(
                self._facts(parameters) | launches_code(self.launches(label, parameters))
            )
        return self._codes[here]

    @cached_property
    def _functions(self) -> dict[str, str]:
        return {label: function_tokens(function) for label, function in self.library.items()}

    def _facts(self, parameters: Parameters) -> dict[str, Any]:
        """What counts for all rows of a size."""
        return {
            "method": METHOD_VERSION,
            "arithmetic": self.arithmetic,
            "with_host": self.with_host,
            "parameters": {name: repr(value) for name, value in parameters.items()},
            "work": self.work(parameters),
        }


def _number(value: Any) -> float | None:
    if value is None:
        return None
    plain = value.item() if hasattr(value, "item") else value
    return plain if isinstance(plain, int) else float(plain)


Handler = Callable[[Experiment], Measurement]
"""Takes each experiment of a lesson, in order; what it gives back is what ``measure`` returns."""
_HANDLER: ContextVar[Handler | None] = ContextVar("tilewise_measure_handler", default=None)


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """Let ``measure`` hand its experiments to a command, for the length of a ``with`` block."""
    token = _HANDLER.set(handler)
    try:
        yield
    finally:
        _HANDLER.reset(token)


def measure(
    name: str,
    variants: Mapping[str, Callable[..., Any]],
    cases: Sequence[Parameters],
    count_case: Parameters | None = None,
    *,
    bytes: Callable[..., float] | None = None,
    flop: Callable[..., float] | None = None,
    library: Mapping[str, Callable[..., Any]] | None = None,
    reference: Callable[..., Any] | None = None,
    tolerance: float = 1e-5,
    arithmetic: str = "fp32",
    counts: Sequence[str] = ("sectors",),
    note: str | None = None,
    within: float = WITHIN,
    reasons: Mapping[str, str] | None = None,
    with_host: bool = False,
    fold: str = "",
    guess: Guess | None = None,
) -> Measurement:
    """Predict, count and time variants of one piece of work, and show the table.

    With a GPU every variant is checked and timed at ``cases``; without one, ``count_case`` alone is
    simulated and the recorded times stand. While a lesson is recorded the record is written instead.

    Args:
        name: the experiment's name: small letters, digits and underscores; its record's file name.
        variants: by label, the naive one first: ``fn(**parameters)`` returns ``kernel.on(case)`` or a list of
            those, which run one after the other on the same arrays.
        cases: the sizes to time, each a mapping of parameter to value.
        count_case: a size that takes the simulator seconds; it is simulated and counted.
        bytes: ``fn(**parameters)``, the bytes that have to cross the device memory's interface.
        flop: ``fn(**parameters)``, the operations that have to be done.
        library: by label, ``fn(arrays)``, or ``fn(**parameters)`` returning that: it gets the case's device
            arrays (CuPy) and scalars by name and returns a function of no arguments that does the work and
            either writes the case's outputs or returns them. It imports its package inside.
        reference: gets the inputs by name (floating ones as float64), as many as it names, and returns the
            right answer: a mapping by name, or one array for the last output of the case.
        tolerance: an element may be off by ``tolerance * (1 + |right|)``.
        arithmetic: the units that do ``flop``: ``fp32``, ``bf16_matrix``, ... as in the device table.
        counts: which counts the table shows: ``sectors``, ``requests``, ``wavefronts``, ``instructions``.
        note: a sentence below the table.
        within: how many times as long as its bound, or as short, a recorded variant may take before the
            lesson has to say why.
        reasons: by variant (``*``: every one), the heading of the lesson under which it says why.
        with_host: time with what the host takes to launch, from an idle GPU on; for launches as the subject.
        fold: a few words under which the page folds a long table, of which the lesson draws a figure.
        guess: what the reader may guess on the page before the table is shown; no part of the key.

    Returns:
        What it shows, for figures and prose.

    Raises:
        LessonError: an argument is wrong, a variant gives a wrong answer, or, where
            ``TILEWISE_STALE=error``, the record is missing or stale.
    """
    frame = sys._getframe(1)
    file = frame.f_code.co_filename
    root = lesson_root(file)
    experiment = Experiment(
        name=name,
        variants=dict(variants),
        cases=tuple(dict(case) for case in cases),
        count_case=dict(count_case) if count_case is not None else None,
        bytes=bytes,
        flop=flop,
        library=dict(library or {}),
        reference=reference,
        tolerance=tolerance,
        arithmetic=arithmetic,
        counts=tuple(counts),
        note=note,
        path=Archive(root).shown(Path(file)),
        line=frame.f_lineno,
        root=root,
        lesson=lesson_id(file, root),
        with_host=with_host,
        fold=fold,
        within=within,
        reasons=dict(reasons or {}),
    )
    _validate(experiment)
    if (handler := _HANDLER.get()) is not None:
        return handler(experiment)
    from tilewise.measurements.report import report
    from tilewise.outputs import sink

    made = report(experiment)
    if guess is not None:
        made = replace(made, asked=asked(guess, experiment, made.rows))
    sink().add(made)
    return made


def _validate(experiment: Experiment) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", experiment.name):
        raise experiment.error("a name is small letters, digits and underscores.", "Rename the experiment.")
    if not experiment.variants:
        raise experiment.error("there is nothing to measure.", "Give at least one variant.")
    if not experiment.cases:
        raise experiment.error("there is no case to time.", "Give cases=[{...}].")
    if both := sorted(set(experiment.variants) & set(experiment.library)):
        raise experiment.error(f'"{both[0]}" is a variant and a library.', "Give one of them another label.")
    if unknown := sorted(set(experiment.counts) - set(COUNTS)):
        raise experiment.error(f'there is no count "{unknown[0]}".', f"Known: {', '.join(COUNTS)}.")
    if unknown := sorted(set(experiment.reasons) - {*experiment.variants, EVERY}):
        known = ", ".join([*experiment.variants, EVERY])
        raise experiment.error(f'the reason for "{unknown[0]}" is of no variant.', f"Known: {known}.")
    if experiment.within <= 1:
        raise experiment.error(f"within={experiment.within:g} would forbid any miss.", "It is above 1.")
    if experiment.reference is None and len(experiment.variants) + len(experiment.library) < 2:
        raise experiment.error("nothing says whether the answer is right.", "Give reference=.")
