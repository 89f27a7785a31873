"""The form of a record: which members it has, of which types, and what their values must be.

In: the object that a record's JSON holds. Out: the first fault as the rest of a sentence, or None.
``record.schema.json`` says the same for other tools; whether the checksum fits is ``record``'s affair.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

SCHEMA = 2
"""The version of the form of a record."""

_FORM: Mapping[str, type | tuple[type, ...]] = {
    "schema": int,
    "experiment": str,
    "lesson": str,
    "arithmetic": str,
    "provenance": dict,
    "rows": list,
    "method": dict,
    "compiler": str,
    "checksum": str,
}
_ROW: Mapping[str, type | tuple[type, ...]] = {
    "variant": str,
    "role": str,
    "case": dict,
    "samples_us": list,
    "p20": (int, float, type(None)),
    "median": (int, float, type(None)),
    "p80": (int, float, type(None)),
    "counters": (dict, type(None)),
    "bytes": (int, float, type(None)),
    "flop": (int, float, type(None)),
    "tokens": str,
    "compiled": str,
}
_ROUNDS = "rounds"
_READINGS = ("sm_clock_mhz", "power_w")
OPTIONAL = (_ROUNDS, *_READINGS)
"""The lists that a row may lack: records of one round have no rounds; older ones have no readings of clock
and power, nor have rows whose launches were too short for any."""
KEYS = ("tokens", "compiled")
"""The texts that a row may lack: one that no key was proven for has none."""
_PROVENANCE: Mapping[str, type | tuple[type, ...]] = {
    "device": str,
    "date": str,
    "ceilings": dict,
    "versions": dict,
}
_TEXT: Mapping[str, type | tuple[type, ...]] = {
    "schema": int,
    "kind": str,
    "lesson": str,
    "name": str,
    "key": str,
    "provenance": dict,
    "text": str,
    "uses": str,
    "nameless": str,
    "checksum": str,
}


_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ()+./_-]{0,79}")
"""What drivers' names of devices look like."""


def fault_of(body: Mapping[str, Any]) -> str | None:
    """What is wrong with the form of an experiment's record; None where nothing is."""
    if isinstance(body.get("schema"), int) and body["schema"] != SCHEMA:
        return f"has the form {body['schema']}; this version reads form {SCHEMA}."
    fault = _misfit({"compiler": "", **body}, _FORM, "")
    if fault is None:
        fault = _provenance_fault(body["provenance"])
    if fault is None and not body["rows"]:
        fault = "has no rows."
    for at, row in enumerate(body["rows"] if fault is None else ()):
        if not isinstance(row, dict):
            return f"has a row {at} that is no object."
        known = {name: value for name, value in row.items() if name not in OPTIONAL}
        keyed = {**dict.fromkeys(KEYS, ""), **known}
        fault = fault or _misfit(keyed, _ROW, f"rows[{at}].") or _row_fault(row, at)
    return fault


def _row_fault(row: Mapping[str, Any], at: int) -> str | None:
    if row["role"] not in ("variant", "library"):
        return f'has the role "{row["role"]}" in rows[{at}]; a row is a variant or a library.'
    timed = [row["p20"], row["median"], row["p80"]]
    numbers = [entry for entry in [*row["samples_us"], *timed] if entry is not None]
    if any(
        isinstance(entry, bool) or not isinstance(entry, int | float) or not entry >= 0 for entry in numbers
    ):
        return f"has a time in rows[{at}] that is no number of microseconds."
    if row["samples_us"] and (None in timed or not row["p20"] <= row["median"] <= row["p80"]):
        return f"has percentiles in rows[{at}] that are missing or out of order."
    if not row["samples_us"] and timed != [None, None, None]:
        return f"has percentiles without samples in rows[{at}]."
    if _ROUNDS in row and not _divides(row[_ROUNDS], len(row["samples_us"])):
        return f"has rounds in rows[{at}] that are not its samples."
    for name in _READINGS:
        if name in row and not (row["samples_us"] and _are_readings(row[name])):
            return f'has a "{name}" in rows[{at}] that is no list of readings beside its samples.'
    return None


def _are_readings(readings: Any) -> bool:
    """Whether these are finite numbers from 0 on, one or more."""
    if not isinstance(readings, list) or not readings:
        return False
    return all(
        isinstance(one, int | float) and not isinstance(one, bool) and isfinite(one) and one >= 0
        for one in readings
    )


def _divides(rounds: Any, samples: int) -> bool:
    """Whether rounds are numbers of samples, two or more, that add up to all of them."""
    if not isinstance(rounds, list) or len(rounds) < 2:
        return False
    whole = all(isinstance(one, int) and not isinstance(one, bool) and one > 0 for one in rounds)
    return whole and sum(rounds) == samples


def text_fault_of(body: Mapping[str, Any]) -> str | None:
    """What is wrong with the form of a text record; None where nothing is. One may lack two of its keys."""
    fault = _misfit({"uses": "", "nameless": "", **body}, _TEXT, "")
    if fault is None and (body["schema"] != SCHEMA or body["kind"] != "text"):
        fault = f"is no text record of form {SCHEMA}."
    return fault or _provenance_fault(body["provenance"])


def _provenance_fault(kept: Mapping[str, Any]) -> str | None:
    fault = _misfit(kept, _PROVENANCE, "provenance.", exact=False)
    if fault is None and not _DEVICE.fullmatch(kept["device"]):
        fault = f'has a "provenance.device" that is no name of a GPU: {ascii(kept["device"])[:80]}.'
    return fault


def _misfit(
    body: Mapping[str, Any], form: Mapping[str, type | tuple[type, ...]], prefix: str, exact: bool = True
) -> str | None:
    for name, kinds in form.items():
        if name not in body:
            return f'has no "{prefix}{name}".'
        if not isinstance(body[name], kinds) or isinstance(body[name], bool):
            return f'has a "{prefix}{name}" of the wrong type ({type(body[name]).__name__}).'
    unknown = sorted(set(body) - set(form)) if exact else []
    return f'has an unknown "{prefix}{unknown[0]}".' if unknown else None
