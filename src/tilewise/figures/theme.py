"""The course's palette: a light and a dark colour for each role.

In: nothing. Out: hex colours by role, the CSS variables ``--tw-<role>``, and specifications with resolved
role tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

Scheme = Literal["light", "dark"]


@dataclass(frozen=True)
class Role:
    """A meaning and its colour."""

    name: str
    light: str
    """Hex colour on a light page."""
    dark: str
    """Hex colour on a dark page."""
    meaning: str
    """The colour's meaning, and the mark that shows it without colour."""


ROLES: tuple[Role, ...] = (
    Role("block", "#2f6fb3", "#6ea8e6", "a thread block; labelled"),
    Role("warp", "#a8690a", "#d9a441", "a warp; a line runs around its 32 threads"),
    Role("lane", "#a51c66", "#f07ab8", "the selected thread or lane; a thick outline"),
    Role("tile", "#2f9e6e", "#4fbf98", "the tile in use; a double outline"),
    Role("registers", "#8f3b1b", "#f2a37e", "registers; the level nearest to the thread"),
    Role("shared", "#b0741a", "#e3bd5d", "shared memory and L1"),
    Role("l2", "#3f8a8c", "#62b5b5", "the L2 cache"),
    Role("global", "#24476f", "#7c9fd6", "global memory; the level farthest from the thread"),
    Role("read", "#0b7a94", "#4cc0db", "a read; marked with r"),
    Role("write", "#b8530c", "#f0954d", "a write; marked with w"),
    Role("waste", "#777d87", "#959ca8", "moved or reserved for nothing; hatched"),
    Role("hazard", "#a30d2d", "#ff6b81", "a fault; marked with an exclamation mark"),
    Role("measured", "#173f5f", "#9ecbff", "measured; solid lines and filled marks"),
    Role("predicted", "#b06a00", "#f0b64a", "predicted by a model; dashed lines and open marks"),
    Role("ink", "#1c2225", "#dcdedb", "text and axes"),
    Role("muted", "#4d565a", "#a9b1b2", "secondary text"),
    Role("line", "#cfcbc1", "#434b50", "rules and cell borders"),
    Role("panel", "#f5f3ee", "#1c2124", "the ground of cells and controls"),
    Role("surface", "#fdfcfa", "#14181a", "the ground of a figure"),
)
"""All roles. The last five are neutral: they have no meaning of their own."""

_BY_NAME = {role.name: role for role in ROLES}
_TOKEN = re.compile(r"role:(?P<name>[a-z0-9]+)(?:/(?P<alpha>[01](?:\.\d+)?))?")


def colour(name: str, scheme: Scheme = "light") -> str:
    """Return the hex colour of a role.

    Raises:
        ValueError: there is no such role; the message lists them.
    """
    role = _BY_NAME.get(name)
    if role is None:
        raise ValueError(f"the theme has no role {name!r}; use one of {', '.join(_BY_NAME)}")
    return role.light if scheme == "light" else role.dark


def token(name: str, alpha: float | None = None) -> str:
    """Return the token of a role's colour in a figure's specification, e.g. ``role:read/0.3``."""
    colour(name)
    return f"role:{name}" if alpha is None else f"role:{name}/{alpha:g}"


def resolve(spec: Any, scheme: Scheme = "light") -> Any:
    """Return a copy of a specification with every role token replaced by a Plotly colour."""
    if isinstance(spec, dict):
        return {key: resolve(value, scheme) for key, value in spec.items()}
    if isinstance(spec, list | tuple):
        return [resolve(value, scheme) for value in spec]
    if isinstance(spec, str):
        match = _TOKEN.fullmatch(spec)
        if match:
            return _rgba(colour(match["name"], scheme), match["alpha"])
    return spec


def css() -> str:
    """Return the CSS variables of both schemes, following Material's ``data-md-color-scheme``."""
    light, dark = (
        "".join(f"  --tw-{role.name}: {getattr(role, scheme)};\n" for role in ROLES)
        for scheme in ("light", "dark")
    )
    return (
        f':root,\n[data-md-color-scheme="default"] {{\n{light}}}\n'
        f'[data-md-color-scheme="slate"] {{\n{dark}}}\n'
        f"@media print {{\n[data-md-color-scheme] {{\n{light}}}\n}}\n"
    )


def _rgba(hex_colour: str, alpha: str | None) -> str:
    if alpha is None:
        return hex_colour
    red, green, blue = (int(hex_colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
