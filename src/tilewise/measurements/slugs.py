"""Slugs: how devices, variants and cases are spelt in file names and in look-ups from prose.

``NVIDIA H100 80GB HBM3`` is the folder ``nvidia-h100-80gb-hbm3``. In ``{{ vector_add.float4.n_1024.median |
us }}`` the variant ``float4`` and the case ``{"n": 1024}`` are in lower case, with one underscore for every
run of other characters; parameters are joined as ``name_value`` in the case's order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def device_slug(name: str) -> str:
    """The folder of a device's records."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def name_slug(name: str) -> str:
    """A variant's or library's label in a look-up; an underscore precedes a leading digit."""
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return f"_{slug}" if slug[:1].isdigit() else slug


def case_slug(case: Mapping[str, Any]) -> str:
    """A case's parameters in a look-up, e.g. ``n_1024_d_64``; ``only`` without parameters."""
    return "_".join(name_slug(f"{name} {_number(value)}") for name, value in case.items()) or "only"


def case_text(case: Mapping[str, Any]) -> str:
    """A case's parameters for readers, e.g. ``n = 1,024, d = 64``; large powers of two as 2²⁶."""
    return ", ".join(f"{name} = {_shown(value)}" for name, value in case.items())


def heading_slug(heading: str, separator: str = "-") -> str:
    """The anchor of a heading, e.g. ``two-coordinates-then-three``; letters of all scripts are kept."""
    return re.sub(r"[\s_-]+", separator, re.sub(r"[^\w\- ]+", "", heading).strip()).lower()


def _number(value: Any) -> str:
    return (
        str(value).replace("-", "minus ").replace(".", "_") if isinstance(value, int | float) else str(value)
    )


def _shown(value: Any) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return str(value)
    if value >= 2**20 and value.bit_count() == 1:
        return "2" + str(value.bit_length() - 1).translate(_RAISED)
    return f"{value:,}"
