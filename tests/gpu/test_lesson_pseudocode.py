"""Every pseudocode of the lessons, with every mistake that `mutation` knows: `agree` must notice each."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.gpu.equivalent_mutants import EQUIVALENT
from tests.mutation import mutants, survivors
from tests.sweeps import SIMULATOR
from tilewise.gpu.comparison import recorded_agreements
from tilewise.outputs import CollectingSink, installed

ROOT = Path(__file__).parents[2]
LESSONS = sorted(
    path for path in (ROOT / "lessons").glob("*/*.py") if "agree(" in path.read_text(encoding="utf-8")
)


def _sweep(path: Path) -> object:
    """A lesson with its own part of `EQUIVALENT`."""
    text = path.read_text(encoding="utf-8")
    own = {name: changes for name, changes in EQUIVALENT.items() if f"def {name}(" in text}
    name = f"{path.parent.name}/{path.stem}"
    return pytest.param(path, id=name, marks=pytest.mark.sweep(f"lessons/{name}.py", values=own))


@pytest.mark.sweep(
    *SIMULATOR,
    *(f"src/tilewise/gpu/{name}.py" for name in ("comparison", "difference")),
    *(f"src/tilewise/{name}.py" for name in ("pseudocode", "pseudocode_source")),
    "tests/mutation.py",
    packages=["numpy", "ziglang"],
)
@pytest.mark.parametrize("path", [_sweep(path) for path in LESSONS])
def test_agree_notices_every_mistake_in_a_lessons_pseudocode(path, monkeypatch):
    monkeypatch.setenv("TILEWISE_BACKEND", "simulator")
    monkeypatch.chdir(ROOT)
    with installed(CollectingSink()), recorded_agreements() as found:
        runpy.run_path(str(path))
    assert found, "the lesson compares no pseudocode with a kernel"
    for agreement in found:
        name = agreement.pseudocode.__name__
        assert len(list(mutants(agreement.pseudocode))) >= 5
        assert [one.change for one in survivors(agreement)] == EQUIVALENT.get(name, []), name
