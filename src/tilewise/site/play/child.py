"""The process that compiles untrusted code; ``compiling`` starts and stops it.

In: lines of JSON on stdin, each with the arguments of ``kernel/pasted.py``. Out: a line of JSON for each. Of
all files it can include only the course's headers; it has a temporary folder for clang's output and limited
memory.
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
"""Address space; the largest lesson needs a tenth of it."""
MOST_WRITTEN = 64 << 20
MOST_ANSWER = 16 << 20


def answer(request: Any) -> dict[str, Any]:
    """Return the answer for the page; code that crashes the compiler is a fault like any other."""
    try:
        result = compiled(
            request["text"], request.get("kernel"), request.get("defines"), request.get("options") or ()
        )
    except ToolchainError as error:
        return _refused(
            str(error)
            if "not installed" in str(error)
            else "The compiler stopped while compiling this kernel."
        )
    except (MemoryError, RecursionError, OSError):
        return _refused("The compiler stopped while compiling this kernel.")
    except Exception as error:
        return _refused(f"This text could not be compiled: {type(error).__name__}.")
    return result


def _refused(message: str) -> dict[str, Any]:
    return {"kernels": [], "notes": [], "faults": [{"line": 0, "message": message, "repair": ""}]}


def limit() -> None:
    """Limit the resources of this process and its children, if the system supports it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        limits = {"AS": MOST_MEMORY, "FSIZE": MOST_WRITTEN, "CORE": 0}
        for name, most in limits.items():
            kind = getattr(resource, f"RLIMIT_{name}")
            resource.setrlimit(kind, (most, most))


def main() -> None:
    """Answer requests until stdin ends."""
    limit()
    seal()
    stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else may print to stdout
    print("{}", file=stdout, flush=True)
    for line in sys.stdin:
        response = json.dumps(answer(json.loads(line)), separators=(",", ":"))
        if len(response) > MOST_ANSWER:
            response = json.dumps(_refused("This text compiles to more than the page takes. Shorten it."))
        print(response, file=stdout, flush=True)


if __name__ == "__main__":
    main()
