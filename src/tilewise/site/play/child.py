"""The process that compiles texts of strangers; ``compiling`` starts it and ends it.

In: lines of JSON on stdin, each a text as ``kernel/pasted.py`` takes it. Out: a line of JSON for each. It
finds no file but the course's headers, keeps what clang makes in a folder that goes with it, and has a limit
on memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any

from tilewise.kernel.pasted import compiled
from tilewise.simulator import ToolchainError
from tilewise.simulator.compile.compiler import seal

MOST_MEMORY = 8 << 30
"""Address space; clang takes a tenth of it for the largest lesson."""
MOST_WRITTEN = 64 << 20
MOST_ANSWER = 16 << 20


def answer(given: Any) -> dict[str, Any]:
    """What the page is told of a text; a text that breaks the compiler is a fault like others."""
    try:
        made = compiled(given["text"], given.get("kernel"), given.get("defines"), given.get("options") or ())
    except ToolchainError as error:
        return _refused(
            str(error) if "not installed" in str(error) else "The compiler broke off at this text."
        )
    except (MemoryError, RecursionError, OSError):
        return _refused("The compiler broke off at this text.")
    except Exception as error:
        return _refused(f"This text could not be compiled: {type(error).__name__}.")
    return made


def _refused(message: str) -> dict[str, Any]:
    return {"kernels": [], "notes": [], "faults": [{"line": 0, "message": message, "repair": ""}]}


def limit() -> None:
    """Limit what this process and its children may take, where the system can."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        limits = {"AS": MOST_MEMORY, "FSIZE": MOST_WRITTEN, "CORE": 0}
        for name, most in limits.items():
            kind = getattr(resource, f"RLIMIT_{name}")
            resource.setrlimit(kind, (most, most))


def main() -> None:
    """Answer lines until stdin ends."""
    limit()
    seal()
    spoken = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything else prints is no answer
    print("{}", file=spoken, flush=True)
    for line in sys.stdin:
        said = json.dumps(answer(json.loads(line)), separators=(",", ":"))
        if len(said) > MOST_ANSWER:
            said = json.dumps(_refused("This text compiles to more than the page takes. Shorten it."))
        print(said, file=spoken, flush=True)


if __name__ == "__main__":
    main()
