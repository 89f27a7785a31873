"""A figure: a statement, a caption, a text alternative and a specification that the site's script draws.

In: the result of a lesson's call; NumPy values are allowed anywhere. Out: plain JSON, the figure's HTML
element, and the form that notebooks draw.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from tilewise.figures.values import plain, recorded_experiments

if TYPE_CHECKING:
    from tilewise.figures.theme import Scheme

_NO_SCRIPT = "This figure needs JavaScript, which is switched off. The text version below describes it."


@dataclass(frozen=True)
class Figure:
    """A figure's content, for a page, a notebook or text."""

    title: str
    """A statement, not a subject: what the reader should see."""
    caption: str
    """Understandable without the text around the figure."""
    alt: str
    """The text alternative, without the steps."""
    height: int
    """Height in px that a page reserves, controls included."""
    kind: str
    """The kind of figure: the name of a folder in ``kinds``."""
    spec: Mapping[str, Any]
    """The data; for ``chart`` a Plotly figure whose colours are role tokens."""
    steps: tuple[str, ...] = ()
    """The text alternative of each step, or of each row of the data."""
    narrow_height: int = 0
    """Height in px on a narrow screen; 0 means the same."""

    def __post_init__(self) -> None:
        for name in ("title", "caption", "alt"):
            if not getattr(self, name).strip():
                raise ValueError(f"a figure needs a {name}: give {name}=... as one or two sentences")
        if not 120 <= self.height <= 2000:
            raise ValueError(f"a figure's height is in px, from 120 to 2000, not {self.height}")
        spec = plain(self.spec)
        if self.kind == "chart" and (names := recorded_experiments(self.spec["data"])):
            spec["layout"]["meta"] = {**spec["layout"].get("meta", {}), "recorded": names}
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "narrow_height", self.narrow_height or self.height)

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as JSON types: NumPy converted, floats rounded to seven significant digits."""
        return {
            "kind": self.kind,
            "title": self.title,
            "caption": self.caption,
            "alt": self.alt,
            "height": self.height,
            "narrow_height": self.narrow_height,
            "spec": self.spec,
            "steps": list(self.steps),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Figure:
        """Return the figure whose ``to_dict`` returned ``data``."""
        return cls(
            title=data["title"],
            caption=data["caption"],
            alt=data["alt"],
            height=data["height"],
            kind=data["kind"],
            spec=data["spec"],
            steps=tuple(data["steps"]),
            narrow_height=data["narrow_height"],
        )

    def json_bytes(self) -> bytes:
        """Return the file that the site's script fetches; equal figures have equal bytes."""
        return json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    def text(self) -> str:
        """Return the text for a terminal."""
        return "\n".join([f"Figure: {self.title}", self.alt, *(f"  {step}" for step in self.steps)])

    def html(self, url: str, element_id: str | None = None) -> str:
        """Return the figure's element on a page; it has no blank lines.

        Args:
            url: the URL of the file with ``json_bytes()``.
            element_id: the element's id, for links to the figure.
        """
        name = f' id="{escape(element_id)}"' if element_id else ""
        style = f"--tw-figure-height:{self.height}px;--tw-figure-height-narrow:{self.narrow_height}px"
        recorded = self._recorded()
        rows = "".join(f"<li>{escape(step)}</li>" for step in self.steps)
        listed = f'<ol tabindex="0">{rows}</ol>' if rows else ""
        return (
            f'<figure class="tw-figure"{name} data-figure="{escape(url)}" data-kind="{escape(self.kind)}" '
            f'style="{style}"{recorded}>\n'
            f'<p class="tw-figure-title">{escape(self.title)}</p>\n'
            '<div class="tw-figure-body">'
            f'<noscript><p class="tw-figure-note">{_NO_SCRIPT}</p></noscript></div>\n'
            f"<figcaption>{escape(self.caption)}</figcaption>\n"
            '<div class="tw-folds"><details class="tw-figure-alt"><summary>Text version</summary>'
            f"<p>{escape(self.alt)}</p>{listed}</details></div>\n"
            "</figure>"
        )

    def _recorded(self) -> str:
        """An attribute with the experiments whose recorded values a chart draws; empty if there are none."""
        names = self.spec.get("layout", {}).get("meta", {}).get("recorded") or ()
        return f' data-recorded="{escape(" ".join(names))}"' if names else ""

    def plotly(self, scheme: Scheme = "light") -> dict[str, Any]:
        """Return a chart for Plotly, with its steps as a Plotly slider.

        Args:
            scheme: the scheme of the roles' colours.

        Raises:
            ValueError: the figure is not a chart.
        """
        from tilewise.figures import theme  # only notebooks need it

        if self.kind != "chart":
            raise ValueError(
                f"{self.title!r} is no chart, which Plotly could draw: text() says what it shows"
            )
        layout = {name: value for name, value in self.spec["layout"].items() if name != "meta"}
        layout["title"] = {"text": self.title, "font": {"size": 15}}
        layout["margin"] = {**layout["margin"], "t": 64}
        chart = {"data": self.spec["data"], "layout": layout}
        if frames := self.spec.get("frames"):
            meta = self.spec["layout"]["meta"]
            steps = [
                {
                    "label": frame["name"],
                    "method": "animate",
                    "args": [[frame["name"]], {"mode": "immediate"}],
                }
                for frame in frames
            ]
            slider = {
                "active": meta["start"],
                "currentvalue": {"prefix": f"{meta['step_name']}: "},
                "steps": steps,
            }
            layout["sliders"] = [slider]
            chart["frames"] = frames
        resolved: dict[str, Any] = theme.resolve(chart, scheme)
        return resolved

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Return the output for Jupyter and VS Code: charts for their own Plotly, other figures as text."""
        text = {"text/plain": self.text()}
        return {"application/vnd.plotly.v1+json": self.plotly(), **text} if self.kind == "chart" else text
