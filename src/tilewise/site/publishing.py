"""The last step of a build: every page lighter.

In: the folder of a finished build. Out: the same folder, where pages have one stylesheet and leaner listings,
and what they fold away stands in files beside them. ``mkdocs serve`` skips it.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from pathlib import Path
from urllib.parse import urlsplit

from tilewise.site.folded import lightened

_STYLESHEET = re.compile(r'\s*<link rel="stylesheet" href="([^"]+)">')
_PLAIN_TOKEN = re.compile(r'<span class="(?:n|w)">([^<]*)</span>')
_PLAIN_TABLE = re.compile(r'<script\b.*?</script>|<table((?: data-line="\d+")?)>(.*?)</table>', re.DOTALL)
_EASED = (
    ("table:not([class])", "table.tw-plain"),
    (".tabbed-labels>:", ".tabbed-labels>label:"),
)
"""Selectors that would restyle all of the page when <html> gets a class, and what stands in for them."""
_LISTING = re.compile(r"<pre>(<span></span><code>.*?</code></pre>)", re.DOTALL)
_BOX = re.compile(r'<div class="md-typeset__scrollwrap">(?=(.*?)</table>)', re.DOTALL)
_MANY_ROWS = 400
"""From how many rows on a page's tables are laid out only where they are near the screen."""
_SWITCHING = re.compile(r"\[data-md-color-switching\] \*,[^{}]*\{[^{}]*\}")
"""Restyles the page twice whenever it is opened; site/palette.js does its work when the theme is switched."""
_URL = re.compile(r"url\(\s*(['\"]?)(?!data:|[a-z]+:|/|#)([^)'\"]+)\1\s*\)")


def finish(site: Path, own_styles: str, root: str) -> None:
    """Finish a built site in place.

    Args:
        site: the built site.
        own_styles: the path of our own stylesheet in it.
        root: the path of the site's address, such as ``/`` or ``/tilewise/``, which the 404 page starts from.
    """
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    pages = {path: text for path, text in pages.items() if "<head>" in text}
    sheets = _stylesheets(site)
    one = _merged(site, sheets, own_styles) if sheets else ""
    for path, text in pages.items():
        lean = _LISTING.sub(_with_lines, _PLAIN_TOKEN.sub(r"\1", text))
        if one:
            lean = _PLAIN_TABLE.sub(_in_its_box, lean)
            if lean.count("<tr") > _MANY_ROWS:
                lean = _BOX.sub(_with_rows, lean)
            lean = _with_one(lean, posixpath.join(_base(path, site, root), one).removeprefix("./"))
        if path.name == "index.html":
            lean, files = lightened(lean)
            for name, text_beside in files.items():
                path.with_name(name).write_text(text_beside, encoding="utf-8")
        path.write_text(lean, encoding="utf-8")


def _base(page: Path, site: Path, root: str) -> str:
    """What a page's own addresses start with, as MkDocs writes it for templates."""
    inside = page.relative_to(site)
    if inside.as_posix() == "404.html":
        return root
    return "/".join([".."] * (len(inside.parts) - 1)) or "."


def _stylesheets(site: Path) -> list[str]:
    """The stylesheets of the front page, which are those of every page, as paths in the site."""
    front = site / "index.html"
    text = front.read_text(encoding="utf-8") if front.is_file() else ""
    return [posixpath.normpath(urlsplit(address).path) for address in _STYLESHEET.findall(text)]


def _merged(site: Path, sheets: list[str], own_styles: str) -> str:
    """Write one stylesheet in the folder of our own, and return its path in the site."""
    folder = posixpath.dirname(own_styles)
    theme = "".join(_moved(site, sheet, folder) for sheet in sheets if sheet != own_styles)
    own = (site / own_styles).read_text(encoding="utf-8")
    text = _SWITCHING.sub("", theme) + own
    for costly, eased in _EASED:
        text = text.replace(costly, eased)
    name = f"{folder}/site.{hashlib.sha256(text.encode()).hexdigest()[:8]}.css"
    (site / name).write_text(text, encoding="utf-8")
    return name


def _moved(site: Path, sheet: str, folder: str) -> str:
    """A stylesheet's text, with its relative addresses as they are from another folder."""
    text = (site / sheet).read_text(encoding="utf-8")
    text = re.sub(r"/\*# sourceMappingURL=[^*]*\*/", "", text)
    here = posixpath.dirname(sheet)

    def moved(match: re.Match[str]) -> str:
        return f'url("{posixpath.relpath(posixpath.join(here, match[2]), folder)}")'

    return _URL.sub(moved, text) + "\n"


def _in_its_box(match: re.Match[str]) -> str:
    """A table that may scroll, in the box that the theme's script would move it to, which costs a layout."""
    if match[2] is None:
        return match[0]
    table = f'<table class="tw-plain"{match[1]}>{match[2]}</table>'
    return f'<div class="md-typeset__scrollwrap"><div class="md-typeset__table">{table}</div></div>'


def _with_rows(match: re.Match[str]) -> str:
    """A table's box that says how many rows it has, unless facts of numbers are shown over its edges."""
    rows = match[1].count("<tr")
    return match[0] if "data-provenance" in match[1] else f'{match[0][:-1]} style="--tw-rows:{rows}">'


def _with_lines(match: re.Match[str]) -> str:
    """A listing that says how many lines it has, from which styles/code.css knows its height."""
    return f'<pre style="--tw-lines:{match[1].count(chr(10))}">{match[1]}'


def _with_one(text: str, href: str) -> str:
    """A page with one link in place of its stylesheets."""
    first = True

    def replace(match: re.Match[str]) -> str:
        nonlocal first
        link, first = (f'\n      <link rel="stylesheet" href="{href}">' if first else ""), False
        return link

    return _STYLESHEET.sub(replace, text)
