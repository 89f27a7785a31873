"""``python -m tilewise.kernels``: write the ``.cu`` files of the published kernels from the lessons.

In: the lessons of this checkout. Out: the files next to this module; those of kernels no longer published are
deleted. A test compares them with the lessons.
"""

from __future__ import annotations

from tilewise.kernels import FOLDER
from tilewise.kernels.lesson_texts import files
from tilewise.measurements.archive import lesson_root

if __name__ == "__main__":
    texts = files(lesson_root())
    for path in FOLDER.glob("*.cu"):
        if path.stem not in texts:
            path.unlink()
    for name, text in texts.items():
        (FOLDER / f"{name}.cu").write_text(text, encoding="utf-8")
