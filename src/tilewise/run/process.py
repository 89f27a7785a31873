"""Processes that execute lessons: a fresh one for each, or children of a server with imports loaded.

In: a ``Job`` and a time limit. Out: the child's ``Result``, or a ``LessonError``. What is kept between runs
is the store's business; what happens inside the process is the child's.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewise.errors import LessonError
from tilewise.run.inputs import PACKAGE
from tilewise.run.job import Job, Result

GRACE_S = 5.0
"""How long after its time limit a child may go on in compiled code before it is killed."""
LONGEST_RESULT = 64_000_000
"""Bytes of messages from one lesson; more is a fault of the lesson."""


def environment() -> dict[str, str]:
    """The environment that lessons are built in: the simulator, one thread, the same hashes every time."""
    fixed = {
        "TILEWISE_BUILD": "1",
        "TILEWISE_BACKEND": "simulator",
        "PYTHONHASHSEED": "0",
        "PYTHONIOENCODING": "utf-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
        "TZ": "UTC",
        "COLUMNS": "100",
    }
    home = str(PACKAGE.parent)
    others = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != home]
    return {**os.environ, **fixed, "PYTHONPATH": os.pathsep.join([home, *others])}


def run_fresh(job: Job) -> Result:
    """Run a job in a process of its own."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tilewise.run.child", str(writing)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(writing,),
        cwd=job.root,
        env=environment(),
        start_new_session=True,
    )
    os.close(writing)
    assert process.stdin is not None and process.stderr is not None
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps(job.to_dict()).encode())
        last = _Progress(job)
        for message in _messages(reading, job, last):
            if (result := last.take(message)) is not None:
                return result
        status = process.wait()
        said = process.stderr.read().decode(errors="replace")
        if not last.begun:
            raise RuntimeError(f"the process that runs lessons did not start (status {status}):\n{said}")
        raise last.died(status)
    finally:
        os.close(reading)
        _end_group(process.pid)
        process.wait()
        process.stderr.close()


def _end_group(pid: int) -> None:
    """End a child that leads its own session, and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


class _Progress:
    """How far a child has come."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._line = job.cells[0].line if job.cells else 1
        self.begun = False

    def take(self, message: Mapping[str, Any]) -> Result | None:
        """Note a message; the result if it is one.

        Raises:
            LessonError: the lesson failed.
            RuntimeError: the child failed by a fault of tilewise.
        """
        self.begun = True
        if "cell" in message:
            self._line = next(cell.line for cell in self._job.cells if cell.index == message["cell"])
        elif "error" in message:
            raise LessonError(**message["error"])
        elif "crash" in message:
            raise RuntimeError(f"tilewise failed while running {self._job.path}:\n{message['crash']}")
        elif "result" in message:
            try:
                return Result.from_dict(message["result"])
            except (KeyError, TypeError, ValueError, AttributeError):
                raise self.garbled() from None
        return None

    def died(self, status: int) -> LessonError:
        """The fault of a child that ended without a result."""
        how = f"by signal {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        message = f"the process ended {how} in the middle of this cell."
        return LessonError(
            self._job.path, self._line, message, "Raise an exception instead of leaving Python."
        )

    def garbled(self) -> LessonError:
        """The fault of a child that wrote into the pipe of its messages."""
        message = "the lesson wrote to a file descriptor that is not its own, in this cell or before."
        return LessonError(self._job.path, self._line, message, "Write to files that it has opened.")

    def too_long(self) -> LessonError:
        """The fault of a child that does not even stop when its time is up."""
        message = f"the cell runs for more than {self._job.time_limit_s:g} s."
        repair = "Look for a loop that does not end, or take a smaller size."
        return LessonError(self._job.path, self._line, message, repair)

    def too_much(self) -> LessonError:
        """The fault of a child that shows more than can be published."""
        message = f"the lesson's outputs up to this cell take more than {LONGEST_RESULT // 1_000_000} MB."
        return LessonError(self._job.path, self._line, message, "Show a part, or a smaller size.")


def _messages(reading: int, job: Job, last: _Progress) -> Iterator[dict[str, Any]]:
    """The child's messages until it closes its end."""
    deadline = time.monotonic() + job.time_limit_s + GRACE_S
    pending = bytearray()
    total = 0
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise last.too_long()
            chunk = os.read(reading, 1 << 18)
            if not chunk:
                return
            total += len(chunk)
            if total > LONGEST_RESULT:
                raise last.too_much()
            pending += chunk
            if b"\n" in chunk:
                *lines, rest = pending.split(b"\n")
                pending = bytearray(rest)
                for line in lines:
                    try:
                        yield json.loads(line)
                    except ValueError:
                        raise last.garbled() from None


class Server:
    """A process with imports loaded, which forks a child for each lesson."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ours: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._loaded: dict[str, tuple[int, int]] = {}

    def run(self, job: Job) -> Result:
        """Run a job in a child of the server, which is started first where needed."""
        with self._lock:
            if not self._is_current():
                self.close()
                self._start()
            reading, writing = os.pipe()
            assert self._ours is not None
            payload = json.dumps(job.to_dict()).encode()
            try:
                socket.send_fds(self._ours, [len(payload).to_bytes(8, "big")], [writing])
                self._ours.sendall(payload)
                pid = int.from_bytes(_exactly(self._ours, 8), "big")
            except OSError:
                os.close(reading)
                self.close()
                return run_fresh(job)
            finally:
                os.close(writing)
        last = _Progress(job)
        try:
            for message in _messages(reading, job, last):
                if (result := last.take(message)) is not None:
                    return result
        finally:
            os.close(reading)
            _end_group(pid)
        return run_fresh(job)  # it died without a word: a process of its own can say how

    def _start(self) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tilewise.run.server", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=environment(),
                start_new_session=True,
            )
        try:
            size = int.from_bytes(_exactly(self._ours, 8), "big")
            paths = json.loads(_exactly(self._ours, size))
        except OSError:
            paths = []
        self._loaded = {path: _stamp(path) for path in paths}

    def _is_current(self) -> bool:
        running = self._process is not None and self._process.poll() is None
        return running and all(_stamp(path) == stamp for path, stamp in self._loaded.items())

    def start(self) -> None:
        """Start it ahead of the first lesson."""
        with self._lock:
            if not self._is_current():
                self.close()
                self._start()

    def close(self) -> None:
        """Stop the server; a child that still runs is left to its runner."""
        if self._ours is not None:
            self._ours.close()
            self._ours = None
        if self._process is not None:
            try:
                self._process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise OSError("the server of lessons has gone")
        parts += part
    return bytes(parts)


def _stamp(path: str) -> tuple[int, int]:
    try:
        stat = Path(path).stat()
    except OSError:
        return (0, 0)
    return (stat.st_mtime_ns, stat.st_size)
