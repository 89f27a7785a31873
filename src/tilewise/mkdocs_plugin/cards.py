"""The picture of a page that other sites show beside a link to it: its title and what it is about, as a PNG.

In: texts, the site's fonts and the palette. Out: the bytes of a picture of 1200 by 630 pixels, drawn here: no
service is asked. Where pictures lie and which page has which is left to the plugin.
"""

from __future__ import annotations

import io
from functools import cache
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

from tilewise.figures.theme import colour

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

SIZE = (1200, 630)
"""Pixels, as Open Graph's readers expect."""
FOLDER = "assets/cards"
"""Where the site keeps them."""
_EDGE = 84
_TITLE_SIZES = (84, 72, 62, 52)
_TEXT_SIZE = 36
_MARK = ((0, 0), (1, 0), (0, 1))
"""The three whole tiles of the mark; the fourth is cut into four."""


def card_path(url: str) -> str:
    """The path of a page's picture in the site, from the page's own address in it."""
    return f"{FOLDER}/{url.strip('/').removesuffix('.html').replace('/', '-') or 'course'}.png"


def card(title: str, text: str, site: str, fonts: Path) -> bytes:
    """Draw a page's picture.

    Args:
        title: the page's title.
        text: what it is about; cut after four lines.
        site: the site's name.
        fonts: the folder with ``text.woff2`` and ``text-bold.woff2``.
    """
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", SIZE, colour("surface"))
    draw = ImageDraw.Draw(picture)
    _draw_mark(draw, _EDGE, _EDGE, 22)
    draw.text((_EDGE + 72, _EDGE + 24), site, colour("muted"), _font(fonts, "text-bold", 34), anchor="lm")
    width = SIZE[0] - 2 * _EDGE
    top = _EDGE + 96
    for size in _TITLE_SIZES:
        face = _font(fonts, "text-bold", size)
        lines = _wrapped(unescape(title), face, width)
        if len(lines) <= 2:
            break
    for line in lines[:3]:
        draw.text((_EDGE, top), line, colour("ink"), face)
        top += round(size * 1.16)
    top += 28
    face = _font(fonts, "text", _TEXT_SIZE)
    lines = _wrapped(unescape(text), face, width)
    room = min(4, (SIZE[1] - _EDGE - top) // 50)
    if len(lines) > room:
        lines = [*lines[: room - 1], f"{lines[room - 1]} …"] if room else []
    for line in lines:
        draw.text((_EDGE, top), line, colour("muted"), face)
        top += 50
    draw.rectangle((0, SIZE[1] - 12, SIZE[0], SIZE[1]), colour("read"))
    kept = io.BytesIO()
    picture.quantize(64).save(kept, "PNG", optimize=True)
    return kept.getvalue()


def _draw_mark(draw: ImageDraw, left: int, top: int, tile: int) -> None:
    step = tile + 4
    for x, y in _MARK:
        corner = (left + x * step, top + y * step)
        draw.rectangle((*corner, corner[0] + tile - 1, corner[1] + tile - 1), colour("ink"))
    small = (tile - 4) // 2
    for x in range(2):
        for y in range(2):
            corner = (left + step + x * (small + 4), top + step + y * (small + 4))
            fill = colour("read") if (x, y) == (0, 0) else colour("ink")
            draw.rectangle((*corner, corner[0] + small - 1, corner[1] + small - 1), fill)


@cache
def _font(fonts: Path, face: str, size: int) -> FreeTypeFont:
    from PIL import ImageFont

    return ImageFont.truetype(str(fonts / f"{face}.woff2"), size)


def _wrapped(text: str, face: FreeTypeFont, width: int) -> list[str]:
    """The text's lines, each no wider than ``width`` where its words allow it."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and face.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
