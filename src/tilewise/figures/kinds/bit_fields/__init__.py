"""Bit fields: one number as several floating-point formats hold it, bit by bit.

In: formats, and for each number the bits that each format holds. Out: a Figure whose slider chooses the
number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewise.figures.figure import Figure

ROW, NARROW_ROW = 32, 52
"""Height of a format's row in px."""
AROUND = 116
"""Height of the heads, the slider and the space between them in px."""


@dataclass(frozen=True)
class BitFormat:
    """A floating-point format: a sign, then an exponent, then a fraction."""

    name: str
    """Stands before its bits."""
    exponent_bits: int
    """Bits of the exponent."""
    fraction_bits: int
    """Bits of the fraction."""

    def parted(self, bits: str) -> str:
        """The bits with a space between the fields."""
        return f"{bits[0]} {bits[1 : 1 + self.exponent_bits]} {bits[1 + self.exponent_bits :]}"


@dataclass(frozen=True)
class Held:
    """What a format makes of a number."""

    bits: str
    """Its bits, the sign first."""
    said: str
    """What they stand for, in a few words."""


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
        numbers: by what the slider says, in its order: what each of the formats makes of that number.
        start: the number shown first.
        title: what is to be seen, as a statement.
        caption: what the figure shows, read alone.
        step_name: what the slider sets.

    Raises:
        ValueError: nothing is to be drawn, the start is no number, or bits do not fit their format.
    """
    if not formats or start not in numbers:
        raise ValueError(f"bit_fields needs formats and a start among {', '.join(numbers)}, not {start!r}")
    for number, rows in numbers.items():
        if len(rows) != len(formats):
            raise ValueError(f"{number} is held in {len(rows)} ways, and there are {len(formats)} formats")
        for form, held in zip(formats, rows, strict=True):
            wanted = 1 + form.exponent_bits + form.fraction_bits
            if len(held.bits) != wanted or set(held.bits) - {"0", "1"}:
                raise ValueError(f"{number} in {form.name} is {held.bits!r}: give {wanted} of 0 and 1")
    fields = [f"{one.name} ({one.exponent_bits} and {one.fraction_bits})" for one in formats]
    steps = tuple(
        f"{step_name} {number}: "
        + "; ".join(
            f"{form.name} {form.parted(held.bits)}, {held.said}"
            for form, held in zip(formats, rows, strict=True)
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
                {"name": one.name, "exponent": one.exponent_bits, "fraction": one.fraction_bits}
                for one in formats
            ],
            "step_name": step_name,
            "start": list(numbers).index(start),
            "numbers": [
                {"label": label, "rows": [{"bits": held.bits, "said": held.said} for held in rows]}
                for label, rows in numbers.items()
            ],
        },
        steps=steps,
    )
