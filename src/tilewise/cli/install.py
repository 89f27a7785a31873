"""Sets up ``.venv`` for ``make serve`` and the like, with the packages for reading or developing.

In: the name of an extra of pyproject.toml, ``site`` or ``dev``. Out: ``.venv`` with its packages, a line at
least every two seconds, and the repair after a failure. Any recent Python runs it as a file, before anything
is installed, so it imports only the standard library.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
OFTEN_S = 1.5
NODE_AT_LEAST = 20
REMEDIES = (
    (r"No space left on device|Errno 28", "The disk is full. Reading needs about 1 GB, developing 2 GB."),
    (
        r"ProxyError|Cannot connect to proxy|Tunnel connection failed",
        "The proxy did not answer. Check HTTPS_PROXY, or unset it where none is needed.",
    ),
    (
        r"name resolution|NewConnectionError|ConnectTimeout|Connection refused|timed out"
        r"|Network is unreachable|Could not find a version|No matching distribution",
        "The package index could not be reached. Check the connection; behind a proxy set HTTPS_PROXY.",
    ),
    (r"Permission denied|Errno 13", "The environment cannot be written. Delete .venv, and do not use sudo."),
)
"""Patterns in pip's output when it fails, and messages for the reader."""


def main() -> int:
    """Set up ``.venv`` and install an extra.

    Returns:
        The exit status: 0, or that of the step that failed.
    """
    extra = sys.argv[1]
    purpose = {"site": "reading the course", "dev": "developing it"}[extra]
    print(f"Setting up .venv for {purpose}. This happens once.", flush=True)
    began = time.monotonic()
    try:
        status = make_environment() or install(extra)
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again; what was installed is kept.", file=sys.stderr)
        return 130
    if status == 0:
        warm_up()
        print(f"Set up in {time.monotonic() - began:.0f} s.", flush=True)
    return status


def make_environment() -> int:
    """Create ``.venv``, unless it has pip and a Python that is new enough; return the exit status."""
    test = "import pip, sys; sys.exit(sys.version_info < (3, 11, 5))"
    if (
        PYTHON.exists()
        and subprocess.run([PYTHON, "-c", test], capture_output=True, check=False).returncode == 0
    ):
        return 0
    with mentioned(lambda: f"Making .venv with Python {sys.version.split()[0]}"):
        command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        text = (done.stdout + done.stderr).strip()
        print(
            f"{text}\n{sys.executable} could not make a virtual environment. On Debian or Ubuntu install its "
            "venv package (python3-venv).",
            file=sys.stderr,
        )
    return done.returncode


def install(extra: str) -> int:
    """Install an extra of this project; return the exit status."""
    extras = extra if has_node() else f"{extra},node"
    command = [str(PYTHON), "-m", "pip", "install", "--progress-bar", "off"]
    if extra == "site":  # Python compiles modules when a reader's commands first import them
        command += ["--no-compile"]
    command += [
        "--disable-pip-version-check",
        "--constraint",
        "constraints.txt",
        "--editable",
        f".[{extras}]",
    ]
    status, lines = run(command)
    if status:
        print("\n".join(lines[-12:]), file=sys.stderr)
        print(remedy("\n".join(lines)), file=sys.stderr)
    return status


def warm_up() -> None:
    """Import the modules of the first start once, to compile them."""
    with mentioned(lambda: "Compiling what the first start imports"):
        code = "import mkdocs.commands.serve, mkdocs.config; mkdocs.config.load_config('mkdocs.yml')"
        subprocess.run([PYTHON, "-c", code], cwd=ROOT, capture_output=True, check=False)


def has_node() -> bool:
    """Whether the system has a Node that can bundle the site's scripts."""
    node = shutil.which("node")
    if not node or not shutil.which("npm"):
        return False
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = re.match(r"v(\d+)\.", done.stdout)
    return version is not None and int(version[1]) >= NODE_AT_LEAST


def run(command: list[str]) -> tuple[int, list[str]]:
    """Run pip and print its last line repeatedly; return its status and its lines."""
    lines = ["Asking the package index"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        try:
            with mentioned(lambda: lines[-1][:90]):
                lines += (line for line in map(str.strip, process.stdout) if line)
            return process.wait(), lines
        finally:
            process.kill()


@contextmanager
def mentioned(text: Callable[[], str]) -> Iterator[None]:
    """Print a text, repeatedly while the ``with`` block runs."""
    done = threading.Event()
    began = time.monotonic()
    print(f"  {text()}", flush=True)

    def mention() -> None:
        while not done.wait(OFTEN_S):
            print(f"  {text()} ({time.monotonic() - began:.0f} s)", flush=True)

    threading.Thread(target=mention, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def remedy(output: str) -> str:
    """What to do about a failure of pip."""
    for pattern, text in REMEDIES:
        if re.search(pattern, output):
            return f"{text} Then run the same command again."
    return "pip could not install the packages; what it says is above."


if __name__ == "__main__":
    sys.exit(main())
