"""``python -m tilewise.kernels``: write the ``.cu`` files of the published kernels from the lessons.

In: the lessons of this checkout. Out: the files beside this module; one that is no longer published is
deleted. A test compares them.
"""

from __future__ import annotations

from tilewise.kernels import FOLDER
from tilewise.kernels.lesson_texts import files
from tilewise.measurements.archive import lesson_root

if __name__ == "__main__":
    found = files(lesson_root())
    for path in FOLDER.glob("*.cu"):
        if path.stem not in found:
            path.unlink()
    for name, text in found.items():
        (FOLDER / f"{name}.cu").write_text(text, encoding="utf-8")
