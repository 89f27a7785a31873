"""The palette: complete in both schemes, readable, and told apart by people who see few colours."""

import itertools
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewise.figures import theme

NEUTRAL = {"ink", "muted", "line", "panel", "surface"}
TOGETHER = (
    ("block", "warp", "lane", "tile"),
    ("registers", "shared", "l2", "global"),
    ("read", "write", "hazard"),
    ("measured", "predicted"),
)
# Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB.
SIGHT = {
    "full": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def linear(colour: str) -> NDArray[np.float64]:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def lab(colour: str, sight: NDArray[np.float64]) -> NDArray[np.float64]:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(sight @ linear(colour), 0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_stand_out_from_the_ground(scheme):
    ground = theme.colour("surface", scheme)
    faint = {
        role.name: round(contrast(getattr(role, scheme), ground), 2)
        for role in theme.ROLES
        if role.name not in NEUTRAL and contrast(getattr(role, scheme), ground) < 3
    }
    assert faint == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["ink", "muted"])
@pytest.mark.parametrize("ground", ["surface", "panel"])
def test_text_has_the_contrast_of_text(scheme, name, ground):
    assert contrast(theme.colour(name, scheme), theme.colour(ground, scheme)) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_roles_that_meet_in_a_figure_are_told_apart(scheme, sight):
    close = {
        (one, other): round(distance)
        for group in TOGETHER
        for one, other in itertools.combinations(group, 2)
        if (
            distance := float(
                np.linalg.norm(
                    lab(theme.colour(one, scheme), SIGHT[sight])
                    - lab(theme.colour(other, scheme), SIGHT[sight])
                )
            )
        )
        < 12
    }
    assert close == {}


def test_css_names_every_role_once_a_scheme_and_once_for_paper():
    written = re.findall(r"--tw-([a-z0-9]+): (#[0-9a-f]{6});", theme.css())
    light = [(role.name, role.light) for role in theme.ROLES]
    dark = [(role.name, role.dark) for role in theme.ROLES]
    assert written == light + dark + light


def test_a_token_becomes_the_role_s_colour():
    spec = {"a": theme.token("read"), "b": [theme.token("write", 0.25), "role of a"], "c": 3}
    assert theme.resolve(spec) == {"a": "#0b7a94", "b": ["rgba(184,83,12,0.25)", "role of a"], "c": 3}
    assert theme.resolve(spec, "dark")["a"] == "#4cc0db"
