"""The comparison of the simulator with a device's counters: the record that the site shows.

In: rows, and the device's counters. Out: a ``Comparison`` with the reason of every difference, whether a
record of one is current, and its file. Nothing is simulated here.
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
    """A comparison: rows as they were simulated, each difference with its reason.

    Args:
        groups: rows by the title of their group.
        counts: what the device counted.
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
    """A row with the reasons of today; a difference has one if it is exactly the one that is known."""
    known, (edits, reason) = KNOWN.get(row.name, {}), REWRITTEN.get(row.name, ({}, None))
    counts = {}
    for name, pair in row.counts.items():
        expected, why = known.get(name, (0, None))
        counts[name] = replace(pair, why=why.title if why and pair.residual == expected else "")
    outputs = {
        name: replace(one, why=reason.title if reason and one.allowed and not one.same_bits else "")
        for name, one in row.outputs.items()
    }
    shown = "; ".join(f"{before.rstrip(';')} as {after.rstrip(';')}" for before, after in edits.items())
    return replace(row, counts=counts, outputs=outputs, edits=shown)


def waiting(name: str, key: str, counts: DeviceRecord[Counted]) -> Row:
    """The row of a specimen that is not among the counters as it is now."""
    return Row(name, key, CHANGED if name in {row.name for row in counts.rows} else UNCOUNTED)


def stale(
    record: Comparison, counts: DeviceRecord[Counted], groups: Mapping[str, Sequence[Specimen]]
) -> list[str]:
    """Why a record of the comparison is not current, a sentence each; nothing for one that is.

    Args:
        record: the record.
        counts: what its device counted.
        groups: the specimens of today by the title of their group.
    """
    found = []
    if record.simulator != simulator_key():
        found.append("The simulator has changed since.")
    if record.counters != counts.checksum:
        found.append("The device's counters were taken again since.")
    elif record != assemble(record.groups, counts, record.simulator):
        found.append("The reasons of differences have changed since.")
    have = {(row.name, row.key) for rows in record.groups.values() for row in rows}
    want = {(one.name, one.key) for specimens in groups.values() for one in specimens}
    if have != want:
        names = sorted({name for name, _ in have ^ want})
        found.append(f"New, changed or gone since: {'; '.join(names)}.")
    return found


def file_name(device: str) -> str:
    """The file of a device's comparison, below the folder of the records."""
    return f"{FORM[0]}/{device_slug(device)}.json"


def save_comparison(record: Comparison, project: Path = PROJECT) -> None:
    """Write a record into its device's file; what is empty is left out of rows."""
    head = {name: value for name, value in vars(record).items() if name != "groups"}
    rows = {group: [_data(row) for row in found] for group, found in record.groups.items()}
    save(project / FOLDER / file_name(record.provenance["device"]), FORM, head, rows)


def _data(row: Row) -> dict[str, Any]:
    def plain(one: Pair | Distance) -> list[Any]:
        values = list(vars(one).values())
        return values if one.why else values[:-1]

    whole = {
        **vars(row),
        "tolerance": row.tolerance if any(row.tolerance) else None,
        "instructions": None if row.waits else plain(row.instructions),
        "counts": {name: plain(pair) for name, pair in row.counts.items()},
        "outputs": {name: plain(one) for name, one in row.outputs.items()},
    }
    return {name: value for name, value in whole.items() if value}
