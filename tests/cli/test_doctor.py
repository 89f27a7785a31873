"""``tilewise doctor``: one finding a part, whether it is there or not."""

import json

import fake_gpu

from tilewise.__main__ import main
from tilewise.cli import doctor


def test_every_part_says_what_it_gives_and_how_to_get_it(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for finding in doctor.findings():
        assert finding.gives
        assert finding.name in text
    assert {"GPU", "driver", "CuPy", "clang", "NVRTC", "Nsight Compute", "Chromium", "Node"} <= {
        finding.name for finding in doctor.findings()
    }


def test_a_broken_set_up_says_what_make_serve_would_say(monkeypatch, tmp_path, capsys):
    (tmp_path / "taken").write_text("no folder")
    monkeypatch.setenv("TILEWISE_CACHE", str(tmp_path / "taken"))
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "no   cache           missing; the cache cannot be written: File exists." in said


def test_probing_prints_what_the_gpu_reaches(monkeypatch, capsys):
    fake_gpu.install(monkeypatch, fake_gpu.FakeGpu())
    assert main(["doctor", "--probe"]) == 0
    said = capsys.readouterr().out
    found = json.loads(said[said.index("{") :])
    assert found["device"] == "NVIDIA H100 80GB HBM3"
    assert set(found["probes"]) == {
        "copy_gb_per_s", "read_gb_per_s", "write_gb_per_s", "fp32_tflop_per_s", "fp16_matrix_tflop_per_s",
        "bf16_matrix_tflop_per_s", "wgmma_bf16_tflop_per_s",
    }  # fmt: skip
    assert found["memory_gb_per_s"] == max(
        value for name, value in found["probes"].items() if "gb_per" in name
    )
