"""``tilewise doctor``: one finding a part, whether it is there or not."""

from __future__ import annotations

import pytest

from tilewise.__main__ import main
from tilewise.commands import doctor
from tilewise.commands.doctor import Finding


def test_every_part_says_what_it_gives_and_how_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for finding in doctor.findings():
        assert finding.gives
        assert finding.get
        assert finding.name in text
    assert {"GPU", "driver", "CuPy", "clang", "NVRTC", "Nsight Compute", "Chromium", "Node"} <= {
        finding.name for finding in doctor.findings()
    }


def test_a_missing_part_says_how_to_get_it() -> None:
    assert str(Finding("clang", None, "lets the simulator run", "pip install ziglang")) == (
        "no   clang           missing; pip install ziglang\n                     lets the simulator run"
    )
    assert str(Finding("clang", "ziglang 0.17.0", "lets the simulator run", "x")).startswith(
        "yes  clang           ziglang 0.17.0\n"
    )


def test_a_broken_tool_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_ncu", lambda: "/no/such/ncu")
    found = {finding.name: finding.found for finding in doctor.findings()}
    assert found["Nsight Compute"] is None
