"""The models against figures that the makers state and counts that can be made by hand."""

import pytest

from tilewise.models import (
    DEVICES,
    Ceilings,
    attainable_tflop_per_s,
    bound,
    bytes_in_flight,
    device,
    intensity_flop_per_byte,
    occupancy,
    sectors_of_stride,
    stated,
    waves,
)
from tilewise.models.occupancy import LIMITS

LOWER_CLOCKS = {"H100 PCIe": 1620, "H100 SXM": 1830, "H200": 1830, "B200": 1855}
"""The clocks that data sheets assume for tensor cores where it is not the boost clock, in MHz."""


@pytest.mark.parametrize("entry", DEVICES, ids=lambda entry: entry.name)
def test_every_peak_is_units_times_the_clock_that_its_data_sheet_assumes(entry):
    for arithmetic, peak in entry.peak_tflop_per_s.items():
        clock = LOWER_CLOCKS.get(entry.name) if arithmetic.endswith("_matrix") else None
        assert entry.units_tflop_per_s(arithmetic, clock) == pytest.approx(peak, rel=0.012), arithmetic


DRIVER_NAMES = (
    ("NVIDIA H100 80GB HBM3", "H100 SXM"),
    ("NVIDIA H100 PCIe", "H100 PCIe"),
    ("NVIDIA H200", "H200"),
    ("NVIDIA A100-SXM4-80GB", "A100 SXM 80 GB"),
    ("NVIDIA A100-SXM4-40GB", "A100 SXM 40 GB"),
    ("NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB"),
    ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40 GB"),
    ("NVIDIA B200", "B200"),
    ("NVIDIA GeForce RTX 4090", "RTX 4090"),
    ("NVIDIA GeForce RTX 5090", "RTX 5090"),
    ("Tesla T4", "T4"),
    ("NVIDIA L4", "L4"),
)


@pytest.mark.parametrize(("driver_name", "entry"), DRIVER_NAMES)
def test_devices_are_found_by_the_drivers_name(driver_name, entry):
    found = device(driver_name)
    assert found is not None
    assert found.name == entry


def test_every_device_is_looked_up_here_by_its_drivers_name_and_has_the_limits_of_its_sms():
    assert {entry for _, entry in DRIVER_NAMES} == {entry.name for entry in DEVICES}
    assert {entry.compute_capability for entry in DEVICES} <= set(LIMITS)


@pytest.mark.parametrize("entry", DEVICES, ids=lambda entry: entry.name)
def test_every_device_names_its_source_and_has_figures_in_the_units_of_the_table(entry):
    assert "NVIDIA" in entry.source
    assert "fp16_matrix" in entry.peak_tflop_per_s
    assert 50 <= entry.memory_gb_per_s <= 50_000
    assert 1 <= entry.memory_gb <= 2000
    assert 0.25 <= entry.l2_mb <= 1000


TOY = Ceilings(memory_gb_per_s=100e-9, tflop_per_s={"fp32": 400e-12}, launch_us=0.5)


def test_the_toy_machine_of_100_bytes_and_400_operations_a_second():
    assert TOY.ridge_flop_per_byte() == pytest.approx(4)
    memory = bound(TOY, bytes_moved=100, flop=200)
    assert (memory.limited_by, memory.time_us, memory.arithmetic_us) == ("memory", 1e6, pytest.approx(0.5e6))
    arithmetic = bound(TOY, bytes_moved=25, flop=400)
    assert (arithmetic.limited_by, arithmetic.time_us) == ("arithmetic", pytest.approx(1e6))
    assert attainable_tflop_per_s(TOY, 2) == pytest.approx(200e-12)
    assert attainable_tflop_per_s(TOY, 16) == pytest.approx(400e-12)


def test_little_work_is_bounded_by_its_launches():
    assert bound(TOY, launches=3).time_us == 1.5
    assert bound(TOY).limited_by == "launch"


def test_a_bound_refuses_what_it_cannot_know():
    with pytest.raises(KeyError, match="no ceiling is known for 'fp8_matrix' arithmetic; known: fp32"):
        bound(TOY, flop=1, arithmetic="fp8_matrix")


def test_adding_vectors_on_an_h100_as_stated():
    h100 = device("H100 SXM")
    assert h100 is not None
    least = bound(stated(h100), bytes_moved=12 * 2**27, flop=2**27)
    assert least.limited_by == "memory"
    assert least.time_us == pytest.approx(480.5, abs=0.1)
    assert intensity_flop_per_byte(2**27, 12 * 2**27) == pytest.approx(1 / 12)


def test_ninety_eight_tiles_fit_in_a_wave_and_a_hundred_and_twenty_need_two():
    assert (waves(98, 108).waves, waves(98, 108).busy_share) == (1, pytest.approx(0.907, abs=1e-3))
    assert (waves(120, 108).waves, waves(120, 108).last) == (2, 12)
    assert waves(120, 108).busy_share == pytest.approx(0.556, abs=1e-3)
    assert waves(216, 108).last == 0
    assert waves(264, 132, blocks_per_sm=2).waves == 1
    with pytest.raises(ValueError, match="start at 1"):
        waves(0, 108)


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "blocks", "warps", "limited_by"),
    [
        (256, 32, 0, 8, 64, "threads"),
        (32, 32, 0, 32, 32, "blocks"),
        (256, 200, 0, 1, 8, "registers"),
        (256, 40, 0, 6, 48, "registers"),
        (128, 32, 64 * 1024, 3, 12, "shared memory"),
        (1024, 65, 0, 0, 0, "registers"),
    ],
)
def test_what_fits_on_one_sm_of_an_h100(threads, registers, shared_bytes, blocks, warps, limited_by):
    found = occupancy(threads, registers, shared_bytes)
    assert (found.blocks_per_sm, found.warps_per_sm, found.limited_by) == (blocks, warps, limited_by)
    assert found.share == warps / 64


@pytest.mark.parametrize("wrong", [(0, 32, 0), (1025, 32, 0), (32, 256, 0), (32, 0, 0), (32, 32, 233_000)])
def test_a_block_that_cannot_be_launched_is_refused(wrong):
    with pytest.raises(ValueError, match=r"a (block|thread) has"):
        occupancy(*wrong)


def test_a_warps_sectors_by_stride():
    assert [sectors_of_stride(stride) for stride in (1, 2, 4, 8, 16, 32)] == [4, 8, 16, 32, 32, 32]
    assert sectors_of_stride(1, offset=4) == 5, "a start inside a sector costs one more"
    assert sectors_of_stride(0) == 1, "all lanes read one element"
    assert sectors_of_stride(1, lanes=1, offset=30) == 2, "an element across two sectors"


def test_bytes_in_flight_follow_littles_law():
    assert bytes_in_flight(3350, 600 / 1.98) == pytest.approx(1.015e6, rel=1e-3)
