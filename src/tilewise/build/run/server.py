"""The warm server: imports what lessons use, then forks a child for every job it is sent.

In: jobs over a socket, each with the descriptor its messages go to. Out: the child's process id. Never
touches a GPU, starts no thread, and ends when the socket closes.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path

from tilewise.build.run.child import run_job
from tilewise.build.run.inputs import PACKAGE
from tilewise.build.run.job import Job
from tilewise.build.run.snapshots import Snapshots

_PRELOADED = (
    "numpy",
    "numpy.random",
    "tilewise.outputs",
    "tilewise.cuda.cases",
    "tilewise.kernel.pseudocode",
    "tilewise.kernel.kernel",
    "tilewise.kernel.comparison",
    "tilewise.simulator",
    "tilewise.figures.kinds.chart.bar_charts",
    "tilewise.figures.kinds.block_grid",
    "tilewise.figures.kinds.chart.heat_maps",
    "tilewise.figures.kinds.chart.line_charts",
    "tilewise.figures.kinds.stepped",
    "tilewise.figures.kinds.timeline",
    "tilewise.models",
    "tilewise.measurements",
)


def serve(connection: socket.socket) -> None:
    """Take jobs until the other end closes."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.nice(5)  # whoever reads a page meanwhile comes first
    for name in _PRELOADED:
        with contextlib.suppress(Exception):  # a module that is broken just now fails in its lesson
            import_module(name)
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    own = sorted({file for file in files if file and file.startswith(str(PACKAGE))})
    payload = json.dumps(own).encode()
    connection.sendall(len(payload).to_bytes(8, "big") + payload)
    gc.freeze()
    while True:
        head, descriptors = _head(connection)
        if not head:
            return
        size = int.from_bytes(head, "big")
        got = bytearray()
        while len(got) < size:
            part = connection.recv(size - len(got))
            if not part:
                return
            got += part
        pid = os.fork()
        if pid == 0:
            os.setsid()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            connection.close()
            asked = json.loads(got)
            folder = asked["snapshots"]
            snapshots = Snapshots(Path(folder), descriptors[1]) if folder else None
            run_job(Job.from_dict(asked["job"]), descriptors[0], snapshots)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(pid.to_bytes(8, "big"))


def _head(connection: socket.socket) -> tuple[bytes, list[int]]:
    """The eight bytes that open a job, and the descriptor that came with them."""
    room = socket.CMSG_SPACE(2 * array.array("i").itemsize)
    head, ancillary, _, _ = connection.recvmsg(8, room)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data)
    return head, list(descriptors)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
