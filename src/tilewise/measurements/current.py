"""Current: which rows of a record are current for the lesson, and under which labels.

In: an experiment and a record. Out: the record with the lesson's labels, and what has no current row. A row
is current if its tokens or its code match the lesson's; either proves it. So each key can be renewed by the
other: the tokens after a rename, the code after a new clang. The same holds for a cell's output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewise.measurements.definitions import nameless_key, uses_key
from tilewise.measurements.key import text_key
from tilewise.measurements.record import Record, Row, TextRecord

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment, Parameters, Place


@dataclass(frozen=True)
class Current:
    """A record matched with its lesson."""

    rows: Mapping[Place, Row]
    """By the lesson's label and case, in order: the current row, else the stale one."""
    stale: frozenset[Place]
    """Those without a current row: timed variants, and everything else that has a row."""
    labels: Mapping[Place, str]
    """Each row's label in the record."""
    left: tuple[Row, ...]
    """Rows of variants and cases that the lesson no longer has."""


def current(experiment: Experiment, record: Record) -> Current:
    """Find the current row of each variant and library at each case.

    Rows with its own label are tried first, then others of the case, so that a renamed variant keeps its
    times.
    """
    rows: dict[Place, Row] = {}
    labels: dict[Place, str] = {}
    stale: set[Place] = set()
    used: list[Row] = []
    for label, case in _wanted(experiment):
        here = experiment.place(label, case)
        there = [row for row in record.rows if dict(row.case) == dict(case)]
        there.sort(key=lambda row: row.variant != label)
        row = next((row for row in there if _holds(experiment, label, case, row)), None)
        if row is None:
            own = [row for row in there if row.variant == label]
            if not own and (label in experiment.library or case not in experiment.cases):
                continue
            stale.add(here)
            row = own[0] if own else None
        if row is not None:
            rows[here], labels[here] = replace(row, variant=label), row.variant
            used.append(row)
    left = tuple(row for row in record.rows if row not in used)
    return Current(rows, frozenset(stale), labels, left)


def _wanted(experiment: Experiment) -> Iterator[tuple[str, Parameters]]:
    extra = experiment.count_case
    for case in (*experiment.cases, *([] if extra is None or extra in experiment.cases else [extra])):
        for label in (*experiment.variants, *experiment.library):
            yield label, case


def _holds(experiment: Experiment, label: str, case: Parameters, row: Row) -> bool:
    if (row.role == "library") != (label in experiment.library):
        return False
    if row.tokens == experiment.tokens(label, case):
        return True
    from tilewise.simulator import ToolchainError

    try:
        return bool(row.compiled) and row.compiled == _code(experiment, label, case)
    except ToolchainError:
        return False


def _code(experiment: Experiment, label: str, case: Parameters) -> str:
    """The key of a variant's code; empty for a library, and if clang rejects it."""
    from tilewise.simulator import CompileError

    try:
        return "" if label in experiment.library else experiment.code(label, case)
    except CompileError:
        return ""


def labelled(experiment: Experiment, record: Record) -> Record:
    """A record with the lesson's labels."""
    now = current(experiment, record)
    return replace(record, rows=(*now.rows.values(), *now.left))


def renewed(experiment: Experiment, record: Record) -> Record:
    """A record with the lesson's current id and labels, and both keys for the current rows.

    Rows that the lesson no longer has are removed once all others are current. Without clang, the code's keys
    are copied if the tokens did not change.
    """
    from tilewise.measurements.kernel_code import release
    from tilewise.simulator import ToolchainError

    now = current(experiment, record)
    valid = {here: row for here, row in now.rows.items() if here not in now.stale}
    tokens = {here: experiment.tokens(here[0], row.case) for here, row in valid.items()}
    same = {here: row.compiled for here, row in valid.items() if row.tokens == tokens[here]}
    try:
        compiler = release()
        known = same if compiler == record.compiler else {}
        codes = known | {
            here: _code(experiment, here[0], row.case) for here, row in valid.items() if here not in known
        }
    except ToolchainError:
        compiler, codes = record.compiler, same
    rows = [
        replace(row, tokens=tokens[here], compiled=codes.get(here, "")) if here in valid else row
        for here, row in now.rows.items()
    ]
    rows += now.left if now.stale else ()
    return replace(record, lesson=experiment.lesson, rows=tuple(rows), compiler=compiler)


def text_holds(record: TextRecord, cell: str, before: Sequence[str]) -> bool:
    """Whether a text record matches a cell and the definitions that it uses."""
    from tilewise.simulator import ToolchainError

    if record.key == text_key(cell) and record.uses in ("", uses_key(cell, before)):
        return True
    try:
        return record.nameless != "" and record.nameless == _nameless(record, cell, before)
    except ToolchainError:
        return False


def _nameless(record: TextRecord, cell: str, before: Sequence[str]) -> str:
    from tilewise.measurements.kernel_code import hashes_of, reserved

    return nameless_key(cell, before if record.uses else (), reserved(), hashes_of)


def renewed_text(record: TextRecord, cell: str, before: Sequence[str]) -> TextRecord:
    """A text record with the current keys, if it is current.

    Raises:
        ToolchainError: there is no clang.
    """
    if not text_holds(record, cell, before):
        return record
    uses = record.uses and uses_key(cell, before)
    return replace(record, key=text_key(cell), uses=uses, nameless=_nameless(record, cell, before))
