"""Current: which rows of a record hold for the lesson as it is now, and under which labels.

In: an experiment and a record. Out: the record with the lesson's own labels, and what no row of it holds for.
A row holds where its tokens are those of now, or where its code is: either proves it. So each is renewed by
the other, the tokens after a rename, the code after another clang. Of what a cell printed likewise.
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
    """A record beside its lesson."""

    rows: Mapping[Place, Row]
    """By label and case of the lesson, in its order: the row that holds, else the one that did."""
    stale: frozenset[Place]
    """Those for which no row holds: timed variants, and whatever else has a row."""
    labels: Mapping[Place, str]
    """The label that each row has in the record."""
    left: tuple[Row, ...]
    """Rows of what the lesson has no longer."""


def current(experiment: Experiment, record: Record) -> Current:
    """Find the row that holds for each variant and library at each case.

    The row of its own label goes before others of the case, so that a new label finds the times it had.
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
    """The key of a variant's code; empty for a library, and where clang refuses it."""
    from tilewise.simulator import CompileError

    try:
        return "" if label in experiment.library else experiment.code(label, case)
    except CompileError:
        return ""


def labelled(experiment: Experiment, record: Record) -> Record:
    """A record under the lesson's labels."""
    now = current(experiment, record)
    return replace(record, rows=(*now.rows.values(), *now.left))


def renewed(experiment: Experiment, record: Record) -> Record:
    """A record with the lesson, the labels and both keys of now for the rows that hold.

    Rows of what the lesson has no longer are taken out once all others hold. Without clang the code's keys
    stay where the tokens did not change.
    """
    from tilewise.measurements.kernel_code import release
    from tilewise.simulator import ToolchainError

    now = current(experiment, record)
    held = {here: row for here, row in now.rows.items() if here not in now.stale}
    tokens = {here: experiment.tokens(here[0], row.case) for here, row in held.items()}
    same = {here: row.compiled for here, row in held.items() if row.tokens == tokens[here]}
    try:
        compiler = release()
        known = same if compiler == record.compiler else {}
        codes = known | {
            here: _code(experiment, here[0], row.case) for here, row in held.items() if here not in known
        }
    except ToolchainError:
        compiler, codes = record.compiler, same
    rows = [
        replace(row, tokens=tokens[here], compiled=codes.get(here, "")) if here in held else row
        for here, row in now.rows.items()
    ]
    rows += now.left if now.stale else ()
    return replace(record, lesson=experiment.lesson, rows=tuple(rows), compiler=compiler)


def text_holds(record: TextRecord, cell: str, before: Sequence[str]) -> bool:
    """Whether a text record is of a cell and the definitions that it uses as they are now."""
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
    """A text record with the keys of now, if it holds.

    Raises:
        ToolchainError: there is no clang.
    """
    if not text_holds(record, cell, before):
        return record
    uses = record.uses and uses_key(cell, before)
    return replace(record, key=text_key(cell), uses=uses, nameless=_nameless(record, cell, before))
