"""Which rows of a record hold after an edit of the lesson, and what renews their keys."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_record import record

from tilewise import Kernel, case, measure, normal, output
from tilewise.measurements import Archive, kernel_code
from tilewise.measurements.current import current, renewed, renewed_text, text_holds
from tilewise.measurements.definitions import uses_key
from tilewise.measurements.experiment import Experiment, handled_by
from tilewise.measurements.key import text_key
from tilewise.measurements.record import Record, Row, TextRecord
from tilewise.measurements.report import staleness
from tilewise.simulator import ToolchainError

TWICE = """
extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
RENAMED = TWICE.replace("int i", "int col").replace(
    "i < n) y[i] = 2.0f * x[i]", "col < n) y[col] = 2.0f * x[col]"
)
EDITED = TWICE.replace("2.0f * x[i]", "x[i] + x[i]")
CASES = [{"n": 64}, {"n": 100}]


def variant(source: str, block: int) -> Callable[..., Any]:
    kernel = Kernel(source)
    return lambda n: kernel.on(case(x=normal(n), y=output(n), n=n), grid=2, block=block)


def library(arrays: Any) -> Any:
    return lambda: 2 * arrays["x"]


def experiment(variants: Mapping[str, Callable[..., Any]], **changes: Any) -> Experiment:
    """What ``measure`` makes of variants."""
    made: list[Any] = []
    with handled_by(made.append):  # type: ignore[arg-type]
        measure(
            "twice", variants, CASES, reference=lambda x: 2 * x, **{"library": {"cupy": library}, **changes}
        )
    (one,) = made
    return one


BEFORE = experiment({"small": variant(TWICE, 64), "large": variant(TWICE, 128)})
AFTER = record(
    rows=tuple(
        Row(label, "library" if label == "cupy" else "variant", dict(of), (at,), at, at, at, None)
        for of in CASES
        for at, label in enumerate(("small", "large", "cupy"), start=1)
    )
)


@pytest.fixture
def kept() -> Record:
    """The record of the experiment before any edit, with both keys."""
    tokens = tuple(replace(row, tokens=BEFORE.tokens(row.variant, row.case)) for row in AFTER.rows)
    return renewed(BEFORE, replace(AFTER, rows=tokens))


def stale(now: Experiment, kept: Record) -> set[tuple[str, int]]:
    return {(label, dict(of)["n"]) for label, of in current(now, kept).stale}


def test_both_keys_and_the_compiler_are_in_the_record(kept):
    assert kept.compiler == kernel_code.release()
    assert all(row.tokens and bool(row.compiled) == (row.role == "variant") for row in kept.rows)
    assert len({row.tokens for row in kept.rows}) == len(kept.rows)
    assert stale(BEFORE, kept) == set()
    assert stale(BEFORE, AFTER) == {(row.variant, row.case["n"]) for row in AFTER.rows}, "rows without keys"


def test_a_rename_holds_by_the_code_and_renews_the_tokens(kept):
    now = experiment({"small": variant(RENAMED, 64), "large": variant(TWICE, 128)})
    assert stale(now, kept) == set()
    again = renewed(now, kept)
    assert again.rows[0].tokens != kept.rows[0].tokens
    assert [replace(row, tokens="") for row in again.rows] == [replace(row, tokens="") for row in kept.rows]


def test_an_edited_kernel_leaves_its_siblings_current(kept):
    now = experiment({"small": variant(EDITED, 64), "large": variant(TWICE, 128)})
    assert stale(now, kept) == {("small", 64), ("small", 100)}
    said = staleness(now, kept)
    assert said is not None
    assert "is stale for small: the code has changed since" in said.why
    assert renewed(now, kept) == kept, "the figures of another version keep its keys"


