"""Bit fields: the bits of one number in several floating-point formats.

In: formats, and the bits of each number in each format. Out: a Figure whose slider selects the number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewise.figures.figure import Figure

ROW, NARROW_ROW = 32, 52
"""Height of a format's row in px."""
AROUND = 116
"""Height of the headings, the slider and the gaps in px."""


@dataclass(frozen=True)
class BitFormat:
    """A floating-point format: a sign, then an exponent, then a fraction."""

    name: str
    """Shown before its bits."""
    exponent_bits: int
    """Number of exponent bits."""
    fraction_bits: int
    """Number of fraction bits."""

    def parted(self, bits: str) -> str:
        """Return the bits with spaces between the fields."""
        return f"{bits[0]} {bits[1 : 1 + self.exponent_bits]} {bits[1 + self.exponent_bits :]}"


@dataclass(frozen=True)
class Held:
    """A number in a format."""

    bits: str
    """Its bits, sign first."""
    said: str
    """Its value, in a few words."""


def bit_fields(
    formats: Sequence[BitFormat],
    numbers: Mapping[str, Sequence[Held]],
    *,
    start: str,
    title: str,
    caption: str,
    step_name: str = "number",
) -> Figure:
    """Return a figure with a row of bits for each format and a slider over numbers.

    Args:
        formats: from top to bottom.
        numbers: for each label of the slider, in order, the number in each format.
        start: the number shown first.
        title: what the reader should see, as a statement.
        caption: what the figure shows; self-contained.
        step_name: label of the slider.

    Raises:
        ValueError: there are no formats, the start is not a number, or bits do not match their format.
    """
    if not formats or start not in numbers:
        raise ValueError(f"bit_fields needs formats and a start among {', '.join(numbers)}, not {start!r}")
    for number, rows in numbers.items():
        if len(rows) != len(formats):
            raise ValueError(f"{number} is held in {len(rows)} ways, and there are {len(formats)} formats")
        for form, value in zip(formats, rows, strict=True):
            wanted = 1 + form.exponent_bits + form.fraction_bits
            if len(value.bits) != wanted or set(value.bits) - {"0", "1"}:
                raise ValueError(f"{number} in {form.name} is {value.bits!r}: give {wanted} of 0 and 1")
    fields = [f"{form.name} ({form.exponent_bits} and {form.fraction_bits})" for form in formats]
    steps = tuple(
        f"{step_name} {number}: "
        + "; ".join(
            f"{form.name} {form.parted(value.bits)}, {value.said}"
            for form, value in zip(formats, rows, strict=True)
        )
        + "."
        for number, rows in numbers.items()
    )
    return Figure(
        title=title,
        caption=caption,
        alt=f"Bit patterns of a number in {len(formats)} formats, with exponent and fraction bits: "
        f"{', '.join(fields)}. The sign bit comes first. Each line below is one slider position.",
        height=AROUND + ROW * len(formats),
        narrow_height=AROUND + NARROW_ROW * len(formats),
        kind="bit_fields",
        spec={
            "formats": [
                {
                    "name": form.name,
                    "exponent": form.exponent_bits,
                    "fraction": form.fraction_bits,
                }
                for form in formats
            ],
            "step_name": step_name,
            "start": list(numbers).index(start),
            "numbers": [
                {"label": label, "rows": [{"bits": value.bits, "said": value.said} for value in rows]}
                for label, rows in numbers.items()
            ],
        },
        steps=steps,
    )
