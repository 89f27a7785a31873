"""The machines that readers can choose from: every device with records, under a short name.

In: the archive and the device table. Out: folders and names, the course's own device first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from tilewise.measurements.archive import MACHINES, Archive, lesson_root
from tilewise.measurements.slugs import device_slug
from tilewise.models.devices import Device, device


def machines(archive: Archive) -> list[dict[str, str]]:
    """Each device with a readable record, as ``{"id": folder, "name": short name}``."""
    drivers = {folder: name for folder in archive.devices if (name := _driver(archive.folder / folder))}
    names = {folder: driver_name(driver) for folder, driver in drivers.items()}
    ambiguous = {name for name in names.values() if list(names.values()).count(name) > 1}
    return [
        {"id": folder, "name": drivers[folder] if name in ambiguous else name}
        for folder, name in names.items()
    ]


def beside_each_other(parts: Mapping[str, str]) -> str:
    """HTML of several machines as one block; a page shows the part of the selected machine.

    Args:
        parts: each machine's HTML by its folder, the default machine first.
    """
    if not parts:
        return ""
    first, *others = parts
    templates = [
        f'<template data-machine="{escape(folder)}" data-search-exclude>\n{parts[folder]}\n</template>'
        for folder in others
    ]
    return "\n".join(
        [f'<div class="tw-machines" data-shown="{escape(first)}">', parts[first], *templates, "</div>"]
    )


def recorded_device() -> Device:
    """The device table's entry of the GPU whose records a lesson shows; an H100 without records.

    A build runs code that uses it once for each machine with records.
    """
    archive = Archive(lesson_root())
    entry = device(_driver(archive.folder / archive.wanted)) or device(MACHINES[0])
    assert entry is not None, "the device table has lost the course's own machine"
    return entry


def short_name(entry: Device) -> str:
    """``H100`` for ``H100 SXM``."""
    return re.sub(r" (SXM|PCIe|NVL)\b.*", "", entry.name)


def _driver(folder: Path) -> str:
    """The driver's name of a folder's device; malformed records are skipped, because others report them."""
    for path in sorted(folder.glob("*.json")):
        try:
            name = str(json.loads(path.read_text(encoding="utf-8"))["provenance"]["device"])
        except (ValueError, KeyError, TypeError, OSError):
            continue
        if device_slug(name) == folder.name:
            return name
    return ""


def driver_name(driver: str) -> str:
    """``H100`` for ``NVIDIA H100 80GB HBM3``: the device table's name without socket and memory."""
    entry = device(driver)
    return short_name(entry) if entry else driver.removeprefix("NVIDIA ")
