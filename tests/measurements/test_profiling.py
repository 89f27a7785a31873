"""Profiles of calls: cut at markers, written and read as text, and the child without CuPy."""

import json
import math
import stat
import sys
from types import SimpleNamespace

import pytest

from tilewise.measurements import profiling, side_by_side
from tilewise.measurements.profiling import (
    MARKER,
    STALLED,
    SUMMARY,
    ProfileOver,
    by_call,
    observing,
    printed_profiles,
    profiled,
    read_table,
    stall_fractions,
    summary_rows,
    table_of,
)
from tilewise.measurements.side_by_side import read_times
from tilewise.outputs.table import Cell

TIME = "gpu__time_duration.sum"
BYTES = "dram__bytes_read.sum"


def test_a_call_is_the_kernel_that_took_longest_in_it():
    launches = [
        (MARKER, {}),
        ("fill", {TIME: 5.0, BYTES: 1.0}),
        ("gemm", {TIME: 9.0, BYTES: 2.0}),
        (f"{MARKER}()", {}),
        ("copy", {TIME: 3.0}),
    ]
    first, second = by_call(["ours", "cuDNN: theirs"], launches, [TIME, BYTES])
    assert (first.kernel, first.kernels, first.values[BYTES]) == ("gemm", 2, 2.0)
    assert (second.kernel, second.kernels) == ("copy", 1)
    assert math.isnan(second.values[BYTES])
    kept = read_table(table_of([first, second]))
    assert kept["ours"] == {TIME: 9.0, BYTES: 2.0}
    assert list(kept) == ["ours", "cuDNN: theirs"]
    assert math.isnan(kept["cuDNN: theirs"][BYTES])


def test_calls_that_do_not_fit_the_labels_are_refused():
    with pytest.raises(ValueError, match="2 calls were to be profiled and Nsight Compute saw 1"):
        by_call(["a", "b"], [(MARKER, {}), ("k", {TIME: 1.0})], [TIME])
    with pytest.raises(ValueError, match='the call "a" launched no kernel'):
        by_call(["a"], [(MARKER, {})], [TIME])


def test_stalls_are_fractions_of_a_warps_cycles():
    values = {STALLED.format("wait"): 1.0, STALLED.format("selected"): 1.0, STALLED.format("barrier"): 2.0}
    fractions = stall_fractions({**values, STALLED.format("gmma"): math.nan})
    assert fractions == {"wait": 0.25, "selected": 0.25, "barrier": 0.5}
    assert stall_fractions({}) == {}
    assert math.isnan(stall_fractions({})["wait"])


def test_recorded_profiles_are_nan_where_nothing_is_recorded(monkeypatch):
    text = f"profile of a: 1 kernels, longest k\nmetric | a, b | c\n{TIME} | 3 | nan"
    monkeypatch.setattr(
        profiling, "printed", lambda lesson, name: text if (lesson, name) == ("p/l", "x") else ""
    )
    found = printed_profiles("p/l", "x")
    assert found["a, b"] == {TIME: 3.0}
    assert math.isnan(found["c"][TIME])
    assert math.isnan(found["a, b"][BYTES])
    assert math.isnan(found["d"][TIME])
    assert printed_profiles("p/l", "y") == {}


def test_a_summary_names_the_two_most_frequent_stalls():
    values = {
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 61.75,
        "smsp__issue_active.avg.pct_of_peak_sustained_active": 33.09,
        BYTES: 4e6,
        "dram__bytes_write.sum": 5e5,
        **{STALLED.format(name): n for name, n in {"wait": 2, "not_selected": 4, "selected": 1}.items()},
        **{
            STALLED.format(name): n for name, n in {"barrier": 1, "gmma": 0.5, "long_scoreboard": 1.5}.items()
        },
    }
    [row] = summary_rows({"ours": values})
    stalls = Cell("wait 20%, long_scoreboard 15%", mark="code")
    assert row == ["ours", "62%", "33%", stalls, "4"]
    assert len(SUMMARY) == len(row)


def test_the_child_launches_each_call_twice_and_ends(tmp_path, monkeypatch):
    seen: list[str] = []
    runtime = SimpleNamespace(
        deviceSynchronize=lambda: None,
        profilerStart=lambda: seen.append("start"),
        profilerStop=lambda: seen.append("stop"),
    )
    cupy = SimpleNamespace(
        cuda=SimpleNamespace(runtime=runtime),
        RawKernel=lambda source, name: lambda grid, block, given: seen.append(name),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    labels = tmp_path / "labels.json"
    calls = {"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}
    with observing(labels), pytest.raises(ProfileOver):
        profiled("part/lesson", "counters", lambda: calls)
    assert json.loads(labels.read_text(encoding="utf-8")) == ["a", "b"]
    assert seen == [x for one in "ab" for x in (one, "start", MARKER, one, "stop")]


def test_the_parent_reads_what_the_tool_wrote(tmp_path, monkeypatch):
    tool = tmp_path / "ncu"
    tool.write_text(
        f"""#!{sys.executable}
import json, sys
given = sys.argv
assert given[given.index("--metrics") + 1] == "{TIME},{BYTES}"
assert given[given.index("-m") + 2 : given.index("-m") + 6] == ["profile-child", "p/l", "--record", "x"]
open(given[given.index("--labels") + 1], "w").write(json.dumps(["one call"]))
open(given[given.index("--log-file") + 1], "w").write('''==PROF== Connected
"ID","Kernel Name","{TIME}","{BYTES}"
"","","ns","byte"
"0","{MARKER}","1,000","0"
"1","small","1,100","64"
"2","flash_hopper","250,000","1,234,567"
''')
""",
        encoding="utf-8",
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(profiling, "find_ncu", lambda: str(tool))
    [one] = profiled("p/l", "x", dict, [BYTES])
    assert (one.label, one.kernel, one.kernels) == ("one call", "flash_hopper", 2)
    assert one.values == {BYTES: 1234567.0}


def test_a_child_that_did_not_come_to_the_cell_is_said(tmp_path, monkeypatch):
    tool = tmp_path / "ncu"
    tool.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no such lesson')\n", encoding="utf-8")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(profiling, "find_ncu", lambda: str(tool))
    with pytest.raises(ValueError, match=r"Nothing was launched\. no such lesson"):
        profiled("p/l", "x", dict, [BYTES])


def test_times_are_read_back_by_what_and_label():
    text = "N=4096, causal: Kernel 7: 32 queries: 12.30 us; rounds 1.0, 2.0\nN=1: FIX: 3.00 us; rounds 3.0"
    assert read_times(text) == {("N=4096, causal", "Kernel 7: 32 queries"): 12.3, ("N=1", "FIX"): 3.0}


def test_recorded_times_are_nan_where_nothing_is_recorded(monkeypatch):
    monkeypatch.setattr(side_by_side, "printed", lambda lesson, name: "N=1: FIX: 3.00 us; rounds 3.0")
    times = side_by_side.printed_times("p/l", "x")
    assert times["N=1", "FIX"] == 3.0
    assert math.isnan(times["N=2", "FIX"])
