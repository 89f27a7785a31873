"""Times carried over from one device to another."""

from __future__ import annotations

import pytest

from tilewise.models import Ceilings, device
from tilewise.models.scaling import scaled

MEASURED = Ceilings(3260.0, {"fp32": 64.0}, 3.2)


def entry(name: str):
    found = device(name)
    assert found is not None
    return found


def test_what_the_bytes_explain_follows_the_memory_and_the_rest_stays() -> None:
    h100, h200 = entry("H100 SXM"), entry("H200")
    moved = scaled(260.0, 3260e9 * 240e-6, MEASURED, h100, h200)
    assert (moved.launch_us, moved.memory_us, moved.rest_us) == pytest.approx((3.2, 240.0, 16.8))
    assert moved.time_us == pytest.approx(3.2 + 240.0 * 3352 / 4800 + 16.8)
    assert (moved.changes, moved.waits_for) == (True, "memory")


def test_a_launch_and_a_kernel_that_moves_little_stay_on_a_chip_with_the_same_units() -> None:
    h100, h200 = entry("H100 SXM"), entry("H200")
    launch = scaled(3.0, 1000, MEASURED, h100, h200)
    assert (launch.time_us, launch.changes, launch.waits_for) == (3.0, False, "launch")
    slow = scaled(40_000.0, 262_144, MEASURED, h100, h200)
    assert slow.ratio == pytest.approx(1.0, abs=1e-4)
    assert (slow.changes, slow.waits_for) == (False, "chip")


def test_the_rest_follows_units_times_clock() -> None:
    slower = scaled(103.2, 0, MEASURED, entry("H100 SXM"), entry("T4"))
    assert slower.time_us == pytest.approx(3.2 + 100 * (132 * 1980) / (40 * 1590))
    assert slower.ratio < 1


@pytest.mark.parametrize(("time_us", "moved"), [(0.0, 1.0), (1.0, -1.0)])
def test_what_cannot_be_is_refused(time_us: float, moved: float) -> None:
    with pytest.raises(ValueError, match="a time"):
        scaled(time_us, moved, MEASURED, entry("H100 SXM"), entry("H200"))
