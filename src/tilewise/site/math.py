"""Formulas as MathML: rendered in the build, drawn by the browser without any script or font.

In: HTML in which ``pymdownx.arithmatex`` (``generic: true``) has marked formulas. Out: the same HTML with
``<math>`` instead; the TeX stays in ``data-tex`` (for copying) and in an annotation.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape, unescape
from xml.etree import ElementTree

_MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">(?:\\\((?P<inline>.*?)\\\)|\\\[(?P<block>.*?)\\\])</(?P=tag)>'
    r"(?P<after>[,.;:)?]*)",
    re.DOTALL,
)


class UnreadableFormula(ValueError):  # noqa: N818 - the fault is the formula
    """A formula that cannot be read; its message quotes it."""

    def __init__(self, tex: str, reason: str) -> None:
        super().__init__(f"the formula ${tex}$ cannot be read: {reason}.")
        self.tex = tex


def render_math(html: str) -> str:
    """Replace every marked formula by MathML.

    Args:
        html: a page's content.

    Raises:
        UnreadableFormula: a formula cannot be read.
    """
    if "arithmatex" not in html:
        return html

    def replace(match: re.Match[str]) -> str:
        block = match["block"] is not None
        tex = unescape(match["block"] if block else match["inline"]).strip()
        mathml = to_mathml(tex, block)
        tag = "div" if block else "span"
        formula = f'<{tag} class="tw-math" data-tex="{escape(tex)}">{mathml}</{tag}>'
        after = match["after"]  # a line must not begin with closing punctuation
        return (
            f'<span class="tw-unbroken">{formula}{after}</span>' if after and not block else formula + after
        )

    return _MARKED.sub(replace, html)


@lru_cache(maxsize=4096)
def to_mathml(tex: str, block: bool) -> str:
    """Return a formula as a ``<math>`` element.

    Raises:
        UnreadableFormula: the TeX cannot be read.
    """
    from latex2mathml.converter import convert_to_element

    try:
        math = convert_to_element(tex, display="block" if block else "inline")
    except Exception as error:
        if type(error).__module__ != "latex2mathml.exceptions":  # its errors share no base class
            raise
        reason = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__.removesuffix("Error")).lower()
        raise UnreadableFormula(tex, reason) from None
    for element in math.iter():  # symbols are character references, which serialising would escape again
        element.text = unescape(element.text) if element.text else None
    unknown = [text for element in math.iter() if (text := element.text) and text.startswith("\\")]
    if unknown:
        raise UnreadableFormula(tex, f"{unknown[0]} is unknown")
    rows = list(math)
    semantics = ElementTree.Element("semantics")
    for row in rows:
        math.remove(row)
        semantics.append(row)
    ElementTree.SubElement(semantics, "annotation", {"encoding": "application/x-tex"}).text = tex
    math.append(semantics)
    math.attrib.pop("xmlns", None)
    return ElementTree.tostring(math, encoding="unicode")
