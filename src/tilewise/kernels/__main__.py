"""``python -m tilewise.kernels``: write the ``.cu`` files of the published kernels from the lessons.

In: the lessons of this checkout. Out: the files beside this module; one that is no longer published is
deleted. With ``--check`` nothing is written, and the exit status is 1 where a file differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tilewise.errors import LessonError
from tilewise.kernels import FOLDER
from tilewise.kernels.lesson_texts import REWRITE, files
from tilewise.measurements.archive import lesson_root


def differing(found: dict[str, str], folder: Path) -> list[str]:
    """Names of the files of a folder that are missing, stale or no longer published."""
    there = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.cu")}
    return sorted(name for name in {*found, *there} if found.get(name) != there.get(name))


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(prog=REWRITE, description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare and write nothing")
    given = parser.parse_args(arguments)
    try:
        found = files(lesson_root())
    except LessonError as error:
        print(error, file=sys.stderr)
        return 1
    stale = differing(found, folder)
    for name in stale:
        path = folder / f"{name}.cu"
        if given.check:
            print(f"{path.name} is not what the lesson says. Write it: {REWRITE}", file=sys.stderr)
        elif name in found:
            path.write_text(found[name], encoding="utf-8")
            print(f"wrote {path.name}")
        else:
            path.unlink()
            print(f"deleted {path.name}")
    return 1 if given.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
