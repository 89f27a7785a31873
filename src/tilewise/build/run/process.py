"""The process that executes a lesson, as the runner sees it.

In: a ``Job``. Out: the ``Result`` of its cells, each passed to a listener as soon as it is available, or a
``LessonError``. A process can be saved as snapshots, from which an edited lesson resumes.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewise.build.run.inputs import PACKAGE
from tilewise.build.run.job import CellResult, Job, Result
from tilewise.build.run.snapshots import SnapshotChain, end
from tilewise.errors import LessonError


class Stopped(Exception):  # noqa: N818 - not an error
    """A run was stopped because its result is no longer needed."""


GRACE_S = 5.0
"""How long past its time limit a child may stay in compiled code before it is killed."""
STOP_S = 0.05
"""The interval at which a run checks whether to stop."""
LONGEST_RESULT = 64_000_000
"""The limit on message bytes per lesson; more is an error of the lesson."""


def environment() -> dict[str, str]:
    """The environment that lessons are built in: the simulator, one thread, fixed hashes."""
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
    paths = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != home]
    return {**os.environ, **fixed, "PYTHONPATH": os.pathsep.join([home, *paths])}


Listener = Callable[[Mapping[int, CellResult]], None]
"""Called after each cell, in the thread that runs the lesson, with the results of all cells so far."""


def run_job(
    job: Job,
    listen: Listener | None = None,
    chain: SnapshotChain | None = None,
    stop: threading.Event | None = None,
) -> Result:
    """Run a job in a separate process.

    Args:
        job: the lesson.
        listen: called after each cell.
        chain: the snapshots of the lesson's last run: the job resumes from the latest one that matches, and
            adds its own.
        stop: once it is set, the process is killed at its next message.

    Raises:
        LessonError: the lesson failed.
        Stopped: ``stop`` was set.
    """
    resumed = chain.resume(job) if chain is not None else None
    process = None
    if resumed is None:
        process, reading = _started(job, chain)
        start = None
    else:
        start, reading = resumed
    progress = _Progress(job, listen, chain.results_before(start) if chain is not None else {})
    result = None
    try:
        result = _result(reading, job, progress, stop)
        if result is None and chain is None and process is not None:
            raise _death(process, progress)
    finally:
        os.close(reading)
        if chain is None:
            end(process)
        elif result is not None:
            chain.keep(job, progress.cells, progress.snapshots, start)
        elif progress.ended:
            chain.drop(progress.snapshots)
        else:
            chain.close()
    return result or run_job(job, listen, stop=stop)  # without snapshots, the exit status is known


def _started(job: Job, chain: SnapshotChain | None) -> tuple[subprocess.Popen[bytes], int]:
    """Start a process; returns it and the descriptor that receives its messages."""
    reading, writing = os.pipe()
    arguments, passed = [str(writing)], [writing]
    if chain is not None:
        life = chain.begin()
        arguments += [str(chain.folder), str(life)]
        passed.append(life)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tilewise.build.run.child", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=passed,
        cwd=job.root,
        env=environment(),
        start_new_session=True,
    )
    for descriptor in passed:
        os.close(descriptor)
    if chain is not None:
        chain.process = process
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(pickle.dumps(job))
    return process, reading


def _result(reading: int, job: Job, progress: _Progress, stop: threading.Event | None) -> Result | None:
    """The result that a process sends; None if it died without sending one."""
    for message in _messages(reading, job, progress, stop):
        if (result := progress.take(message)) is not None:
            return result
        if stop is not None and stop.is_set():
            break
    if stop is not None and stop.is_set():
        progress.ended = True
        if progress.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(progress.pid, signal.SIGKILL)
        raise Stopped
    return None


def _death(process: subprocess.Popen[bytes], progress: _Progress) -> Exception:
    """The error for a process that ended without a result."""
    status = process.wait()
    if progress.begun:
        return progress.died(status)
    assert process.stderr is not None
    text = process.stderr.read().decode(errors="replace")
    return RuntimeError(f"the process that runs lessons did not start (status {status}):\n{text}")


class _Progress:
    def __init__(
        self, job: Job, listen: Listener | None = None, cells: Mapping[int, CellResult] | None = None
    ) -> None:
        self._job = job
        self._listen = listen
        self._line = job.cells[0].line if job.cells else 1
        self.begun = False
        self.ended = False
        self.pid = 0
        self.cells = dict(cells or {})
        self.snapshots: dict[int, Path] = {}

    def take(self, message: Mapping[str, Any]) -> Result | None:
        """Process a message; returns the result if it is the last one.

        Raises:
            LessonError: the lesson failed.
            RuntimeError: the child failed because of a bug in tilewise.
        """
        try:
            result = self._taken(message)
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration):
            raise self.garbled() from None
        if "done" in message and self._listen is not None:
            self._listen(self.cells)
        return result

    def _taken(self, message: Mapping[str, Any]) -> Result | None:
        self.begun, self.pid = True, message["pid"]
        match message:
            case {"cell": index}:
                self._line = next(cell.line for cell in self._job.cells if cell.index == index)
            case {"done": index, "pid": _, **fields}:
                self.cells[index] = CellResult(**fields)
            case {"snapshot": index, "address": address}:
                self.snapshots[index] = Path(address)
            case {"error": error}:
                self.ended = True
                raise LessonError(**error)
            case {"crash": text}:
                raise RuntimeError(f"tilewise failed while running {self._job.path}:\n{text}")
            case {"end": end}:
                self.ended = True
                return Result(dict(sorted(self.cells.items())), end["launches"], end["inputs"])
        return None

    def died(self, status: int) -> LessonError:
        """The error for a child that ended without a result."""
        how = f"by signal {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        message = f"the process ended {how} in the middle of this cell."
        return LessonError(
            self._job.path, self._line, message, "Raise an exception instead of leaving Python."
        )

    def garbled(self) -> LessonError:
        """The error for a lesson that wrote into the message pipe."""
        message = "the lesson wrote to a file descriptor that is not its own, in this cell or before."
        return LessonError(self._job.path, self._line, message, "Write to files that it has opened.")

    def too_long(self) -> LessonError:
        """The error for a child that ignores the time limit."""
        message = f"the cell runs for more than {self._job.time_limit_s:g} s."
        repair = "Look for a loop that does not end, or take a smaller size."
        return LessonError(self._job.path, self._line, message, repair)

    def too_much(self) -> LessonError:
        """The error for a child whose outputs are too large to publish."""
        message = f"the lesson's outputs up to this cell take more than {LONGEST_RESULT // 1_000_000} MB."
        return LessonError(self._job.path, self._line, message, "Show a part, or a smaller size.")


def _messages(
    reading: int, job: Job, last: _Progress, stop: threading.Event | None = None
) -> Iterator[dict[str, Any]]:
    """The child's messages until it closes the pipe, or until ``stop`` is set after the first one."""
    deadline = time.monotonic() + job.time_limit_s + GRACE_S
    pending = bytearray()
    total = 0
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            ready = left > 0 and selector.select(min(left, STOP_S) if stop is not None else left)
            if left <= 0 or (not ready and stop is None):
                raise last.too_long()
            if stop is not None and stop.is_set() and last.pid:
                return
            if not ready:
                continue
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
