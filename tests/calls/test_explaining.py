"""`kernels.explain`: the kernel that is launched, with its lesson, bound and nearest record."""

import numpy as np
import pytest

from tilewise import kernels
from tilewise.cuda.kernel_source import KernelError
from tilewise.kernels.calls import explaining, launching
from tilewise.kernels.published import PUBLISHED
from tilewise.measurements.archive import Archive, lesson_root


def test_every_experiment_that_is_named_has_timed_the_kernel():
    archive = Archive(lesson_root())
    for kernel, experiments in explaining.RECORDED.items():
        assert kernel in PUBLISHED
        for experiment, variant in experiments:
            rows = [row for record in archive.on_each(experiment) for row in record.rows]
            assert any(row.variant == variant and row.median for row in rows), (experiment, variant)


@pytest.mark.parametrize(
    ("call", "shapes", "how"),
    [
        ("softmax", [(3, 1000)], {}),
        ("softmax", [(3, 50_257)], {"dtype": "bfloat16"}),
        ("sum", [(5000,)], {}),
        ("transpose", [(64, 64)], {}),
        ("transpose", [(61, 63)], {}),
        ("matmul", [(130, 40), (40, 260)], {}),
        ("matmul", [(130, 40), (40, 260)], {"dtype": "bfloat16"}),
        ("attention", [(1, 2, 40, 64)], {"dtype": "bfloat16", "causal": True}),
        ("attention", [(1, 4, 40, 20), (1, 2, 50, 20)], {}),
    ],
)
def test_what_is_explained_is_what_is_launched(monkeypatch, call, shapes, how):
    launched = []
    load = launching.Choice.load
    monkeypatch.setattr(
        launching.Choice, "load", lambda self, entry=None: launched.append(self) or load(self, entry)
    )
    dtype = how.get("dtype", "float32")
    names = {"dtype": dtype} if dtype == "bfloat16" else {}
    more = {name: value for name, value in how.items() if name != "dtype"}
    shapes_given = [*shapes, shapes[-1], shapes[-1]][:3] if call == "attention" else shapes
    arrays = [np.zeros(one, np.uint16 if names else np.float32) for one in shapes_given]
    getattr(kernels, call)(*arrays, **names, **more)
    found = kernels.explain(call, *shapes, **how)
    kernel = found.kernel
    assert kernel in {one.kernel for one in launched} or (
        kernel.startswith("general/matmul") and not launched
    )
    settings = [dict(one.settings) for one in launched if one.kernel == kernel]
    assert not settings or dict(found.work.choice.settings) in settings


def test_the_lines_name_kernel_reason_lesson_bound_and_record():
    text = str(kernels.explain("attention", (4, 32, 4096, 128), dtype="bfloat16", causal=True))
    rows = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert list(rows) == ["call", "kernel", "why", "settings", "lesson", "bound", "recorded"]
    assert (rows["kernel"], rows["lesson"]) == ("attention_hopper", "attention/hopper")
    assert "us by arithmetic, on NVIDIA H" in rows["bound"]
    assert "us at N = " in rows["recorded"] and "on NVIDIA H" in rows["recorded"]


def test_the_bound_counts_pairs_that_are_seen_and_bytes_once():
    full = kernels.explain("attention", (1, 1, 1000, 64), dtype="bfloat16")
    causal = kernels.explain("attention", (1, 1, 1000, 64), dtype="bfloat16", causal=True)
    assert full.work.flop == 4 * 1000 * 1000 * 64
    assert causal.work.flop == 4 * (1000 * 1001 / 2) * 64
    assert full.work.bytes == 2 * 4 * 1000 * 64
    assert kernels.explain("matmul", (10, 20), (20, 30)).work.flop == 2 * 10 * 20 * 30
    assert kernels.explain("softmax", (10, 20)).work.bytes == 2 * 4 * 200


def test_the_nearest_record_is_that_of_the_nearest_size():
    near = [kernels.explain("matmul", (n, n), (n, n), dtype="bfloat16").timed for n in (4000, 8160)]
    assert [one.case for one in near] == [f"M = {n}, N = {n}, K = {n}" for n in ("4,096", "8,192")]
    assert kernels.explain("softmax", (7, 50_256)).timed.case == "rows = 256, cols = 65,536"
    causal = kernels.explain("attention", (1, 16, 3000, 128), dtype="bfloat16", causal=True).timed.case
    assert causal == "N = 4,096, d = 128, causal = True"


def test_without_records_the_kernel_is_still_named(monkeypatch):
    monkeypatch.setattr(explaining, "_archive", lambda: None)
    found = kernels.explain("softmax", (4, 1000))
    assert (found.bound, found.timed) == (None, None)
    assert "unknown, because there are no records" in str(found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("softmaks", (3, 4)), 'no function "softmaks". Did you mean "softmax"'),
        (("matmul", (3, 4), (5, 6)), "do not fit matmul: the inner extents 4 and 5 differ"),
        (("transpose", (3,)), "do not fit transpose"),
        (("sum",), "do not fit sum"),
    ],
)
def test_what_cannot_be_explained_is_refused(given, message):
    with pytest.raises(KernelError, match=f"^explain: .*{message}"):
        kernels.explain(*given)
