"""A lesson loads the figures that it draws, and no others."""

import subprocess
import sys

import pytest

import tilewise.figures


def loaded_by(code: str) -> set[str]:
    """The modules of figures that a fresh process has loaded after some code."""
    said = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {
        name.removeprefix("tilewise.figures.") for name in said.split() if name.startswith("tilewise.fig")
    }


def test_one_kind_of_figure_loads_its_own_modules_only():
    assert loaded_by("from tilewise.figures import bars") == {
        "tilewise.figures",
        "axes",
        "figure",
        "kinds",
        "kinds.chart",
        "kinds.chart.bar_charts",
        "theme",
        "values",
    }
    assert loaded_by("from tilewise.figures import timeline") == {
        "tilewise.figures",
        "figure",
        "kinds",
        "kinds.timeline",
        "theme",
        "values",
    }


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(AttributeError, match=r"no public name 'pie'; it has .*Figure, Held, .*timeline"):
        getattr(tilewise.figures, "pie")  # noqa: B009 - the error of an attribute is asked for
