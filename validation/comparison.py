"""The comparison of the simulator with a device's counters, as the site shows it.

In: rows, and the device's counters. Out: a ``Comparison`` with a reason for every difference, whether its
record is current, and its file. Nothing is simulated here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewise.measurements.slugs import device_slug
from tilewise.measurements.validation import (
    CHANGED,
    FORM,
    UNCOUNTED,
    Comparison,
    Distance,
    Pair,
    Row,
)
from tilewise.measurements.validation_file import FOLDER
from validation.differences import KNOWN, REWRITTEN, Reason
from validation.record import PROJECT, Counted, DeviceRecord, save
from validation.simulation import COUNTS, simulator_key
from validation.specimen import Specimen


def assemble(
    groups: Mapping[str, Sequence[Row]], counts: DeviceRecord[Counted], simulator: str
) -> Comparison:
    """A comparison of simulated rows, each difference with its reason.

    Args:
        groups: rows by the title of their group.
        counts: the device's counters.
        simulator: the `simulator_key` of the rows.
    """
    explained = {group: tuple(map(_explained, rows)) for group, rows in groups.items()}
    known = {row.name for rows in groups.values() for row in rows}
    every = [row for rows in explained.values() for row in rows]
    titles = {pair.why for row in every for pair in row.counts.values()}
    titles |= {output.why for row in every for output in row.outputs.values()}
    return Comparison(
        counts.provenance,
        counts.metrics,
        tuple(COUNTS),
        counts.checksum,
        simulator,
        {reason.title: reason.text for reason in _reasons() if reason.title in titles},
        explained,
        tuple(row.name for row in counts.rows if row.name not in known),
    )


def _reasons() -> list[Reason]:
    return [
        *(reason for known in KNOWN.values() for _, reason in known.values()),
        *(reason for _, reason in REWRITTEN.values()),
    ]


def _explained(row: Row) -> Row:
    """A row with the current reasons; a difference has one only if it is exactly the known one."""
    known, (edits, reason) = KNOWN.get(row.name, {}), REWRITTEN.get(row.name, ({}, None))
    counts = {}
    for name, pair in row.counts.items():
        expected, why = known.get(name, (0, None))
        counts[name] = replace(pair, why=why.title if why and pair.residual == expected else "")
    outputs = {
        name: replace(output, why=reason.title if reason and output.allowed and not output.same_bits else "")
        for name, output in row.outputs.items()
    }
    shown = "; ".join(f"{before.rstrip(';')} as {after.rstrip(';')}" for before, after in edits.items())
    return replace(row, counts=counts, outputs=outputs, edits=shown)


def waiting(name: str, key: str, counts: DeviceRecord[Counted]) -> Row:
    """The row of a specimen whose current version has no counters."""
    return Row(name, key, CHANGED if name in {row.name for row in counts.rows} else UNCOUNTED)


def stale(
    record: Comparison, counts: DeviceRecord[Counted], groups: Mapping[str, Sequence[Specimen]]
) -> list[str]:
    """Why a comparison's record is not current, one sentence per reason; empty if it is.

    Args:
        record: the record.
        counts: its device's counters.
        groups: the current specimens by title of their group.
    """
    reasons = []
    if record.simulator != simulator_key():
        reasons.append("The simulator has changed since.")
    if record.counters != counts.checksum:
        reasons.append("The device's counters were taken again since.")
    elif record != assemble(record.groups, counts, record.simulator):
        reasons.append("The reasons of differences have changed since.")
    have = {(row.name, row.key) for rows in record.groups.values() for row in rows}
    want = {(specimen.name, specimen.key) for specimens in groups.values() for specimen in specimens}
    if have != want:
        names = sorted({name for name, _ in have ^ want})
        reasons.append(f"New, changed or gone since: {'; '.join(names)}.")
    return reasons


def file_name(device: str) -> str:
    """The file of a device's comparison, relative to the folder of the records."""
    return f"{FORM[0]}/{device_slug(device)}.json"


def save_comparison(record: Comparison, project: Path = PROJECT) -> None:
    """Write a record to its device's file; rows omit empty fields."""
    head = {name: value for name, value in vars(record).items() if name != "groups"}
    rows = {group: [_data(row) for row in members] for group, members in record.groups.items()}
    save(project / FOLDER / file_name(record.provenance["device"]), FORM, head, rows)


def _data(row: Row) -> dict[str, Any]:
    def plain(pair: Pair | Distance) -> list[Any]:
        values = list(vars(pair).values())
        return values if pair.why else values[:-1]

    whole = {
        **vars(row),
        "tolerance": row.tolerance if any(row.tolerance) else None,
        "instructions": None if row.waits else plain(row.instructions),
        "counts": {name: plain(pair) for name, pair in row.counts.items()},
        "outputs": {name: plain(distance) for name, distance in row.outputs.items()},
    }
    return {name: value for name, value in whole.items() if value}
