"""Snapshots of a process that executes a lesson, so that after an edit only what follows it runs again.

In: the moments between two cells. Out: forks of the process that wait, each at a socket, until a ``Job``
comes that goes on from there. ``Snapshots`` is the process's side, ``SnapshotChain`` the runner's, which
decides which snapshot fits. One ends when it is told to, or at the end of the runner's pipe ``life``.
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
"""How long the cells between two snapshots run at least; running them again takes no longer than that."""
AT_MOST = 32
"""Snapshots of one run. Each is a process that shares its memory with the others until it is written to."""


class Snapshots:
    """Forks this process between cells, where that saves time later.

    Args:
        folder: where the sockets go.
        life: a pipe's reading end; at its end of file every snapshot ends.
    """

    def __init__(self, folder: Path, life: int) -> None:
        self._folder = folder
        self._life = life
        self._taken = 0
        self._since = float("-inf")

    def wanted(self) -> bool:
        """Whether enough has run since the last snapshot, and a fork would keep all of this process."""
        long_ago = time.monotonic() - self._since >= APART_S
        return long_ago and self._taken < AT_MOST and threading.active_count() == 1

    def take(self, descriptor: int) -> tuple[Path, tuple[Job, int] | None]:
        """Fork. The fork returns at once and goes on; this process waits, and each time it is asked, forks.

        Args:
            descriptor: where this run's messages go; the waiting process closes it.

        Returns:
            The socket at which the snapshot waits, and None; in a fork made for a later job: that job, and
            the descriptor of its messages.
        """
        address = self._folder / str(os.getpid())
        address.unlink(missing_ok=True)  # of a process with this number that has ended
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
                break  # this snapshot is no longer wanted
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                self._taken, self._since = 0, time.monotonic()
                return address, (pickle.loads(text), connection.detach())
        os._exit(0)

    def _requests(self, listener: socket.socket) -> Iterator[socket.socket]:
        """Connections of the runner, until it closes the pipe or asks this snapshot alone to end."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            watched: list[socket.socket | int] = [listener, self._life]
            if self._life in select.select(watched, [], [])[0]:
                return
            connection, _ = listener.accept()
            with connection:
                yield connection


class SnapshotChain:
    """The snapshots of one lesson's last run, as the runner holds them."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="tilewise-")
        self.folder = Path(self._temporary.name)
        self.in_use = threading.Lock()
        """Held while a run adds to the chain or goes on from it."""
        self.process: subprocess.Popen[bytes] | None = None
        """The first of them, which leads the process group of all."""
        self._results: dict[int, CellResult] = {}
        self._addresses: dict[int, Path] = {}
        self._cells: tuple[CodeCell, ...] = ()
        self._life = -1

    def resume(self, job: Job) -> tuple[int, int] | None:
        """Let the latest snapshot that fits go on with a job.

        Returns:
            The index of the cell that the snapshot was taken before, and the descriptor at which its messages
            arrive; None: none fits.
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
        except OSError:  # it is gone
            connection.close()
            self.close()
            return None
        return start, connection.detach()

    def results_before(self, start: int | None) -> dict[int, CellResult]:
        """What the cells gave that ran before a snapshot."""
        return {index: one for index, one in self._results.items() if start is not None and index < start}

    def begin(self) -> int:
        """End all snapshots, and open the pipe of new ones; its reading end, which the caller closes."""
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
        """Note what a run gave that came to its end.

        Args:
            job: what ran.
            results: by cell, those before ``start`` included.
            addresses: by cell, the sockets of the new snapshots.
            start: the cell of the snapshot that the run went on from; None: it began at the top.
        """
        for index in [index for index in self._addresses if start is None or index > start]:
            _discard(self._addresses.pop(index))
        self._addresses.update(addresses)
        self._results, self._cells = dict(results), job.cells

    @staticmethod
    def drop(addresses: Mapping[int, Path]) -> None:
        """End the snapshots of a run that failed: what its cells read is not known."""
        for address in addresses.values():
            _discard(address)

    def close(self) -> None:
        """End every snapshot, and what the lesson has started."""
        end(self.process)
        if self._life >= 0:
            os.close(self._life)
        self.process, self._life, self._cells = None, -1, ()
        self._addresses.clear()
        self._results.clear()
        for address in self.folder.iterdir():
            address.unlink(missing_ok=True)

    def delete(self) -> None:
        """As ``close``, and the folder as well."""
        self.close()
        self._temporary.cleanup()


def end(process: subprocess.Popen[bytes] | None) -> None:
    """End a process that leads its own session, and what it has started."""
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stderr is not None:
        process.stderr.close()


def _discard(address: Path) -> None:
    """Let one snapshot end."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(address))


def _received(connection: socket.socket) -> bytes:
    """What the runner sends over a connection: a job; nothing where the snapshot is to end."""
    text = bytearray()
    while part := connection.recv(1 << 16):
        text += part
    return bytes(text)
