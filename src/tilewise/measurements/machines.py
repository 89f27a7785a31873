"""The machines that readers can choose between: every device with records, under a short name.

In: the archive and the device table. Out: folders and names, the course's own device first. What a page does
with them is left to ``web/site/machines.js``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tilewise.measurements.archive import Archive
from tilewise.measurements.slugs import device_slug
from tilewise.models.devices import device


def machines(archive: Archive) -> list[dict[str, str]]:
    """Each device with a record that can be read, as ``{"id": folder, "name": short name}``."""
    drivers = {folder: name for folder in archive.devices if (name := _driver(archive.folder / folder))}
    names = {folder: _short(driver) for folder, driver in drivers.items()}
    several = {name for name in names.values() if list(names.values()).count(name) > 1}
    return [
        {"id": folder, "name": drivers[folder] if name in several else name} for folder, name in names.items()
    ]


def _driver(folder: Path) -> str:
    """The name that the driver gives the device of a folder; what is wrong with its records others say."""
    for path in sorted(folder.glob("*.json")):
        try:
            name = str(json.loads(path.read_text(encoding="utf-8"))["provenance"]["device"])
        except (ValueError, KeyError, TypeError, OSError):
            continue
        if device_slug(name) == folder.name:
            return name
    return ""


def _short(driver: str) -> str:
    """``H100`` for ``NVIDIA H100 80GB HBM3``: the device table's name without socket and memory."""
    entry = device(driver)
    return re.sub(r" (SXM|PCIe|NVL)\b.*", "", entry.name if entry else driver.removeprefix("NVIDIA "))
