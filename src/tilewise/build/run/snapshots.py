"""Snapshots of a process that executes a lesson, so that after an edit only what follows it runs again.

In: the moments between two cells. Out: forks of the process that wait, each at a socket, until a ``Job``
comes that goes on from there. ``Snapshots`` is the process's side, ``SnapshotChain`` the runner's, which
decides which snapshot fits. One ends when it is told to, or at the end of the runner's pipe ``life``.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
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
        with contextlib.suppress(OSError):
            for connection in self._requests(listener):
                job, descriptor = _receive(connection)
                if os.fork() == 0:
                    listener.close()
                    connection.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    self._taken, self._since = 0, time.monotonic()
                    return address, (job, descriptor)
                os.close(descriptor)
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
        self.group = 0
        """The process group of all of them; 0: there are none."""
        self._results: dict[int, CellResult] = {}
        self._addresses: dict[int, Path] = {}
        self._cells: tuple[CodeCell, ...] = ()
        self._life = -1

    def fits(self, job: Job) -> bool:
        """Whether the last run was of this job, to its end."""
        return self._cells == job.cells and len(self._results) == len(job.cells)

    def resume(self, job: Job, descriptor: int) -> int | None:
        """Let the latest snapshot that fits go on with a job.

        Args:
            job: the job.
            descriptor: where its messages go.

        Returns:
            The index of the cell that the snapshot was taken before; None: none fits.

        Raises:
            OSError: the snapshot is gone.
        """
        same = 0
        for old, new in zip(self._cells, job.cells, strict=False):
            if old != new or old.index not in self._results:
                break
            same += 1
        start = max((index for index in self._addresses if index <= same), default=None)
        if start is None:
            return None
        payload = json.dumps(job.to_dict()).encode()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(10)
            connection.connect(str(self._addresses[start]))
            socket.send_fds(connection, [len(payload).to_bytes(8, "big")], [descriptor])
            connection.sendall(payload)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)  # its end of file says that the fork is made
        return start

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
        if self.group:
            end_group(self.group)
        if self._life >= 0:
            os.close(self._life)
        self.group, self._life, self._cells = 0, -1, ()
        self._addresses.clear()
        self._results.clear()
        for address in self.folder.iterdir():
            address.unlink(missing_ok=True)

    def delete(self) -> None:
        """As ``close``, and the folder as well."""
        self.close()
        self._temporary.cleanup()


def end_group(pid: int) -> None:
    """End a child that leads its own session, and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _discard(address: Path) -> None:
    """Let one snapshot end."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(address))


def _receive(connection: socket.socket) -> tuple[Job, int]:
    """A job and the descriptor of its messages.

    Raises:
        OSError: the connection ended without them: the snapshot is to end.
    """
    head, descriptors, _, _ = socket.recv_fds(connection, 8, 1)
    if len(head) < 8 or not descriptors:
        raise OSError("this snapshot is wanted no longer")
    got = bytearray()
    while part := connection.recv(1 << 16):
        got += part
    if len(got) != int.from_bytes(head, "big"):
        raise OSError("a job ended in the middle")
    return Job.from_dict(json.loads(got)), descriptors[0]
