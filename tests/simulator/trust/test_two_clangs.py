"""The same kernels through the clang of another release: outputs and memory traffic must be equal.

For a new release of ziglang: `make other-clang`, which installs the other one beside the packages in `.venv`,
then `pytest --all tests/simulator/trust/test_two_clangs.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tilewise.cases import case
from tilewise.gpu import compile_gate
from tilewise.gpu.kernel import Kernel
from tilewise.gpu.launch import Launch
from tilewise.hardware import clangs, global_memory
from tilewise.hardware.clangs import MAY_DIFFER, OTHER, Difference, another, differences, flat, load_clangs
from tilewise.hardware.collection import OWN as SPECIMENS
from tilewise.hardware.lessons import noted
from tilewise.hardware.renewal import clangs_key
from tilewise.hardware.resources import examine
from tilewise.simulator.hazards import HazardError
from tilewise.simulator.toolchain import CLANG, ToolchainError, clang, zig

from .corpus import OWN, Subject

LESSON_FILES = Path(__file__).parents[3] / "lessons"


def other_clang(test: Callable[..., None]) -> Callable[..., None]:
    """Marks a test that needs the other release, and holds until there is a new one of either."""
    missing = f"{OTHER} is missing: make {OTHER.parents[1].name} installs it"
    swept = pytest.mark.sweep("src/tilewise/hardware/clangs.json", packages=["ziglang"])(test)
    return pytest.mark.skipif(not OTHER.is_file(), reason=missing)(swept)


nvidias_compiler = pytest.mark.skipif(
    compile_gate.available() is not None,
    reason=f"which arrays are in registers is not known: {compile_gate.available()}",
)


@other_clang
def test_it_is_another_clang() -> None:
    ours = zig()
    with another(OTHER):
        assert zig() == OTHER and str(OTHER) in clang()
    assert zig() == ours != OTHER and clang() == CLANG
    assert clangs.version(OTHER) != clangs.version(ours)


FIXED = [one for group in SPECIMENS.values() for one in group]


def test_the_record_is_of_these_specimens_and_of_this_simulator() -> None:
    record = load_clangs()
    assert record.key == clangs_key(record.other, [one.key for one in FIXED]), "make records"
    assert record.kernels == len(FIXED)
    assert {one.count for one in record.found} <= set(MAY_DIFFER)


@other_clang
def test_the_record_is_what_the_two_make_of_every_specimen() -> None:
    record = load_clangs()
    assert (record.ours, record.other) == (CLANG.rpartition("clang ")[2], clangs.version(OTHER))
    assert tuple(differences({one.name: one.launch for one in FIXED}, OTHER)) == record.found, "make records"


def _copies_sums(kernel: Kernel) -> bool:
    """Whether the other release copies sums that a `wgmma` is still adding to into other registers.

    That is forbidden, and the simulator says so. Sums are picked by the block's rank there, and clang makes a
    loop for each rank. NVIDIA's compiler leaves the sums where they are: its code is right on an H100.
    """
    return kernel.name == "few_tiles" and kernel.defines["PARTS"] == 2


@other_clang
def test_the_other_release_moves_sums_that_are_not_there_yet_in_one_kernel() -> None:
    moved = [
        launch
        for one in noted(LESSON_FILES)["matmul/shared_tiles"]
        for launch in one.launches
        if _copies_sums(one.kernel)
    ]
    assert moved
    for launch in moved:
        assert not launch.simulate().hazards
        with another(OTHER), pytest.raises(HazardError, match="accumulator"):
            launch.simulate()


@dataclass(frozen=True)
class _Pieces:
    """A kernel of which the two compilers load 16 bytes in different pieces."""

    counts: str
    """How the names of the counts begin that differ by it."""
    load: str
    """The line that loads."""
    whole: str
    """The same, with all four words wanted at once, so that one load brings them."""


IN_PIECES = {
    "flash_tiles": _Pieces(
        "shared_load.",
        "a[i] = *(float4*)&q[(row + 2 * i) * WIDE + c];",
        """{
            a[i] = *(float4*)&q[(row + 2 * i) * WIDE + c];
            asm volatile("" : "+f"(a[i].x), "+f"(a[i].y), "+f"(a[i].z), "+f"(a[i].w));
        }""",
    ),
    "multiply_shared": _Pieces(
        "global_load.",
        "int4 share = shares[2 * blockIdx.x + entry];",
        """int4 share = shares[2 * blockIdx.x + entry];
        asm volatile("" : "+r"(share.x), "+r"(share.y), "+r"(share.z), "+r"(share.w));""",
    ),
}


def _launches(name: str) -> dict[str, Launch]:
    return {
        f"{one.kernel.defines}, launch {number}": launch
        for kernels in noted(LESSON_FILES).values()
        for one in kernels
        for number, launch in enumerate(one.launches)
        if one.kernel.name == name
    }


@other_clang
@nvidias_compiler
@pytest.mark.parametrize("name", IN_PIECES)
def test_sixteen_bytes_loaded_in_pieces_are_one_load_once_all_are_wanted(name: str) -> None:
    pieces = IN_PIECES[name]
    apart = {one.count for one in differences(_launches(name), OTHER)} - set(MAY_DIFFER)
    assert any(count.startswith(pieces.counts) for count in apart)
    assert all(count.startswith((pieces.counts, "bits of ")) for count in apart)
    for launch in _launches(name).values():
        kernel = launch.kernel
        assert pieces.load in kernel.source
        source = kernel.source.replace(pieces.load, pieces.whole)
        whole = Kernel(source, defines=kernel.defines, options=kernel.options)
        _equal_but_for_rounding(whole.on(launch.case))


LOCAL = {"local_requests", "local_useful_bytes"}


def _undue(counts: set[str], launch: Launch) -> set[str]:
    """Those of the counts that may not differ; local ones may where NVIDIA's compiler keeps nothing there.

    Whether a small array stays in registers is the compiler's affair, and what clang leaves in local memory
    is no machine's traffic then.
    """
    undue = counts - set(MAY_DIFFER)
    if undue & LOCAL:
        taken = examine(launch.kernel).taken
        one = taken.get("sm_90") or taken["sm_90a"]
        undue -= set() if one.stack_bytes or one.spills else LOCAL
    return undue


@nvidias_compiler
def test_local_memory_may_differ_only_where_nvidias_compiler_has_none() -> None:
    text = """extern "C" __global__ void pick(const int* x, int* y) {
        int kept[64] = {};
        for (int i = 0; i < 64; ++i) kept[%s] += x[i];
        y[threadIdx.x] = kept[7];
    }"""
    one = case(x=np.zeros(64, np.int32), y=np.zeros(32, np.int32), grid=1, block=32)
    fixed, chosen = (Kernel(text % at).on(one) for at in ("i", "x[i]"))
    counts = {*LOCAL, *MAY_DIFFER, "global_load.sectors"}
    assert _undue(counts, fixed) == {"global_load.sectors"}
    assert _undue(counts, chosen) == {*LOCAL, "global_load.sectors"}


@other_clang
@nvidias_compiler
def test_kernels_of_the_lessons_leave_the_same_and_ask_for_the_same() -> None:
    launches = {
        f"{lesson}: {one.kernel.name}, number {number}, launch {at}": launch
        for lesson, kernels in noted(LESSON_FILES).items()
        for number, one in enumerate(kernels)
        for at, launch in enumerate(one.launches)
        if not _copies_sums(one.kernel) and one.kernel.name not in IN_PIECES
    }
    assert len(launches) > 20
    found = differences(launches, OTHER)
    rounded = {one.kernel for one in found if one.count.startswith("bits of ")}
    undue = [one for one in found if one.kernel not in rounded and _undue({one.count}, launches[one.kernel])]
    assert not undue, "\n".join(map(str, undue))
    for name in rounded:  # of a * b + c * d a compiler may fuse either product with the sum
        _equal_but_for_rounding(launches[name])


CLOCK = re.compile(r"%clock|%globaltimer|\bclock(?:64)?\(")
"""How a kernel reads a clock."""


def _equal_but_for_rounding(launch: Launch) -> None:
    ours, other = launch.case.make(), launch.case.make()
    counts = flat(launch.simulate(arrays=ours).counts)
    with another(OTHER):
        others = flat(launch.simulate(arrays=other).counts)
    assert not _undue({key for key in counts if counts[key] != others[key]}, launch)
    for name, value in ours.items():
        if CLOCK.search(launch.kernel.source) and isinstance(value, np.ndarray) and value.dtype.kind in "iu":
            continue  # stamps of a clock that counts instructions
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            np.testing.assert_allclose(value, other[name], rtol=4 * np.finfo(value.dtype).eps)
        else:
            assert np.array_equal(value, other[name]), name


@other_clang
@pytest.mark.parametrize("subject", OWN, ids=lambda one: one.name)
def test_kernels_of_the_trust_tests_leave_the_same_and_ask_for_the_same(subject: Subject) -> None:
    def measured() -> dict[str, object]:
        given = subject.make(np.random.Generator(np.random.PCG64(11)))
        counts = subject.launch(given).counts
        outputs = {name: np.asarray(value).tobytes() for name, value in given.items()}
        return {**{name: count for name, count in flat(counts).items() if name not in MAY_DIFFER}, **outputs}

    ours = measured()
    with another(OTHER):
        assert measured() == ours


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    one = global_memory.SPECIMENS[0]
    numbers = iter([{"issued": 7, "global_load.sectors": 4}, {"issued": 9, "global_load.sectors": 4}])
    monkeypatch.setattr(clangs, "_measured", lambda _: next(numbers))
    assert differences({"k": one.launch}, Path("zig")) == [Difference("k", "issued", 7, 9)]


def test_a_program_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWISE_ZIG", str(tmp_path / "zig"))
    with pytest.raises(ToolchainError, match=r"TILEWISE_ZIG is .*no file"):
        zig()
