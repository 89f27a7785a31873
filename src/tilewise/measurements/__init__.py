"""Measurements: ``measure`` for lessons, records with their provenance, and the archive that reads them.

In: experiments of lessons. Out: tables, records, and values for prose.
"""

from tilewise.measurements.archive import Archive, lookup, text_record
from tilewise.measurements.experiment import Experiment, measure
from tilewise.measurements.guess import Guess
from tilewise.measurements.machines import recorded_device, short_name
from tilewise.measurements.output import Measurement
from tilewise.measurements.readings import (
    Numbers,
    complete,
    medians_us,
    memory_latency_ns,
    printed,
    printed_errors,
    printed_numbers,
    printed_rows,
    rates,
    recorded,
    recorded_us,
    step_times,
    two_digits,
)
from tilewise.measurements.record import Record, RecordError, Row, TextRecord
from tilewise.outputs import name_machine

__all__ = [
    "Archive",
    "Experiment",
    "Guess",
    "Measurement",
    "Numbers",
    "Record",
    "RecordError",
    "Row",
    "TextRecord",
    "complete",
    "lookup",
    "measure",
    "medians_us",
    "memory_latency_ns",
    "printed",
    "printed_errors",
    "printed_numbers",
    "printed_rows",
    "rates",
    "recorded",
    "recorded_device",
    "recorded_us",
    "step_times",
    "text_record",
    "two_digits",
]

name_machine(lambda: short_name(recorded_device()))
