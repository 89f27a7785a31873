"""Setting up: on machines that lack something there is a clear line, and nothing half made is left behind."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tilewise.cli import install

ROOT = Path(__file__).parent.parent
OLD = '#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.8.10" && exit 0\nexit 1\n'


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with the Makefile's files, and beside it ``bin`` with make, a shell and little else."""
    if not shutil.which("make"):
        pytest.skip("no make here")
    project, programs = tmp_path / "project", tmp_path / "bin"
    project.mkdir()
    programs.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt", install.__file__):
        source = ROOT / name
        target = project / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
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
def test_an_old_python_is_named_with_what_is_needed(machine, target):
    done = make(machine, target, OLD)
    assert done.returncode != 0
    assert "tilewise needs Python 3.11.5 or newer" in done.stderr
    assert "Found: Python 3.8.10." in done.stderr
    assert f"make {target} PYTHON=" in done.stderr
    assert not (machine / "project" / ".venv").exists()


def test_help_lists_every_target(machine):
    done = make(machine, "help", OLD)
    assert done.returncode == 0
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", "")
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:"))
    listed = {"help", "constraints"} | {line.split()[1] for line in done.stdout.splitlines()}
    assert listed == set(phony.split()[1:])


@pytest.mark.parametrize(
    "file", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda file: file.stem
)
def test_a_workflow_has_least_rights_an_end_and_no_credentials(file):
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"]
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v1"))
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_records_are_taken_of_what_a_maintainer_has_labelled_alone():
    workflow = yaml.safe_load((ROOT / ".github/workflows/record.yml").read_text(encoding="utf-8"))
    assert workflow[True] == {"pull_request": {"types": ["labeled"]}, "workflow_dispatch": None}
    (job,) = workflow["jobs"].values()
    assert "github.event.label.name == 'record'" in job["if"]
    assert not any("${{" in step.get("run", "") for step in job["steps"]), "no text of a stranger in a shell"
    assert "secrets" not in str(workflow)


def test_the_first_target_installs_what_reading_needs_and_no_other_does():
    """No reader waits for Numba, NVIDIA's compiler or a browser's driver."""
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {line.split("=")[0].split("[")[0] for line in extras["site"]}
    assert not names & {"numba", "playwright", "plotly", "pytest", "nvidia-cuda-nvrtc"}
    rules = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}: $(SITE)\n" in rules for target in ("serve", "site"))


FAILING = """
import sys
print("Collecting mkdocs==1.6.1")
print("  Downloading https://index.example/ziglang-0.17.0-py3-none-any.whl (101.0 MB)", flush=True)
print(sys.argv[1])
sys.exit(int(sys.argv[2]))
"""


def pip_that(says: str, status: int) -> list[str]:
    return [sys.executable, "-c", FAILING, says, str(status)]


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("OSError: [Errno 28] No space left on device", "The disk is full."),
        ("ProxyError('Cannot connect to proxy.')", "The proxy did not answer."),
        ("Temporary failure in name resolution", "The package index could not be reached."),
        ("ERROR: No matching distribution found for numpy", "The package index could not be reached."),
        ("PermissionError: [Errno 13] Permission denied: '.venv/lib'", "The environment cannot be written."),
        ("something else", "pip could not install the packages; what it says is above."),
    ],
)
def test_a_failure_says_what_to_do(says, told):
    status, said = install.run(pip_that(says, 1))
    assert status == 1
    assert install.remedy("\n".join(said)).startswith(told)


def test_an_environment_that_cannot_be_made_names_the_package_that_is_missing(tmp_path, monkeypatch, capsys):
    without_venv = tmp_path / "python3"
    without_venv.write_text("#!/bin/sh\necho 'ensurepip is not available'\nexit 1\n")
    without_venv.chmod(0o755)
    monkeypatch.setattr(install, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(install, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setattr(sys, "executable", str(without_venv))
    assert install.make_environment() == 1
    assert "install its venv package (python3-venv)" in capsys.readouterr().err


def test_an_interrupted_environment_is_made_anew(tmp_path, monkeypatch):
    """One with a Python but without pip, as an interrupt leaves it."""
    monkeypatch.setattr(install, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(install, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    (tmp_path / ".venv" / "left-over").touch()
    assert install.make_environment() == 0
    assert not (tmp_path / ".venv" / "left-over").exists()
    subprocess.run([str(install.PYTHON), "-c", "import pip"], check=True)
    before = time.time_ns()
    assert install.make_environment() == 0
    assert install.PYTHON.stat(follow_symlinks=False).st_mtime_ns < before
