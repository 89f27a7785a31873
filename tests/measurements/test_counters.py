"""Nsight Compute's command and table, and how launches are given back to variants."""

from pathlib import Path

import pytest

from tilewise.gpu.counters import METRICS, find_ncu, ncu_command, parse_counters
from tilewise.measurements.counter_process import match_counters

TABLE = """==PROF== Connected to process 17
==PROF== Disconnected from process 17
"ID","PID","Kernel Name","Context","l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum","smsp__inst_executed.sum"
"","","","","request","inst"
"0","17","add(const float *, int)","1","1,250","12556"
"1","17","sum, twice","1","n/a","7"
"""


def test_a_table_is_read_launch_by_launch():
    assert parse_counters(TABLE) == [
        ("add(const float *, int)", {"global_load_requests": 1250.0, "instructions": 12556.0}),
        ("sum, twice", {"instructions": 7.0}),
    ]


def test_a_log_without_a_table_says_what_the_tool_said():
    with pytest.raises(ValueError, match=r"printed no table\. ==ERROR== ERR_NVGPUCTRPERM"):
        parse_counters("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission\n")


def test_the_command_counts_only_inside_the_profilers_range():
    command = ncu_command("ncu", Path("x.csv"), ["python", "-m", "tilewise"])
    assert command[-3:] == ["python", "-m", "tilewise"]
    assert command[command.index("--profile-from-start") + 1] == "off"
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[command.index("--metrics") + 1].split(",") == list(METRICS.values())


def test_the_newest_nsight_compute_is_found_off_the_path(monkeypatch, tmp_path):
    for version in ("2024.3.2", "2025.10.1", "2025.3.1"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "ncu").touch()
    monkeypatch.setattr("tilewise.gpu.counters.shutil.which", lambda _: None)
    monkeypatch.setattr("tilewise.gpu.counters.FOLDERS", (str(tmp_path),))
    assert find_ncu() == str(tmp_path / "2025.10.1" / "ncu")
    monkeypatch.setattr("tilewise.gpu.counters.FOLDERS", ())
    assert find_ncu() is None


def test_a_variants_launches_are_summed():
    manifest = [
        {"experiment": "attention", "variant": "one kernel", "launches": 1},
        {"experiment": "attention", "variant": "two kernels", "launches": 2},
    ]
    launches = [("a", {"instructions": 5.0}), ("b", {"instructions": 2.0}), ("c", {"instructions": 3.0})]
    assert match_counters(manifest, launches) == {
        "attention": {"one kernel": {"instructions": 5.0}, "two kernels": {"instructions": 5.0}}
    }
    with pytest.raises(ValueError, match="3 launches were to be counted and Nsight Compute saw 2"):
        match_counters(manifest, launches[:2])
