"""The GPU's state as ``nvidia-smi`` says it, what is odd about it, and what a record keeps of it."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import fake_gpu
import numpy as np
import pytest

from tilewise import Kernel
from tilewise.gpu import cublas_lt
from tilewise.gpu.ceilings import _SOURCE as PROBES
from tilewise.gpu.ceilings import (
    MATRIX_DEFINES,
    MATRIX_SOURCE,
    PROBE_BYTES,
    ceilings_from,
    matrix_flop,
)
from tilewise.gpu.device import State, gpu_fault, gpu_here, others_computing, state
from tilewise.gpu.timing import summary
from tilewise.gpu.wgmma_probe import OPTIONS, wgmma_flop, wgmma_source
from tilewise.kernel import nvrtc
from tilewise.measurements.experiment_timing import _oddities
from tilewise.measurements.provenance import provenance
from tilewise.measurements.provenance_links import provenance_facts
from tilewise.models import Ceilings


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tool on the path that prints what the test puts into ``answer``, and fails where that is missing."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f'#!/bin/sh\ncat "{tmp_path}/answer"\n', encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "answer"


def test_clocks_power_and_heat_are_read(nvidia_smi):
    nvidia_smi.write_text("1755, 2619, 700.00, 51, 580.159.04, 0x0000000000000024\n")
    assert state() == State(
        1755.0, 2619.0, 700.0, 51.0, "580.159.04", ("the power cap", "its temperature (software)")
    )


def test_what_the_driver_does_not_say_is_none(nvidia_smi):
    nvidia_smi.write_text("1755, [N/A], [Not Supported], 51, 580.159.04, 0x0000000000000001\n")
    assert state() == State(1755.0, None, None, 51.0, "580.159.04", ())
    nvidia_smi.unlink()
    assert state() == State()
    assert others_computing() is None


def test_other_processes_on_the_gpu_are_counted(nvidia_smi):
    for listed, others in ((f"{os.getpid()}\n4242\n", 1), (f"{os.getpid()}\n", 0), ("", 0), ("[N/A]\n", 0)):
        nvidia_smi.write_text(listed)
        assert others_computing("0000:00:00.0") == others
    nvidia_smi.write_text("101\n")
    assert others_computing() == 0, "one that is listed under another number is this one"


def test_without_cupy_there_is_no_gpu_and_a_build_never_uses_one(monkeypatch):
    monkeypatch.setattr("tilewise.gpu.device.find_spec", lambda name: None)
    assert gpu_fault() == "CuPy is not installed."
    monkeypatch.undo()
    fake_gpu.install(monkeypatch, fake_gpu.FakeGpu())
    assert gpu_here()
    monkeypatch.setenv("TILEWISE_BUILD", "1")
    assert not gpu_here()


def test_a_clock_that_falls_is_noted():
    notes = _oddities("n = 8", State(sm_clock_mhz=1980.0), State(1200.0, throttled_by=("the power cap",)))
    assert notes == [
        "At n = 8 the SM clock fell from 1980 to 1200 MHz.",
        "At n = 8 the clock was held down by the power cap.",
    ]
    assert _oddities("n = 8", State(sm_clock_mhz=1980.0), State(1965.0)) == []


TIMES = {"copy": 700.0, "memcpy": 710.0, "write": 330.0, "read": 340.0, "fp32": 1000.0, "launch": 2.9}


def ceilings(**more: float) -> Ceilings:
    """Ceilings from made-up times of probes."""
    timings = {label: summary(label, [time]) for label, time in (TIMES | more).items()}
    flop = {"fp32": 60e9, "bf16_matrix": matrix_flop(132 * 16), "wgmma_bf16": wgmma_flop(528)}
    return ceilings_from(timings, flop)


def test_ceilings_are_what_the_probes_reach():
    found = ceilings(bf16_matrix=2000.0, wgmma_bf16=1500.0)
    assert found.memory_gb_per_s == round(PROBE_BYTES / 330.0 / 1e3, 2)
    assert found.tflop_per_s["bf16_matrix"] == found.probes["bf16_matrix_tflop_per_s"]
    assert found.launch_us == 2.9
    assert found.probes == {
        "copy_gb_per_s": round(2 * PROBE_BYTES / 700.0 / 1e3, 2),
        "read_gb_per_s": round(PROBE_BYTES / 340.0 / 1e3, 2),
        "write_gb_per_s": round(PROBE_BYTES / 330.0 / 1e3, 2),
        "fp32_tflop_per_s": 60.0,
        "bf16_matrix_tflop_per_s": round(132 * 16 * 64 * 2048 * 4096 / 2000.0 / 1e6, 2),
        "wgmma_bf16_tflop_per_s": round(528 * 2 * 512 * 2 * 64 * 256 * 64 / 1500.0 / 1e6, 2),
    }


def test_what_a_device_cannot_do_is_not_probed():
    assert ceilings().tflop_per_s == {"fp32": 60.0}


def probe_operand(rows: int, seed: int) -> np.ndarray:
    """The values with which the probe of wgmma fills an operand of so many rows."""
    x = (np.uint32(seed) + np.arange(rows * 32, dtype=np.uint32)) * np.uint32(2654435761)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(2246822519)
    words = np.uint32(0x3F003F00) | (x & np.uint32(0x807F807F))
    halves = words.view(np.uint16).astype(np.uint32) << np.uint32(16)
    return np.float64(halves.view(np.float32)).reshape(rows, 64)


def test_the_probe_of_wgmma_multiplies_its_operands_in_every_step():
    probe = Kernel(wgmma_source(), options=OPTIONS)
    out = np.zeros(256, np.float32)
    probe.simulate(out, 3, grid=1, block=256)
    right = 3 * (probe_operand(64, 1) @ probe_operand(256, 4096).T).sum(axis=1)
    pairs = right.reshape(4, 2, 8).sum(axis=1)  # four lanes hold the rows r and r + 8 of their warp
    for warpgroup in out.reshape(2, 4, 8, 4).sum(axis=3):
        np.testing.assert_allclose(warpgroup, pairs, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_a_matrix_probe_does_all_of_its_products(kind):
    probe = Kernel(MATRIX_SOURCE, defines=MATRIX_DEFINES[kind])
    sums = {}
    for steps in (1, 5):
        sums[steps] = np.zeros(32, np.float32)
        probe.simulate(sums[steps], steps, grid=1, block=32)
    assert np.all(sums[1] != 0)
    np.testing.assert_allclose(sums[5], 5 * sums[1], rtol=1e-4)


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
def test_the_probes_compile_without_spills_wherever_they_run():
    for name in ("copy_words", "read_words", "fma_chains", "nothing"):
        assert not any(one.spills for one in nvrtc.compile_kernel(Kernel(PROBES, name=name)))
    for defines in MATRIX_DEFINES.values():
        found = nvrtc.compile_kernel(Kernel(MATRIX_SOURCE, defines=defines), nvrtc.ARCHITECTURES[1:])
        assert not any(one.spills for one in found)
    [found] = nvrtc.compile_kernel(Kernel(wgmma_source(), options=OPTIONS), ["sm_90a"])
    assert not found.spills


def test_a_record_says_nothing_about_whose_machine_it_was(monkeypatch):
    fake_gpu.install(monkeypatch, fake_gpu.FakeGpu())
    monkeypatch.setattr(cublas_lt, "version", lambda: "13.2.1")
    cub = SimpleNamespace(get_build_version=lambda: 300102)
    monkeypatch.setitem(sys.modules, "cupy.cuda.cub", cub)
    properties = {"name": b"NVIDIA H200", "uuid": b"secret", "multiProcessorCount": 132}
    made = provenance("NVIDIA H200", properties, State(driver="580.1"), Ceilings(1.0, {}), ["odd"])
    text = json.dumps(made)
    for private in ("secret", os.uname().nodename, str(Path.home()), str(Path.cwd())):
        assert private not in text
    assert made["versions"]["cupy"] == "14.2.0"
    assert made["versions"]["cuda_runtime"] == "13.0"
    assert (made["versions"]["cublas"], made["versions"]["cub"]) == ("13.2.1", "3.1.2")
    shown = dict(provenance_facts(made))["versions"]
    assert shown.startswith("CUDA 13.0, NVRTC 13.0, CuPy 14.2.0, CUB 3.1.2, cuBLAS 13.2.1")
    assert (made["sm_count"], made["l2_bytes"]) == (132, None)
