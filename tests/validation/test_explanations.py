"""The reasons given for differences, where they can be computed: each gives the hardware's numbers."""

import re
from collections import Counter
from functools import cache

import numpy as np
import pytest

from tests.validation.samples import as_counted
from tilewise.kernel import nvrtc
from tilewise.kernel.kernel import Kernel
from tilewise.simulator import Trace
from validation.collection import collect
from validation.differences import KNOWN, REGISTERS, SPILLED
from validation.record import counters
from validation.resources import examine
from validation.specimen import Specimen

COUNTERS = {one.name: one.counters for one in counters()[0].rows}
KEYS = {one.name: one.key for one in counters()[0].rows}
ATOMIC = 2


@cache
def specimens() -> dict[str, Specimen]:
    """Every specimen by its name; the lessons run, unless what they gave is kept."""
    return {specimen.name: specimen for specimen in collect()}


@pytest.mark.parametrize("name", ["histogram", "sums of four", "or of three", "add each", "swap each"])
def test_the_hardware_counts_a_sector_once_for_each_turn_on_its_most_wanted_word(name):
    accesses = specimens()[name].launch.simulate(trace=Trace()).accesses
    requests: dict[tuple[int, int, int], list[int]] = {}
    for step, block, warp, kind, address in zip(
        accesses.step, accesses.block, accesses.warp, accesses.kind, accesses.address, strict=True
    ):
        if kind == ATOMIC:
            requests.setdefault((int(block), int(warp), int(step)), []).append(int(address))
    turns = 0
    for addresses in requests.values():
        wanted: dict[int, int] = {}
        for address, lanes in Counter(addresses).items():
            wanted[address // 32] = max(wanted.get(address // 32, 0), lanes)
        turns += sum(wanted.values())
    counted = COUNTERS[name]
    assert turns == counted["global_atom_sectors"] + counted["global_red_sectors"]
    assert len(requests) == counted["global_atom_requests"] + counted["global_red_requests"]


def _unrolled(first: list[int], lengths: list[int]) -> list[list[int]]:
    """Places that a warp's lanes load from, by request, as NVIDIA's compiler unrolls the loop."""
    at, left = list(first), list(lengths)
    requests: list[list[int]] = []

    def turns(lanes: list[int], count: int) -> None:
        for turn in range(count):
            requests.append([at[lane] + turn for lane in lanes])
        for lane in lanes:
            at[lane] += count
            left[lane] -= count

    def lanes_with(wanted: object) -> list[int]:
        return [lane for lane in range(len(left)) if wanted(left[lane])]  # type: ignore[operator]

    while lanes := lanes_with(lambda n: n % 4):
        turns(lanes, 1)
    while lanes := lanes_with(lambda n: n > 12):
        turns(lanes, 16)
    for least, count in ((4, 8), (0, 4)):
        if lanes := lanes_with(lambda n, least=least: n > least):
            turns(lanes, count)
    return requests


def _sectors(places: list[int]) -> int:
    return len({4 * place // 32 for place in places})


def test_a_ragged_loop_is_unrolled_by_the_hardwares_compiler():
    specimen = specimens()["ragged rows"]
    start = np.asarray(specimen.launch.case.values["start"]).tolist()
    rows = len(start) - 1
    requests: list[list[int]] = []
    for warp in range(0, rows, 32):
        own = list(range(warp, min(warp + 32, rows)))
        requests += [own, [row + 1 for row in own]]
        requests += _unrolled([start[row] for row in own], [start[row + 1] - start[row] for row in own])
    counted = COUNTERS["ragged rows"]
    assert len(requests) == counted["global_load_requests"]
    assert sum(_sectors(places) for places in requests) == counted["global_load_sectors"]


WIDE = {
    "shared neighbours": {
        "float a = tile[4 * t], b = tile[4 * t + 1], c = tile[4 * t + 2], d = tile[4 * t + 3];": """
            float2 u = *(float2*)&tile[4 * t], v = *(float2*)&tile[4 * t + 2];
            float a = u.x, b = u.y, c = v.x, d = v.y;""",
    },
    "shared broadcast": {
        "for (int j = 0; j < blockDim.x; ++j) s += tile[j] * (float)(j + t);": """
            for (int j = 0; j < blockDim.x; j += 4) {
                float4 v = *(float4*)&tile[j];
                s += v.x * (float)(j + t);
                s += v.y * (float)(j + 1 + t);
                s += v.z * (float)(j + 2 + t);
                s += v.w * (float)(j + 3 + t);
            }""",
    },
    "tiled matmul": {
        "for (int k = 0; k < T; ++k) s += As[ty][k] * Bs[k][tx];": """
            for (int k = 0; k < T; k += 4) {
                float4 a = *(float4*)&As[ty][k];
                s += a.x * Bs[k][tx];
                s += a.y * Bs[k + 1][tx];
                s += a.z * Bs[k + 2][tx];
                s += a.w * Bs[k + 3][tx];
            }""",
    },
}


@pytest.mark.parametrize("name", WIDE)
def test_merged_by_hand_the_shared_loads_are_the_hardwares(name):
    """The same kernel, with the loads that the hardware's compiler merges merged in the source."""
    launch = specimens()[name].launch
    source = launch.kernel.source
    for narrow, wide in WIDE[name].items():
        assert source.count(narrow) == 1
        source = source.replace(narrow, wide)
    merged = Kernel(source, defines=launch.kernel.defines).on(launch.case)
    arrays, expected = launch.case.make(), launch.case.make()
    loads = merged.simulate(arrays=arrays).counts.shared_load
    launch.simulate(arrays=expected)
    for output in specimens()[name].written:
        np.testing.assert_array_equal(arrays[output], expected[output])
    counted = COUNTERS[name]
    assert (loads.requests, loads.wavefronts) == (
        counted["shared_load_requests"],
        counted["shared_load_wavefronts"],
    )


IN_REGISTERS = [
    name for name, known in KNOWN.items() if known.get("local requests", (0, None))[1] is REGISTERS
]
SPILLS = [name for name, known in KNOWN.items() if known.get("local requests", (0, None))[1] is SPILLED]


def test_merged_by_hand_the_shared_stores_are_the_hardwares():
    name = "machine/chip_carveout: chase_shared with LINES=1024, blocks of 1"
    launch = as_counted(specimens()[name], KEYS.get(name)).launch
    narrow = """for (unsigned line = 0; line < LINES; ++line)
        ring[line] = (line * factor + shift) % LINES;"""
    wide = """for (unsigned line = 0; line < LINES; line += 4) {
        unsigned at = line * factor + shift;
        *(uint4*)&ring[line] = make_uint4(
            at % LINES, (at + factor) % LINES, (at + 2 * factor) % LINES, (at + 3 * factor) % LINES);
    }"""
    source = launch.kernel.source
    assert source.count(narrow) == 1
    source = source.replace(narrow, wide).replace("__shared__ unsigned", "__shared__ __align__(16) unsigned")
    arrays, expected = launch.case.make(), launch.case.make()
    stores = Kernel(source, defines=launch.kernel.defines).on(launch.case).simulate(arrays=arrays).counts
    launch.simulate(arrays=expected)
    np.testing.assert_array_equal(arrays["end"], expected["end"])
    assert (stores.shared_store.requests, stores.shared_store.wavefronts) == (
        COUNTERS[name]["shared_store_requests"],
        COUNTERS[name]["shared_store_wavefronts"],
    )


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("name", SPILLS)
def test_spilled_words_are_loaded_in_each_turn_of_the_loop(name):
    launch = as_counted(specimens()[name], KEYS.get(name)).launch
    taken = examine(launch.kernel).taken["sm_90"]
    spilled = taken.spill_load_bytes // 4
    queries, keys = launch.case.make()["Q"], launch.case.make()["K"]
    warps, turns = len(queries) // 32, len(keys)
    assert spilled and taken.spill_store_bytes == taken.spill_load_bytes
    assert COUNTERS[name]["local_load_requests"] == warps * turns * spilled
    again, left = divmod(COUNTERS[name]["local_store_requests"] - warps * spilled, warps * (turns - 1))
    assert (again, left) == (8 if taken.registers <= 48 else 5, 0)


@pytest.mark.parametrize("name", IN_REGISTERS)
def test_with_its_loops_unrolled_a_small_array_is_in_registers(name):
    launch = specimens()[name].launch
    short = re.compile(r"^( *)(for \(int i = 0; i < [24];)", re.MULTILINE)
    source, many = short.subn(r'\1_Pragma("unroll") \2', launch.kernel.source)
    assert many
    unrolled = Kernel(source, defines=launch.kernel.defines).on(launch.case)
    arrays, expected = launch.case.make(), launch.case.make()
    ours, theirs = unrolled.simulate(arrays=arrays).counts, launch.simulate(arrays=expected).counts
    for output in specimens()[name].written:
        np.testing.assert_array_equal(arrays[output], expected[output])
    assert ours.local_requests == 0 < theirs.local_requests
    for space in ("global_load", "global_store", "shared_load", "shared_store"):
        assert getattr(ours, space) == getattr(theirs, space)


def test_a_copy_that_goes_through_a_register_is_counted_as_the_simulator_counts_it():
    """The reads are the hardware's; the writes are those of the loop that stores what it loaded."""
    launch = specimens()["cp.async ca of 4 bytes"].launch
    source = launch.kernel.source
    begin, end = source.index("    asm volatile("), source.index("    __syncthreads();")
    plain = Kernel(source[:begin] + "    tile[t] = *from;\n" + source[end:], defines=launch.kernel.defines)
    ours, theirs = launch.simulate().counts, plain.on(launch.case).simulate().counts
    assert ours.shared_store == theirs.shared_store
    counted = COUNTERS["cp.async ca of 4 bytes"]
    assert (ours.global_load.requests, ours.global_load.sectors) == (
        counted["global_load_requests"],
        counted["global_load_sectors"],
    )
    assert counted["shared_store_requests"] == counted["shared_store_wavefronts"] == 0
