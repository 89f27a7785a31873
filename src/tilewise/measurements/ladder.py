"""The speeds of the course's attention kernels in one picture, from one thread to the best library.

In: the archive. Out: HTML for a page at the site's root: a bar for each kernel on a logarithmic axis, with a
link to its lesson, for every machine that has all the records. Each bar states its kernel's size, because no
size suits all kernels. The sketch has only the headline and the bars, for small screens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tilewise.measurements.archive import Archive
from tilewise.measurements.machines import beside_each_other, machines
from tilewise.measurements.record import Row

_LOW, _HIGH = 1e-4, 1e3
"""The ends of the axis, in TFLOP/s."""
_TICKS = {1e-3: "10⁹", 1.0: "10¹²", 1e3: "10¹⁵ FLOP/s"}


@dataclass(frozen=True)
class Step:
    """The row of a record that one bar shows."""

    label: str
    """What is new in the kernel."""
    experiment: str
    case: Mapping[str, object]
    choose: Callable[[Sequence[Row]], Row | None]


@dataclass(frozen=True)
class _Bar:
    step: Step
    lesson: str
    rate: float
    microseconds: float
    is_library: bool


def _fastest(rows: Sequence[Row]) -> Row | None:
    return min((row for row in rows if row.role == "variant"), key=lambda row: row.median or 0, default=None)


def _slowest(rows: Sequence[Row]) -> Row | None:
    return max((row for row in rows if row.role == "variant"), key=lambda row: row.median or 0, default=None)


def _cudnn(rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if row.role == "library" and "cudnn" in row.variant.lower()), None)


def _small(N: int) -> dict[str, object]:  # noqa: N803 - as the records say
    return {"N": N, "d": 128}


_LARGE = {"N": 4096, "d": 128, "causal": False}
STEPS = (
    Step("One thread does everything", "attention_one_thread", _small(256), _slowest),
    Step("One thread per result", "attention_three_kernels", _small(1024), _fastest),
    Step("Coalesced loads", "attention_coalesced", _small(1024), _fastest),
    Step("Parallel reductions", "attention_reduced", _small(1024), _fastest),
    Step("Tiles in shared memory", "attention_tiled", _small(1024), _fastest),
    Step("FlashAttention, FP32", "attention_flash", _small(4096), _fastest),
    Step("Tensor cores, BF16", "attention_mma", _LARGE, _fastest),
    Step("Hopper: TMA and wgmma", "attention_forward", _LARGE, _fastest),
    Step("cuDNN, for comparison", "attention_forward", _LARGE, _cudnn),
)
"""The kernels, slowest first. Labels of variants do not occur here, so that lessons can change them."""


def sketch(archive: Archive) -> str:
    """The picture's headline and bars as a link to the picture; empty without a picture.

    Args:
        archive: the records.
    """
    return _for_each_machine(archive, lambda bars, _: _sketch(bars))


def fragment(archive: Archive, urls: Mapping[str, str]) -> str:
    """The picture, for a page at the site's root.

    Args:
        archive: the records.
        urls: the lessons' pages relative to the site's root, by their ids.

    Returns:
        HTML without blank lines, with a picture per machine; empty if no machine has all the records.
    """
    return _for_each_machine(archive, lambda bars, name: _picture(bars, name, urls))


def _for_each_machine(archive: Archive, draw: Callable[[Sequence[_Bar], str], str]) -> str:
    names = {machine["id"]: machine["name"] for machine in machines(archive)}
    return beside_each_other(
        {folder: draw(bars, name) for folder, name in names.items() if (bars := _bars(archive, folder))}
    )


def _bars(archive: Archive, folder: str) -> list[_Bar]:
    """Every step's bar on one machine; empty if a record is missing."""
    bars = []
    for step in STEPS:
        record = (
            archive.record(step.experiment, folder)
            if archive.path(step.experiment, folder).is_file()
            else None
        )
        rows = [row for row in record.rows if row.case == step.case and row.median] if record else []
        row = step.choose(rows)
        if record is None or row is None or not row.flop or not row.median:
            return []
        rate = row.flop / row.median / 1e6
        bars.append(_Bar(step, record.lesson, rate, row.median, row.role == "library"))
    return bars


def _headline(bars: Sequence[_Bar]) -> str:
    last = max((bar for bar in bars if not bar.is_library), key=lambda bar: bar.rate)
    return f"Eight attention kernels: {_two_digits(last.rate / bars[0].rate)} times faster"


def _sketch(bars: Sequence[_Bar]) -> str:
    kernels = [bar for bar in bars if not bar.is_library]
    shape = "".join(f'<i style="height:{_share(bar.rate):.1f}%"></i>' for bar in kernels)
    ends = (
        f"<span>{_rate(kernels[0].rate)}</span><span>log scale</span><span>{_rate(kernels[-1].rate)}</span>"
    )
    return (
        f'<a class="tw-ladder-sketch" href="#ladder"><b>{_headline(bars)}</b>'
        f'<span class="tw-ladder-shape" aria-hidden="true">{shape}</span>'
        f'<span class="tw-ladder-ends">{ends}</span></a>'
    )


def _picture(bars: Sequence[_Bar], machine: str, urls: Mapping[str, str]) -> str:
    ticks = "".join(f'<span style="left:{_share(at):.1f}%">{text}</span>' for at, text in _TICKS.items())
    return "\n".join(
        [
            '<figure class="tw-ladder">',
            f'<p class="tw-figure-title">{_headline(bars)}</p>',
            "<ol>",
            *(_entry(bar, urls) for bar in bars),
            "</ol>",
            f'<p class="tw-ladder-axis" aria-hidden="true">{ticks}</p>',
            "<figcaption>Floating-point operations per second on a logarithmic axis, recorded on an "
            f"{machine}, for head dimension 128 and N queries and keys. The first six kernels compute one "
            "head in FP32, the others eight heads in BF16.</figcaption>",
            "</figure>",
        ]
    )


def _entry(bar: _Bar, urls: Mapping[str, str]) -> str:
    label = escape(bar.step.label, quote=False)
    if url := urls.get(bar.lesson):
        anchor = f"#{bar.step.experiment}"
        label = f'<a href="{escape(url)}{anchor}">{label}</a>'
    kind = ' class="tw-ladder-library"' if bar.is_library else ""
    size = f"{_time(bar.microseconds)}, N = {bar.step.case['N']:,}"
    return (
        f"<li{kind}><span>{label}</span> <small>{size}</small> "
        f'<span class="tw-ladder-bar"><i style="width:{_share(bar.rate):.1f}%"></i></span> '
        f"<b>{_rate(bar.rate)}</b></li>"
    )


def _share(rate: float) -> float:
    """A rate's position on the axis, in percent."""
    return 100 * math.log(rate / _LOW) / math.log(_HIGH / _LOW)


def _rate(tflop_per_s: float) -> str:
    if tflop_per_s < 1:
        return f"{_two_digits(1000 * tflop_per_s)} GFLOP/s"
    return f"{_two_digits(tflop_per_s)} TFLOP/s"


def _time(microseconds: float) -> str:
    if microseconds >= 1000:
        return f"{_two_digits(microseconds / 1000)} ms"
    return f"{_two_digits(microseconds)} µs"


def _two_digits(value: float) -> str:
    """Two significant digits, or all of up to three integer digits; "million" as a word."""
    if value >= 1e6:
        return f"{_two_digits(value / 1e6)} million"
    if value >= 1000:
        return f"{round(value, -2):,.0f}"
    return f"{value:.0f}" if value >= 10 else f"{value:#.2g}"
