"""The palette: complete in both schemes, and readable."""

import re

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewise.figures import theme

NEUTRAL = {"ink", "muted", "line", "panel", "surface"}


def linear(colour: str) -> NDArray[np.float64]:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


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


def test_css_names_every_role_once_a_scheme_and_once_for_paper():
    written = re.findall(r"--tw-([a-z0-9]+): (#[0-9a-f]{6});", theme.css())
    light = [(role.name, role.light) for role in theme.ROLES]
    dark = [(role.name, role.dark) for role in theme.ROLES]
    assert written == light + dark + light


def test_a_token_becomes_the_role_s_colour():
    spec = {"a": theme.token("read"), "b": [theme.token("write", 0.25), "role of a"], "c": 3}
    assert theme.resolve(spec) == {"a": "#0b7a94", "b": ["rgba(184,83,12,0.25)", "role of a"], "c": 3}
    assert theme.resolve(spec, "dark")["a"] == "#4cc0db"
