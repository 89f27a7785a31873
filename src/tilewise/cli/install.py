"""``make serve`` and the like set up ``.venv`` by this: with what reading needs, or what developing needs.

In: the name of an extra of pyproject.toml, ``site`` or ``dev``. Out: ``.venv`` with its packages; pip prints
what it does. Run as a file by any Python that is new enough, before anything is installed: it imports the
standard library alone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
NODE_AT_LEAST = 20


def main() -> int:
    """Set up ``.venv`` and install an extra.

    Returns:
        The exit status: 0, or that of what failed.
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
    """Make ``.venv`` unless it is there, with a Python that is new enough and pip; the exit status."""
    test = "import pip, sys; sys.exit(sys.version_info < (3, 11, 5))"
    if (
        PYTHON.exists()
        and subprocess.run([PYTHON, "-c", test], capture_output=True, check=False).returncode == 0
    ):
        return 0
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print((done.stdout + done.stderr).strip(), file=sys.stderr)
        print(
            f"{sys.executable} could not make a virtual environment. On Debian or Ubuntu install its venv "
            "package (python3-venv).",
            file=sys.stderr,
        )
    return done.returncode


def install(extra: str) -> int:
    """Install an extra of this project; the exit status."""
    extras = extra if has_node() else f"{extra},node"
    command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--constraint", "constraints.txt", "--editable", f".[{extras}]"]
    if extra == "site":  # Python compiles what a reader's commands import, when they first do
        command += ["--no-compile"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def warm_up() -> None:
    """Import once what the first start imports, which leaves its bytecode behind."""
    print("Compiling what the first start imports", flush=True)
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


if __name__ == "__main__":
    sys.exit(main())
