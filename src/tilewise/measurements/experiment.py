"""An experiment: variants of one computation, the sizes to time and to count, and libraries.

In: the arguments of ``measure``. Out: a checked ``Experiment`` with its keys, and the ``Measurement`` that
the lesson shows.
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
    """The arguments of ``measure``, and the place of the call."""

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
    """The lesson's file, as in messages."""
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
            LessonError: its function does not take the parameters, or does not return launches.
        """
        result = self._call(self.variants[variant], f'the variant "{variant}"', parameters)
        launches = tuple(result) if isinstance(result, list | tuple) else (result,)
        if not launches or not all(
            hasattr(launch, "kernel") and hasattr(launch, "case") for launch in launches
        ):
            raise self.error(
                f'the variant "{variant}" returned {type(result).__name__}.',
                "Return kernel.on(case) or a list of those.",
            )
        return launches

    def work(self, parameters: Parameters) -> tuple[float | None, float | None]:
        """Bytes and operations at a size; None for what the lesson does not state."""
        byte_count = self._call(self.bytes, "bytes", parameters) if self.bytes else None
        operations = self._call(self.flop, "flop", parameters) if self.flop else None
        return _number(byte_count), _number(operations)

    def _call(self, function: Callable[..., Any], name: str, parameters: Parameters) -> Any:
        try:
            inspect.signature(function).bind(**parameters)
        except (TypeError, ValueError) as error:
            raise self.error(
                f"{name} does not take the parameters {', '.join(parameters)}: {error}.",
                "Give every function of measure() the names that the cases have.",
            ) from None
        return function(**parameters)

    @staticmethod
    def place(label: str, parameters: Parameters) -> Place:
        """The key of a variant or library at a size among an experiment's rows."""
        return label, tuple(sorted(parameters.items()))

    def tokens(self, label: str, parameters: Parameters) -> str:
        """The key, by tokens, of everything that could change a row's result, without labels and names."""
        place = self.place(label, parameters)
        if place not in self._tokens:
            if label in self.library:
                first = self.launches(next(iter(self.variants)), parameters)
                inputs = Case(values_of(first)).fingerprint()
                own = [self._functions[label], inputs]
            else:
                own = [launch.fingerprint() for launch in self.launches(label, parameters)]
            self._tokens[place] = digest({**self._facts(parameters), "own": own})
        return self._tokens[place]

    def code(self, label: str, parameters: Parameters) -> str:
        """The same key by the code of a variant's kernels, independent of the names in them.

        Raises:
            CompileError: clang rejects a kernel, or would drop part of it.
            ToolchainError: there is no clang.
        """
        place = self.place(label, parameters)
        if place not in self._codes:
            self._codes[place] = digest(
                self._facts(parameters) | launches_code(self.launches(label, parameters))
            )
        return self._codes[place]

    @cached_property
    def _functions(self) -> dict[str, str]:
        return {label: function_tokens(function) for label, function in self.library.items()}

    def _facts(self, parameters: Parameters) -> dict[str, Any]:
        """The part of the key that all rows of a size share."""
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
"""Called with each experiment of a lesson, in order; ``measure`` returns its result."""
_HANDLER: ContextVar[Handler | None] = ContextVar("tilewise_measure_handler", default=None)


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """Let ``measure`` pass its experiments to a command inside a ``with`` block."""
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
    """Predict, count and time variants of one computation, and show the table.

    With a GPU, every variant is checked and timed at ``cases``. Without one, only ``count_case`` is simulated
    and the times come from the record. While a lesson is recorded, the record is written instead.

    Args:
        name: the experiment's name and its record's file name: lower-case letters, digits and underscores.
        variants: by label, the naive one first: ``fn(**parameters)`` returns ``kernel.on(case)`` or a list of
            those, which run in order on the same arrays.
        cases: the sizes to time, each a mapping of parameter to value.
        count_case: a size that the simulator handles in seconds; it is simulated and counted.
        bytes: ``fn(**parameters)``, the minimum number of bytes to and from device memory.
        flop: ``fn(**parameters)``, the number of operations.
        library: by label, ``fn(arrays)``, or ``fn(**parameters)`` returning that: it gets the case's device
            arrays (CuPy) and scalars by name and returns a function without arguments that does the work and
            either writes the case's outputs or returns them. It imports its package inside.
        reference: gets the inputs that it names (floating-point ones as float64) and returns the right
            answer: a mapping by name, or one array for the last output of the case.
        tolerance: an element may be off by ``tolerance * (1 + |right|)``.
        arithmetic: the units that do ``flop``: ``fp32``, ``bf16_matrix``, ... as in the device table.
        counts: which counts the table shows: ``sectors``, ``requests``, ``wavefronts``, ``instructions``.
        note: a sentence below the table.
        within: the factor by which a recorded variant may miss its bound, either way, before the lesson has
            to explain it.
        reasons: by variant (``*``: all), the heading of the lesson under which it is explained.
        with_host: include the host's launch time, starting from an idle GPU; for lessons about launches.
        fold: a short title under which the page folds a long table that the lesson also plots.
        guess: what the reader may guess on the page before the table is shown; not part of the key.

    Returns:
        The measurement, for figures and prose.

    Raises:
        LessonError: an argument is wrong, a variant gives a wrong answer, or, with
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

    measurement = report(experiment)
    if guess is not None:
        measurement = replace(measurement, asked=asked(guess, experiment, measurement.rows))
    sink().add(measurement)
    return measurement


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
