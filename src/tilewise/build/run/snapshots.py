"""Snapshots of a process that executes a lesson, so that after an edit only the cells below it run again.

In: the state between two cells. Out: forks of the process, each waiting at a socket for a ``Job`` that
resumes from there. ``Snapshots`` is the process's side; ``SnapshotChain`` is the runner's, which chooses the
snapshot. A snapshot ends on request, or when the runner closes the pipe ``life``.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tilewise.build.run.job import CellResult, CodeCell, Job

APART_S = 0.1
"""Minimum run time of the cells between two snapshots; cells that are faster are simply run again."""
AT_MOST = 32
"""Maximum snapshots per run. Each is a process that shares its memory copy-on-write with the others."""


class Snapshots:
    """Forks this process between cells where that saves time later.

    Args:
        folder: the folder for the sockets.
        life: the read end of a pipe; at its end of file every snapshot exits.
    """

    def __init__(self, folder: Path, life: int) -> None:
        self._folder = folder
        self._life = life
        self._taken = 0
        self._since = float("-inf")

    def wanted(self) -> bool:
        """Whether enough time has passed since the last snapshot, and there are no other threads to lose."""
        long_ago = time.monotonic() - self._since >= APART_S
        return long_ago and self._taken < AT_MOST and threading.active_count() == 1

    def take(self, descriptor: int) -> tuple[Path, tuple[Job, int] | None]:
        """Fork. The child returns at once and continues; this process waits and forks again on each request.

        Args:
            descriptor: where this run's messages go; the waiting process closes it.

        Returns:
            The socket at which the snapshot waits, and None; in a fork for a later job: that job and the
            descriptor of its messages.
        """
        address = self._folder / str(os.getpid())
        address.unlink(missing_ok=True)  # of an ended process with the same pid
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(address))
        listener.listen(1)
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        if os.fork() == 0:
            listener.close()
            signal.setitimer(signal.ITIMER_REAL, left)
            self._taken += 1
            self._since = time.monotonic()
            return address, None
        os.close(descriptor)
        for connection in self._requests(listener):
            if not (text := _received(connection)):
                break  # this snapshot is no longer needed
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                self._taken, self._since = 0, time.monotonic()
                return address, (pickle.loads(text), connection.detach())
        os._exit(0)

    def _requests(self, listener: socket.socket) -> Iterator[socket.socket]:
        """Connections from the runner, until it closes the pipe or asks this snapshot alone to end."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            watched: list[socket.socket | int] = [listener, self._life]
            if self._life in select.select(watched, [], [])[0]:
                return
            connection, _ = listener.accept()
            with connection:
                yield connection


class SnapshotChain:
    """The snapshots of one lesson's last run, on the runner's side."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="tilewise-")
        self.folder = Path(self._temporary.name)
        self.in_use = threading.Lock()
        """Locked while a run adds to the chain or resumes from it."""
        self.process: subprocess.Popen[bytes] | None = None
        """The first process, the leader of the snapshots' process group."""
        self._results: dict[int, CellResult] = {}
        self._addresses: dict[int, Path] = {}
        self._cells: tuple[CodeCell, ...] = ()
        self._life = -1

    def resume(self, job: Job) -> tuple[int, int] | None:
        """Resume a job from the latest snapshot that matches it.

        Returns:
            The index of the cell that the snapshot was taken before, and the descriptor at which its messages
            arrive; None if no snapshot matches.
        """
        same = 0
        for old, new in zip(self._cells, job.cells, strict=False):
            if old != new or old.index not in self._results:
                break
            same += 1
        start = max((index for index in self._addresses if index <= same), default=None)
        if start is None:
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(self._addresses[start]))
            connection.sendall(pickle.dumps(job))
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # the snapshot is gone
            connection.close()
            self.close()
            return None
        return start, connection.detach()

    def results_before(self, start: int | None) -> dict[int, CellResult]:
        """The results of the cells before a snapshot."""
        return {at: result for at, result in self._results.items() if start is not None and at < start}

    def begin(self) -> int:
        """End all snapshots and open a new pipe; returns its read end, which the caller closes."""
        self.close()
        reading, self._life = os.pipe()
        return reading

    def keep(
        self,
        job: Job,
        results: Mapping[int, CellResult],
        addresses: Mapping[int, Path],
        start: int | None,
    ) -> None:
        """Store the results and snapshots of a completed run.

        Args:
            job: the job that ran.
            results: the results by cell, including those before ``start``.
            addresses: the sockets of the new snapshots, by cell.
            start: the cell of the snapshot that the run resumed from; None if it began at the top.
        """
        for index in [index for index in self._addresses if start is None or index > start]:
            _discard(self._addresses.pop(index))
        self._addresses.update(addresses)
        self._results, self._cells = dict(results), job.cells

    @staticmethod
    def drop(addresses: Mapping[int, Path]) -> None:
        """End the snapshots of a failed run, because the files that its cells read are unknown."""
        for address in addresses.values():
            _discard(address)

    def close(self) -> None:
        """End every snapshot and the lesson's other processes."""
        end(self.process)
        if self._life >= 0:
            os.close(self._life)
        self.process, self._life, self._cells = None, -1, ()
        self._addresses.clear()
        self._results.clear()
        for address in self.folder.iterdir():
            address.unlink(missing_ok=True)

    def delete(self) -> None:
        """Close, and delete the folder."""
        self.close()
        self._temporary.cleanup()


def end(process: subprocess.Popen[bytes] | None) -> None:
    """Kill a session leader and its process group."""
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stderr is not None:
        process.stderr.close()


def _discard(address: Path) -> None:
    """Ask one snapshot to end."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(address))


def _received(connection: socket.socket) -> bytes:
    """The job that the runner sends over a connection; empty if the snapshot is to end."""
    text = bytearray()
    while part := connection.recv(1 << 16):
        text += part
    return bytes(text)
