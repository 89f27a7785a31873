"""What compute-sanitizer said of the lessons' kernels: how it is asked, kept and shown."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilewise import Kernel, case, normal, output
from tilewise.errors import LessonError
from tilewise.measurements import validation as page
from tilewise.measurements.validation import LESSONS, TOOLS, Comparison, Row
from tilewise.measurements.validation_file import FOLDER
from validation import sanitizer
from validation.collection import COURSE, specimens
from validation.record import DeviceRecord, Finding, findings, write
from validation.sanitizer import FOUND, clean, examine, sort_out
from validation.specimen import Specimen, specimen

SCALE = Kernel(r"""
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
""")
FIVE = tuple(
    specimen(str(n), "", SCALE, case(x=normal(n), y=output(n), n=n, grid=1, block=64)) for n in range(1, 6)
)
NOTHING = dict.fromkeys(TOOLS, "")
PROVENANCE = {
    "device": "NVIDIA H100 80GB HBM3",
    "date": "2026-11-21",
    "versions": {"compute-sanitizer": "2026.1"},
}


def test_only_a_specimen_with_a_finding_is_given_it():
    asked = []

    def look(tool: str, found: Sequence[Specimen]) -> str:
        asked.append(len(found))
        return "Invalid __global__ read" if any(one.name in "25" for one in found) else ""

    said = sort_out("memcheck", FIVE, look)
    assert said == {"1": "", "2": "Invalid __global__ read", "3": "", "4": "", "5": "Invalid __global__ read"}
    assert asked[0] == 5 and max(asked[1:]) < 5
    assert sort_out("memcheck", FIVE[:1], look) == {"1": ""}
    assert sort_out("memcheck", (), look) == {}


@pytest.mark.parametrize(
    ("status", "stdout", "said"),
    [
        (0, "", ""),
        (FOUND, "========= Race reported between Write access\n", "Race reported between Write access"),
        (1, "no such kernel", "ended with 1: no such kernel"),
        (FOUND, "", f"ended with {FOUND}: "),
    ],
)
def test_every_end_but_a_quiet_one_is_a_finding(monkeypatch, status, stdout, said):
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(returncode=status, stdout=stdout, stderr="")

    monkeypatch.setattr(sanitizer.subprocess, "run", run)
    look = sanitizer._looking("compute-sanitizer", Path("listed.json"), sys.float_info.max)
    assert look("racecheck", FIVE[:2]) == said
    assert commands[0][:3] == ["compute-sanitizer", "--tool", "racecheck"]
    assert commands[0][-3:] == ["--child", "1", "2"]


def test_kernels_that_do_not_run_at_all_are_an_error(monkeypatch):
    monkeypatch.setattr(sanitizer, "_looking", lambda *_: lambda tool, found: "" if tool else "ended with 1")
    with pytest.raises(LessonError, match="ended with 1"):
        examine("compute-sanitizer", FIVE, Path("listed.json"))


def recorded(*rows: Finding, **provenance: str) -> DeviceRecord[Finding]:
    return DeviceRecord("sanitizer", PROVENANCE | provenance, rows)


def test_clean_is_what_all_four_tools_looked_at():
    assert clean(Finding("one", "k", NOTHING))
    assert not clean(Finding("one", "k", NOTHING | {"racecheck": "a race"}))
    assert not clean(Finding("one", "k", {"memcheck": ""}))


def test_the_page_counts_findings_and_kernels_that_changed(tmp_path, monkeypatch):
    keys = {f"part/one: scale with BY={by}": f"key {by}" for by in (2, 3, 4)}
    first, second, third = keys
    rows = tuple(Row(name, key) for name, key in keys.items())
    comparison = Comparison({}, {}, (), "", "", {}, {LESSONS: rows})
    monkeypatch.setattr(page, "load_comparison", lambda _: comparison)
    assert "No device" in page.fragment("sanitizer", tmp_path)
    found = [Finding(first, keys[first], NOTHING | {"racecheck": "a race"})]
    found += [Finding(second, keys[second], NOTHING), Finding(third, "another key", NOTHING)]
    write(recorded(*found), tmp_path / FOLDER / "sanitizer")
    shown = page.fragment("sanitizer", tmp_path)
    assert "part/one" in shown and "2026.1" in shown and f"{first}: a race" in shown
    cells = [re.sub("<.*?>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", shown, re.DOTALL)]
    assert cells == ["part/one", "2", "1", "0", "1", "0", "0"]


@pytest.mark.parametrize("record", findings(), ids=lambda one: one.device)
def test_every_kernel_that_was_looked_at_is_clean(record):
    assert {"device", "date", "driver", "versions", "sm_count", "compute_capability"} == set(
        record.provenance
    )
    kernels = {one.name: one.key for one in specimens(COURSE)}
    looked = [row for row in record.rows if kernels.get(row.name) == row.key]
    assert [(row.name, row.said) for row in looked if not clean(row)] == []
    assert looked, "the page says how many have changed since, or are new"
