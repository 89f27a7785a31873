"""Where the operators plant bugs, and where they do not."""

from __future__ import annotations

import pytest

from .operators import mutants, shared_names

TWO_OF_A_SOURCE = """
#define ME threadIdx.x
__device__ float mine(const float* x) { return x[ME]; }
template <int N> static __device__ float twice(const float* x) { return N * mine(x) + x[0]; }
extern "C" __global__
void first(const float* x, float* y, int n) {
    if (ME < n) {
        y[ME] = twice<2>(x);
    }
}
extern "C" __global__ void __launch_bounds__(64) second(const float* x, float* y, int n) {
    if (ME < n) y[ME] = x[ME];  // unlike first
}"""


def test_bugs_are_planted_into_the_kernel_that_is_launched_and_into_its_helpers() -> None:
    lines = {
        entry: {mutant.line for mutant in mutants(TWO_OF_A_SOURCE, entry=entry)}
        for entry in ("first", "second", None)
    }
    assert lines == {"first": {3, 4, 7, 8}, "second": {12}, None: {3, 4, 7, 8, 12}}


def test_what_is_shared_is_known_behind_an_alignment_and_without_brackets() -> None:
    source = (
        "__shared__ __align__(8) u64 whole, full[STAGES], free[2][N];\n__shared__ float s[4];\nint other[3];"
    )
    assert shared_names(source) == {"whole", "full", "free", "s"}


TWO_TEXTS_IN_ONE = """#define TEAM 4
#line 1
#define WIDE (TEAM * 2)
extern "C" __global__ void k(float* x, int n) {
#if WIDE > 4 && !defined(OLD)
    x[threadIdx.x] = 1.0f;
#elif TEAM == 4
    x[threadIdx.x] = 2.0f;
#else
    x[threadIdx.x] = 3.0f;
#endif
#ifdef OLD
    x[threadIdx.x] = 4.0f;
#endif
}"""


@pytest.mark.parametrize(
    ("team", "old", "lines"), [(4, False, {4}), (1, False, {8}), (4, True, {6, 11}), (1, True, {8, 11})]
)
def test_no_bug_is_planted_into_text_that_the_preprocessor_drops(
    team: int, old: bool, lines: set[int]
) -> None:
    source = TWO_TEXTS_IN_ONE.replace("TEAM 4", f"TEAM {team}" + old * "\n#define OLD")
    assert {one.line for one in mutants(source, entry="k")} == lines


@pytest.mark.parametrize(
    ("line", "accessed"),
    [
        ("float4 v[4];", []),
        ("const float a[2][8], b[C / 4] = {x[i], y[j]}, z = w[k];  // w[k] again", ["[i]", "[j]", "[k]"]),
        ("extern __shared__ __align__(16) unsigned char store[N];", []),
        ("struct Map { unsigned long long words[16]; };", []),
        ("__device__ void add(float (&to)[8][4], const float* from, int at[2]) {", []),
        ("else s[i] = ((const float4*)x)[k].x;", ["[i]", "[k]"]),
        ("ALL s[2 * r + 1][c] += a[r] * b[c];", ["[2 * r + 1]", "[c]", "[r]", "[c]"]),
        ("return word[row[i]];", ["[row[i]]"]),
        ("int i = x[3], j = y[2];", ["[3]", "[2]"]),
    ],
)
def test_no_array_is_declared_with_another_length_as_if_that_were_an_index(
    line: str, accessed: list[str]
) -> None:
    planted = [one.was for one in mutants(line) if one.operator == "index off by one"]
    assert [was.partition(" in ")[0] for was in planted if "] + 1" in was] == [f"{at} + 1" for at in accessed]