def test_after_another_clang_the_tokens_prove_the_code(kept):
    rows = tuple(replace(row, compiled=row.compiled and "f" * 64) for row in kept.rows)
    older = replace(kept, rows=rows, compiler="an older clang")
    assert stale(BEFORE, older) == set()
    assert renewed(BEFORE, older) == kept
    assert stale(experiment({"small": variant(RENAMED, 64), "large": variant(TWICE, 128)}), older) == {
        ("small", 64), ("small", 100),
    }, "of a rename and another clang at once neither proves the other"  # fmt: skip


def test_without_clang_the_tokens_are_asked_alone(kept, monkeypatch):
    def nothing(*_: object) -> str:
        raise ToolchainError("there is no clang")

    monkeypatch.setattr(kernel_code, "code_hash", nothing)
    same = experiment({"small": variant(TWICE, 64), "large": variant(TWICE, 128)})
    assert stale(same, kept) == set()
    assert renewed(same, kept) == kept
    assert renewed(same, replace(kept, compiler="")) == replace(kept, compiler="")
    assert len(stale(experiment({"small": variant(RENAMED, 64), "large": variant(TWICE, 128)}), kept)) == 2


def test_a_library_has_a_key_of_its_own_function_and_of_its_inputs(kept):
    variants = {"small": variant(TWICE, 64), "large": variant(TWICE, 128)}
    assert stale(experiment(variants, library={"numbers": library}), kept) == set()
    other = experiment(variants, library={"cupy": lambda arrays: lambda: arrays["x"] + arrays["x"]})
    assert stale(other, kept) == {("cupy", 64), ("cupy", 100)}
    kernel = Kernel(TWICE)
    seeded = {"small": lambda n: kernel.on(case(x=normal(n, seed=3), y=output(n), n=n), grid=2, block=64)}
    assert ("cupy", 64) in stale(experiment(seeded), kept)
    assert ("small", 64) in stale(experiment(seeded), kept)


def test_what_the_lesson_has_no_longer_is_left_out_once_all_else_holds(kept):
    fewer = experiment({"large": variant(TWICE, 128)})
    assert stale(fewer, kept) == set()
    assert [row.variant for row in renewed(fewer, kept).rows] == ["large", "cupy"] * 2
    edited = experiment({"large": variant(EDITED, 128)})
    assert len(renewed(edited, kept).rows) == len(kept.rows)


def test_a_text_does_not_change_with_the_module_that_a_name_comes_from():
    cell = "from tilewise.gpu.timing import Plan, Contender\nprint(Plan)"
    assert text_key(cell) == text_key(
        "from tilewise.measure import Contender\nfrom tilewise import Plan\nprint(Plan)"
    )
    assert text_key(cell) != text_key("from tilewise.gpu.timing import Plan\nprint(Plan)")
    assert text_key(cell) != text_key("from torch.timing import Plan, Contender\nprint(Plan)")


def test_the_records_of_the_course_have_both_keys_by_the_compiler_of_now():
    archive = Archive(Path(__file__).parents[2] / "lessons")
    rows = [(record, row) for record in archive.records() for row in record.rows]
    renew = "run tilewise record --pending"
    assert {record.compiler for record, _ in rows} == {kernel_code.release()}, renew
    assert [row.variant for _, row in rows if not row.tokens] == [], renew
    by_tokens = {(record.experiment, row.variant) for record, row in rows if not row.compiled}
    libraries = {(record.experiment, row.variant) for record, row in rows if row.role == "library"}
    assert by_tokens == libraries, "clang refuses these: tilewise check says why"


HELPER = '''HELPERS = r"""
static __device__ float twice(float f) { return 2.0f * f; }
static __device__ float half_of(float f) { return f / 2.0f; }
"""
KERNEL = Kernel(HELPERS + r"""
extern "C" __global__ void scale(float* x, int n) {
    #pragma unroll 4
    for (int i = 0; i < n; ++i) x[i] = fmaxf(twice(x[i]), SHIFT);
}
""", defines={"SHIFT": "1.0f"})
'''
PRINTING = 'from tilewise.kernel.machine_code import machine_code\nprint("scale", machine_code(KERNEL))'


