"""Compiling with limits: in a process of its own, one kernel at a time.

In: a kernel's text. Out: the result of ``kernel/pasted.py``, or a fault. The process is reused; it and its
children are killed if a kernel takes too long.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import tilewise

TIME_LIMIT_S = 20.0
START_LIMIT_S = 60.0
MOST_WAITING_S = 30.0
_MOST_KERNELS = 200
"""How many kernels a process compiles before it is replaced, because its memory use grows."""


class Compiler:
    """Compiles kernels.

    Args:
        time_limit_s: time in seconds after which a compilation is stopped.
    """

    def __init__(self, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._limit = time_limit_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def compile(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer for the page; None if other kernels are still being compiled.

        Args:
            request: ``text``, and optionally ``kernel``, ``defines`` and ``options``.
        """
        if not self._lock.acquire(timeout=MOST_WAITING_S):
            return None
        try:
            return self._compile(json.dumps(request))
        finally:
            self._lock.release()

    def warm(self) -> None:
        """Start the process before the first request."""

        def start() -> None:
            with self._lock, contextlib.suppress(OSError, queue.Empty):
                self._process()

        threading.Thread(target=start, name="compiler", daemon=True).start()

    def close(self) -> None:
        """Kill the process."""
        child, self._child = self._child, None
        if child is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _compile(self, line: str) -> dict[str, Any]:
        if self._count >= _MOST_KERNELS:
            self.close()
        try:
            child = self._process()
            assert child.stdin is not None
            child.stdin.write(line + "\n")
            child.stdin.flush()
            self._count += 1
            answer = self._answers.get(timeout=self._limit)
        except queue.Empty:
            self.close()
            return _failed(f"Compiling took more than {self._limit:g} seconds and was stopped.")
        except OSError:
            answer = ""
        if not answer:
            self.close()
            return _failed("The compiler stopped while compiling this kernel.")
        result: dict[str, Any] = json.loads(answer)
        return result

    def _process(self) -> subprocess.Popen[str]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self.close()
        self._folder = tempfile.TemporaryDirectory(prefix="tilewise-play-")
        self._answers = queue.Queue()
        self._count = 0
        package = str(Path(tilewise.__file__).resolve().parents[1])
        paths = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
        here = self._folder.name
        environment = {**os.environ, "PYTHONPATH": paths, "TILEWISE_CACHE": here, "TMPDIR": here}
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tilewise.site.play.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=environment,
            cwd=here,
            start_new_session=True,
        )
        threading.Thread(target=_listen, args=(self._child, self._answers), daemon=True).start()
        self._answers.get(timeout=START_LIMIT_S)
        return self._child


def _listen(child: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
    """Put each line into the queue, and an empty string at the end."""
    assert child.stdout is not None
    with contextlib.suppress(OSError, ValueError):
        for line in child.stdout:
            answers.put(line)
    answers.put("")


def _failed(message: str) -> dict[str, Any]:
    return {"kernels": [], "notes": [], "faults": [{"line": 0, "message": message, "repair": ""}]}
