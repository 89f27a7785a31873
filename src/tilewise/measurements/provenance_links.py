"""Where and when a recorded number was taken, as facts for a reader and as the HTML that pages show.

In: the provenance of a record. Out: facts, a list of them with an id, and links from numbers to that list.
The site's script shows the list beside the number that is pointed at; without it the link leads there.
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


def provenance_facts(kept: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where recorded figures come from: label and value, what is not known left out.

    Args:
        kept: a record's provenance, or the values of a record by name, which hold it.
    """
    found = [("device", kept.get("device")), ("date", kept.get("date")), ("driver", kept.get("driver"))]
    for name, label, unit in _CLOCKS:
        if kept.get(name) is not None:
            found.append((label, f"{kept[name]:.0f} {unit}"))
    ceilings = kept.get("ceilings") or {}
    if "memory_gb_per_s" in ceilings:
        found.append(("fastest memory probe", f"{ceilings['memory_gb_per_s']:,.0f} GB/s"))
    versions = kept.get("versions") or {}
    shown = ", ".join(f"{label} {versions[name]}" for name, label in _VERSIONS.items() if name in versions)
    found.append(("versions", shown or None))
    taken = kept.get("rounds") or ()
    if isinstance(taken, int):  # how many, in the values of a record by name
        found.append(("rounds", taken if taken > 1 else None))
    elif len(taken) > 1:
        days = list(dict.fromkeys(str(one["date"]) for one in taken))
        over = f", from {min(days)} to {max(days)}" if len(days) > 1 else ""
        found.append(("rounds", f"{len(taken)}{over}"))
    return [(label, str(value)) for label, value in found if value]


def record_url(experiment: str, device: str) -> str:
    """Where the site has a record's file, relative to its root."""
    return f"measurements/{device_slug(device)}/{experiment}.json"


def provenance_id(experiment: str, device: str) -> str:
    """The id of the list of a record's facts."""
    return f"provenance-{device_slug(device)}-{experiment}"


def provenance_list(experiment: str, kept: Mapping[str, Any], link: Callable[[str], str]) -> str:
    """The facts of a record and links to its file and to all measurements, as one ``dl.tw-provenance-list``.

    Args:
        experiment: the experiment's name.
        kept: as ``provenance_facts``.
        link: the URL of a file of the site, relative to the page.
    """
    device = str(kept.get("device") or "")
    members = "".join(
        f"<dt>{escape(label)}</dt><dd>{escape(value)}</dd>" for label, value in provenance_facts(kept)
    )
    file = escape(link(record_url(experiment, device)))
    every = escape(f"{link('measurements/').rstrip('/')}/#{experiment}")
    return (
        f'<dl class="tw-provenance-list" id="{escape(provenance_id(experiment, device))}">{members}'
        f'<dt>record</dt><dd><a href="{file}" data-record-file>{escape(experiment)}.json</a>, '
        f'<a href="{every}">all its rows</a></dd></dl>'
    )


def spread_text(
    p20: float, median: float, p80: float, rounds: Sequence[float] = (), further: Sequence[float] = ()
) -> str:
    """The spread of a time for a reader.

    Args:
        p20: the 20th percentile of all samples, in microseconds.
        median: their median.
        p80: their 80th percentile.
        rounds: the median of each round, where there were several.
        further: from where to where another run should lie.
    """
    told = f"p20 {number(p20)} µs, median {number(median)} µs, p80 {number(p80)} µs"
    if len(rounds) > 1:
        told += f"; medians of {len(rounds)} rounds {number(min(rounds))} to {number(max(rounds))} µs"
    if len(further) == 2:
        told += f"; another run {number(further[0])} to {number(further[1])} µs"
    return told


def provenance_link(text: str, target: str, spread: str = "", classes: str = "", data: str = "") -> str:
    """A number, given as HTML, as a link to the list of where it was taken.

    Args:
        text: what is shown.
        target: the id of the list.
        spread: the spread of the time behind it, in words.
        classes: further classes.
        data: further attributes, as HTML.
    """
    named = f"tw-number {classes}".strip()
    shown = f' data-spread="{escape(spread)}"' if spread else ""
    leads = f'href="#{escape(target)}" data-provenance="{escape(target)}"'
    return f'<a class="{named}" {leads}{shown}{data}>{text}</a>'
