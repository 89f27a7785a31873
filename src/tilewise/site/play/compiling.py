"""Compiling a text under limits: in a process of its own, one text at a time.

In: a text. Out: what ``kernel/pasted.py`` makes of it, or why not. The process stays for the next text; it
and whatever it has started are ended when a text takes too long.
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
_TEXTS = 200
"""How many texts a process compiles before another takes its place: what it remembers of them adds up."""


class Compiler:
    """Compiles texts.

    Args:
        time_limit_s: after how many seconds a text is given up.
    """

    def __init__(self, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._limit = time_limit_s
        self._turn = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._said: queue.Queue[str] = queue.Queue()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._texts = 0

    def compile(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """What the page is told of a text; None where other texts are still being compiled.

        Args:
            given: ``text``, and perhaps ``kernel``, ``defines`` and ``options``.
        """
        if not self._turn.acquire(timeout=MOST_WAITING_S):
            return None
        try:
            return self._compile(json.dumps(given))
        finally:
            self._turn.release()

    def warm(self) -> None:
        """Start the process before the first text comes."""

        def start() -> None:
            with self._turn, contextlib.suppress(OSError, queue.Empty):
                self._started()

        threading.Thread(target=start, name="compiler", daemon=True).start()

    def close(self) -> None:
        """End the process."""
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
        if self._texts >= _TEXTS:
            self.close()
        try:
            child = self._started()
            assert child.stdin is not None
            child.stdin.write(line + "\n")
            child.stdin.flush()
            self._texts += 1
            said = self._said.get(timeout=self._limit)
        except queue.Empty:
            self.close()
            return _failed(f"Compiling took more than {self._limit:g} seconds and was stopped.")
        except OSError:
            said = ""
        if not said:
            self.close()
            return _failed("The compiler broke off at this text.")
        made: dict[str, Any] = json.loads(said)
        return made

    def _started(self) -> subprocess.Popen[str]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self.close()
        self._folder = tempfile.TemporaryDirectory(prefix="tilewise-play-")
        self._said = queue.Queue()
        self._texts = 0
        package = str(Path(tilewise.__file__).resolve().parents[1])
        paths = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
        here = self._folder.name
        kept = {**os.environ, "PYTHONPATH": paths, "TILEWISE_CACHE": here, "TMPDIR": here}
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tilewise.site.play.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=kept,
            cwd=here,
            start_new_session=True,
        )
        threading.Thread(target=_listen, args=(self._child, self._said), daemon=True).start()
        self._said.get(timeout=START_LIMIT_S)
        return self._child


def _listen(child: subprocess.Popen[str], said: queue.Queue[str]) -> None:
    """Hand on each line, and an empty one at the end."""
    assert child.stdout is not None
    with contextlib.suppress(OSError, ValueError):
        for line in child.stdout:
            said.put(line)
    said.put("")


def _failed(message: str) -> dict[str, Any]:
    return {"kernels": [], "notes": [], "faults": [{"line": 0, "message": message, "repair": ""}]}
