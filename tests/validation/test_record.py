"""The file of counters, and the way from Nsight Compute's table to it."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tilewise.errors import LessonError
from tilewise.gpu.counters import parse_counters
from tilewise.gpu.device import gpu_fault
from tilewise.measurements.validation_file import FOLDER
from validation import record as records
from validation.collection import collect
from validation.counting import METRICS, matched
from validation.record import PROJECT, Counted, DeviceRecord, Output

ROW = Counted("one", "k" * 64, {"global_load_requests": 3}, {"y": Output("a" * 64)})
PROVENANCE = {"device": "NVIDIA H100 80GB HBM3", "date": "2026-11-21"}
RECORD = DeviceRecord("counts", PROVENANCE, (ROW,), dict(METRICS))


def test_a_record_comes_back_as_it_was_written(tmp_path):
    path = records.write(RECORD, tmp_path / FOLDER / "counters")
    assert path.name == "nvidia-h100-80gb-hbm3.json"
    assert records.counters(tmp_path) == (RECORD,)


def test_an_edited_or_broken_record_is_an_error(tmp_path):
    path = records.write(RECORD, tmp_path / FOLDER / "counters")
    text = path.read_text(encoding="utf-8")
    for spoilt, message in (
        (text.replace('requests": 3', 'requests": 4'), "edited by hand"),
        ("{", "cannot be read"),
        (json.dumps({"checksum": ""}), r"cannot be read: 'kind' is missing\. Record it again on a GPU"),
    ):
        path.write_text(spoilt, encoding="utf-8")
        with pytest.raises(LessonError, match=message):
            records.counters(tmp_path)


def _launches(names: list[str]) -> list[tuple[str, dict[str, float]]]:
    head = ["ID", "Kernel Name", "smsp__inst_executed.sum"]
    lines = [head, ["", "", "inst"], *([str(at), name, "1,024"] for at, name in enumerate(names))]
    text = "==PROF== a line\n" + "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines)
    return parse_counters(text, {"instructions": "smsp__inst_executed.sum"})


def test_the_tools_table_is_matched_with_what_was_launched():
    specimens = collect()[:2]
    told: dict[str, Any] = {
        "provenance": {"device": "a device"},
        "outputs": {one.name: {"c": {"sha256": "b" * 64, "bits": None}} for one in specimens},
    }
    names = [one.launch.kernel.name for one in specimens]
    record = matched(told, _launches(names), METRICS, specimens)
    assert [(row.name, row.key) for row in record.rows] == [(one.name, one.key) for one in specimens]
    assert record.rows[1].counters == {"instructions": 1024}
    with pytest.raises(ValueError, match="2 kernels were launched and Nsight Compute saw"):
        matched(told, _launches(names[:1]), METRICS, specimens)


def test_recording_without_a_gpu_says_what_is_missing():
    if gpu_fault() is None:
        pytest.skip("there is a GPU")
    done = subprocess.run(
        [sys.executable, "-m", "validation"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("No counters can be taken here.")


def test_no_two_specimens_share_a_name_or_a_key():
    specimens = collect()
    assert len({one.key for one in specimens}) == len({one.name for one in specimens}) == len(specimens)
