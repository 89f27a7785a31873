"""Every pseudocode of the lessons, with every mistake that `mutation` knows: `agree` must notice each."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tilewise.gpu.comparison import recorded_agreements
from tilewise.mutation import mutants, survivors
from tilewise.outputs import CollectingSink, installed

ROOT = Path(__file__).parents[2]
LESSONS = sorted(path for path in (ROOT / "lessons").glob("*/*.py") if path.stem != "puzzles")
"""Puzzles are the exception: what they ask for stands in words, and their kernels are the readers'."""

EQUIVALENT = {
    # The shift of a softmax cancels, whichever score of the row it is; and j - 1 visits all of a row's scores
    # too, from the last on, where the largest or the sum of all is taken.
    "attention_serial": ["range(N) -> range(N - 1)", "S[i, j] -> S[i, j - 1]", "S[i, j] -> S[i, j - 1]"],
    "softmax_rows": ["range(N) -> range(N - 1)", "S[i, j] -> S[i, j - 1]", "S[i, j] -> S[i, j - 1]"],
    # All words of a line hold the same number, all of them are added up, the only place is also the last one,
    # and the thread before takes an element as well as the own one.
    "lay_ring": ["ring[line, word] -> ring[line, word - 1]"],
    "chase": ["end[0] -> end[0 - 1]"],
    "reread": ["values[block, word, thread] -> values[block, word - 1, thread]"],
    "many_ways": ["order[thread] -> order[thread - 1]"],
    # More zeros behind the numbers add nothing; the shift cancels here, too.
    "sum_by_tree": ["256 - len(tile) -> 256 + len(tile)", "256 -> 257"],
    "softmax_columns": ["range(N) -> range(N - 1)", "ST[j, i] -> ST[j - 1, i]", "ST[j, i] -> ST[j - 1, i]"],
}
"""Mutants that do the same as their original."""


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: f"{path.parent.name}/{path.stem}")
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
