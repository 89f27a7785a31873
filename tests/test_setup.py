"""The Makefile where something is missing: a clear line, nothing left behind. The rights of workflows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
OLD = '#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.8.10" && exit 0\nexit 1\n'
WITHOUT_VENV = '#!/bin/sh\n[ "$1" = -m ] && exit 1\n[ "$1" = --version ] && echo "Python 3.12.1"\nexit 0\n'


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with the Makefile's files, and beside it ``bin`` with make, a shell and little else."""
    if not shutil.which("make"):
        pytest.skip("no make here")
    project, programs = tmp_path / "project", tmp_path / "bin"
    project.mkdir()
    programs.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, project)
    for name in ("make", "sh", "touch", "sed", "mv", "rm"):
        (programs / name).symlink_to(str(shutil.which(name)))
    return tmp_path


def make(machine: Path, target: str, python: str) -> subprocess.CompletedProcess[str]:
    program = machine / "bin" / "python3"
    program.write_text(python)
    program.chmod(0o755)
    return subprocess.run(
        ["make", target],
        cwd=machine / "project",
        env={"PATH": str(machine / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("target", ["serve", "test"])
def test_an_old_python_is_named_with_what_is_needed(machine: Path, target: str) -> None:
    done = make(machine, target, OLD)
    assert done.returncode != 0
    assert "tilewise needs Python 3.11.5 or newer" in done.stderr
    assert "Found: Python 3.8.10." in done.stderr
    assert f"make {target} PYTHON=" in done.stderr
    assert not (machine / "project" / ".venv").exists()


def test_a_python_that_cannot_make_environments_says_which_package_to_install(machine: Path) -> None:
    done = make(machine, "serve", WITHOUT_VENV)
    assert done.returncode != 0
    assert "python3-venv" in done.stderr
    assert not (machine / "project" / ".venv" / ".ready").exists()


def test_help_lists_every_target(machine: Path) -> None:
    done = make(machine, "help", OLD)
    assert done.returncode == 0
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", "")
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:"))
    listed = {"help", "constraints"} | {line.split()[1] for line in done.stdout.splitlines()}
    assert listed == set(phony.split()[1:])


def test_what_the_quick_tests_leave_out_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", "")
    slow = next(line for line in makefile.splitlines() if line.startswith("SLOW :="))
    assert [name for name in slow.split()[2:] if not (ROOT / "tests" / name).exists()] == []


@pytest.mark.parametrize(
    "file", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda file: file.stem
)
def test_a_workflow_has_least_rights_an_end_and_no_credentials(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"]
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v1"))
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