@pytest.mark.parametrize(
    ("edits", "holds"),
    [
        ([("twice(", "doubled(")], True),
        ([("float f", "float number"), ("* f;", "* number;"), ("return f /", "return number /")], True),
        ([("half_of", "halved"), ("int i", "int col"), ("i <", "col <"), ("++i", "++col"), ("[i]", "[col]")],
         True),
        ([("tilewise.kernel.machine_code", "tilewise.sass")], True),
        ([("fmaxf(twice", "fmaxf(half_of")], False),
        ([("fmaxf", "fminf")], False),
        ([("unroll 4", "unroll 2")], False),
        ([("unroll 4", "nounroll")], False),
        ([(", SHIFT)", ", OTHER)")], False),
        ([('"SHIFT"', '"OTHER"')], False),
        ([("2.0f * f", "f * 2.0f")], False),
        ([("machine_code", "ptx")], False),
    ],
)  # fmt: skip
def test_what_a_cell_printed_holds_after_a_rename_in_the_kernels_that_it_uses(edits, holds):
    made = TextRecord("a/b", "sass", text_key(PRINTING), {}, "MOV", uses_key(PRINTING, [HELPER]))
    made = renewed_text(made, PRINTING, [HELPER])
    assert made.nameless
    kernel, cell = HELPER, PRINTING
    for old, new in edits:
        assert old in kernel + cell
        kernel, cell = kernel.replace(old, new), cell.replace(old, new)
    assert text_holds(made, cell, [kernel]) is holds
    again = renewed_text(made, cell, [kernel])
    if holds:
        assert (again.uses, again.key) == (uses_key(cell, [kernel]), text_key(cell))
    assert renewed_text(made, PRINTING, [HELPER]) == made


def text_record(kernel: str) -> TextRecord:
    made = TextRecord("a/b", "sass", text_key(PRINTING), {}, "MOV", uses_key(PRINTING, [kernel]))
    return renewed_text(made, PRINTING, [kernel])


MADE = HELPER.replace('"1.0f"', "str(1.0)")
"""No literal: what its text is, only a run says."""


def test_names_that_macros_put_together_are_not_renamed():
    pasted = MADE.replace("#pragma", "#define JOIN(a, b) a##b\n    #pragma")
    assert text_record(pasted).nameless == ""


@pytest.mark.parametrize("text", [HELPER, MADE])
def test_where_a_helper_stands_does_not_count_where_the_kernel_is_literal(text):
    own = text.replace("HELPERS + r", "r").replace('"""\nextern', '"""\n' + text.split('"""')[1] + "\nextern")
    assert own.count("twice(float") == 2
    held = text_record(text)
    assert text_holds(held, PRINTING, [own]) is (text == HELPER)
    unused = own.replace("static __device__ float half_of(float f) { return f / 2.0f; }\n", "")
    assert text_holds(held, PRINTING, [unused]) is (text == HELPER)
    assert not text_holds(held, PRINTING, [own.replace("2.0f * f", "f * 2.0f")])
    assert not text_holds(held, PRINTING, [own + "\nKERNEL = changed(KERNEL)"])


def test_a_text_record_rests_on_the_header_that_its_kernel_includes():
    body = """extern "C" __global__ void at(unsigned* out) { __shared__ int x; *out = smem_addr(&x); }"""
    helper = (
        "static __device__ unsigned smem_addr(const void* p) {return (unsigned)__cvta_generic_to_shared(p);}"
    )
    own = f"KERNEL = Kernel(r'''\n{helper}\n{body}\n''')"
    included = f"KERNEL = Kernel(r'''\n#include \"hopper.cuh\"\n{body}\n''')"
    assert text_holds(text_record(own), PRINTING, [included])
    assert not text_holds(text_record(own), PRINTING, [included.replace("*out =", "*out = 1 +")])
