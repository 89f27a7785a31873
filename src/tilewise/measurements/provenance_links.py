"""Where and when a recorded number was taken, as facts and as HTML.

In: the provenance of a record. Out: facts, a list of them with an id, and links from numbers to that list.
The site's script shows the list next to the number under the pointer; without it the link leads there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from tilewise.measurements.slugs import device_slug
from tilewise.outputs.table import number

_CLOCKS = (
    ("sm_clock_mhz", "SM clock", "MHz"),
    ("memory_clock_mhz", "memory clock", "MHz"),
    ("power_limit_w", "power limit", "W"),
    ("temperature_c", "temperature", "°C"),
)
_VERSIONS = {
    "cuda_runtime": "CUDA",
    "nvrtc": "NVRTC",
    "cupy": "CuPy",
    "cub": "CUB",
    "cublas": "cuBLAS",
    "torch": "torch",
    "cudnn": "cuDNN",
    "triton": "Triton",
    "numba": "Numba",
}


def provenance_facts(origin: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The provenance of recorded figures as labels and values, without unknown ones.

    Args:
        origin: a record's provenance, or the values of a record by name, which include it.
    """
    facts = [("device", origin.get("device")), ("date", origin.get("date")), ("driver", origin.get("driver"))]
    for name, label, unit in _CLOCKS:
        if origin.get(name) is not None:
            facts.append((label, f"{origin[name]:.0f} {unit}"))
    ceilings = origin.get("ceilings") or {}
    if "memory_gb_per_s" in ceilings:
        facts.append(("fastest memory probe", f"{ceilings['memory_gb_per_s']:,.0f} GB/s"))
    versions = origin.get("versions") or {}
    shown = ", ".join(f"{label} {versions[name]}" for name, label in _VERSIONS.items() if name in versions)
    facts.append(("versions", shown or None))
    rounds = origin.get("rounds") or ()
    if isinstance(rounds, int):  # their number, in the values of a record by name
        facts.append(("rounds", rounds if rounds > 1 else None))
    elif len(rounds) > 1:
        days = list(dict.fromkeys(str(entry["date"]) for entry in rounds))
        over = f", from {min(days)} to {max(days)}" if len(days) > 1 else ""
        facts.append(("rounds", f"{len(rounds)}{over}"))
    return [(label, str(value)) for label, value in facts if value]


def record_url(experiment: str, device: str) -> str:
    """The URL of a record's file, relative to the site's root."""
    return f"measurements/{device_slug(device)}/{experiment}.json"


def provenance_id(experiment: str, device: str) -> str:
    """The id of the list of a record's facts."""
    return f"provenance-{device_slug(device)}-{experiment}"


def provenance_list(experiment: str, origin: Mapping[str, Any], link: Callable[[str], str]) -> str:
    """The facts of a record and links to its file and to all measurements, as one ``dl.tw-provenance-list``.

    Args:
        experiment: the experiment's name.
        origin: as in ``provenance_facts``.
        link: the URL of a file of the site, relative to the page.
    """
    device = str(origin.get("device") or "")
    members = "".join(
        f"<dt>{escape(label)}</dt><dd>{escape(value)}</dd>" for label, value in provenance_facts(origin)
    )
    file = escape(link(record_url(experiment, device)))
    all_rows = escape(f"{link('measurements/').rstrip('/')}/#{experiment}")
    return (
        f'<dl class="tw-provenance-list" id="{escape(provenance_id(experiment, device))}">{members}'
        f'<dt>record</dt><dd><a href="{file}" data-record-file>{escape(experiment)}.json</a>, '
        f'<a href="{all_rows}">all its rows</a></dd></dl>'
    )


def spread_text(
    p20: float, median: float, p80: float, rounds: Sequence[float] = (), further: Sequence[float] = ()
) -> str:
    """The spread of a time as text.

    Args:
        p20: the 20th percentile of all samples, in microseconds.
        median: their median.
        p80: their 80th percentile.
        rounds: the median of each round, if there were several.
        further: the interval in which another run should be.
    """
    text = f"p20 {number(p20)} µs, median {number(median)} µs, p80 {number(p80)} µs"
    if len(rounds) > 1:
        text += f"; medians of {len(rounds)} rounds {number(min(rounds))} to {number(max(rounds))} µs"
    if len(further) == 2:
        text += f"; another run {number(further[0])} to {number(further[1])} µs"
    return text


def provenance_link(text: str, target: str, spread: str = "", classes: str = "", data: str = "") -> str:
    """A number as a link to the list of its provenance.

    Args:
        text: the number as HTML.
        target: the id of the list.
        spread: the spread of the time, as text.
        classes: further classes.
        data: further attributes, as HTML.
    """
    all_classes = f"tw-number {classes}".strip()
    shown = f' data-spread="{escape(spread)}"' if spread else ""
    attributes = f'href="#{escape(target)}" data-provenance="{escape(target)}"'
    return f'<a class="{all_classes}" {attributes}{shown}{data}>{text}</a>'
