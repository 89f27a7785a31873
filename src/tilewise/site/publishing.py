"""The last step of a build: smaller pages.

In: the folder of a finished build. Out: the same folder, where pages have one stylesheet and leaner listings,
and folded content is in separate files. ``mkdocs serve`` skips it.
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
_CHEAPER_SELECTORS = (
    ("table:not([class])", "table.tw-plain"),
    (".tabbed-labels>:", ".tabbed-labels>label:"),
)
"""Selectors that would restyle the whole page when <html> gets a class, and their replacements."""
_LISTING = re.compile(r"<pre>(<span></span><code>.*?</code></pre>)", re.DOTALL)
_WRAPPER = re.compile(r'<div class="md-typeset__scrollwrap">(?=(.*?)</table>)', re.DOTALL)
_MANY_ROWS = 400
"""Number of rows from which a page's tables are laid out only near the viewport."""
_SWITCHING = re.compile(r"\[data-md-color-switching\] \*,[^{}]*\{[^{}]*\}")
"""Restyles the page twice on every load; site/palette.js does the same only when the theme is switched."""
_URL = re.compile(r"url\(\s*(['\"]?)(?!data:|[a-z]+:|/|#)([^)'\"]+)\1\s*\)")


def finish(site: Path, own_styles: str, root: str) -> None:
    """Finish a built site in place.

    Args:
        site: the built site.
        own_styles: the path of our own stylesheet in it.
        root: the path of the site's address, such as ``/`` or ``/tilewise/``; the 404 page's base.
    """
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    pages = {path: text for path, text in pages.items() if "<head>" in text}
    sheets = _stylesheets(site)
    merged = _merged(site, sheets, own_styles) if sheets else ""
    for path, text in pages.items():
        lean = _LISTING.sub(_with_lines, _PLAIN_TOKEN.sub(r"\1", text))
        if merged:
            lean = _PLAIN_TABLE.sub(_wrapped, lean)
            if lean.count("<tr") > _MANY_ROWS:
                lean = _WRAPPER.sub(_with_rows, lean)
            lean = _with_stylesheet(lean, posixpath.join(_base(path, site, root), merged).removeprefix("./"))
        if path.name == "index.html":
            lean, files = lightened(lean)
            for name, text_folded in files.items():
                path.with_name(name).write_text(text_folded, encoding="utf-8")
        path.write_text(lean, encoding="utf-8")


def _base(page: Path, site: Path, root: str) -> str:
    """The base of a page's relative URLs, as MkDocs's templates have it."""
    inside = page.relative_to(site)
    if inside.as_posix() == "404.html":
        return root
    return "/".join([".."] * (len(inside.parts) - 1)) or "."


def _stylesheets(site: Path) -> list[str]:
    """The front page's stylesheets, which every page has, as paths in the site."""
    front = site / "index.html"
    text = front.read_text(encoding="utf-8") if front.is_file() else ""
    return [posixpath.normpath(urlsplit(address).path) for address in _STYLESHEET.findall(text)]


def _merged(site: Path, sheets: list[str], own_styles: str) -> str:
    """Write one stylesheet next to our own, and return its path in the site."""
    folder = posixpath.dirname(own_styles)
    theme = "".join(_rebased(site, sheet, folder) for sheet in sheets if sheet != own_styles)
    own = (site / own_styles).read_text(encoding="utf-8")
    text = _SWITCHING.sub("", theme) + own
    for costly, cheaper in _CHEAPER_SELECTORS:
        text = text.replace(costly, cheaper)
    name = f"{folder}/site.{hashlib.sha256(text.encode()).hexdigest()[:8]}.css"
    (site / name).write_text(text, encoding="utf-8")
    return name


def _rebased(site: Path, sheet: str, folder: str) -> str:
    """A stylesheet's text, with its relative URLs rewritten for another folder."""
    text = (site / sheet).read_text(encoding="utf-8")
    text = re.sub(r"/\*# sourceMappingURL=[^*]*\*/", "", text)
    here = posixpath.dirname(sheet)

    def rewritten(match: re.Match[str]) -> str:
        return f'url("{posixpath.relpath(posixpath.join(here, match[2]), folder)}")'

    return _URL.sub(rewritten, text) + "\n"


def _wrapped(match: re.Match[str]) -> str:
    """A table in the scroll wrapper that the theme's script would add, at the cost of a layout."""
    if match[2] is None:
        return match[0]
    table = f'<table class="tw-plain"{match[1]}>{match[2]}</table>'
    return f'<div class="md-typeset__scrollwrap"><div class="md-typeset__table">{table}</div></div>'


def _with_rows(match: re.Match[str]) -> str:
    """A table's wrapper with its number of rows, unless provenance overflows its edges."""
    rows = match[1].count("<tr")
    return match[0] if "data-provenance" in match[1] else f'{match[0][:-1]} style="--tw-rows:{rows}">'


def _with_lines(match: re.Match[str]) -> str:
    """A listing with its number of lines, from which styles/code.css computes its height."""
    return f'<pre style="--tw-lines:{match[1].count(chr(10))}">{match[1]}'


def _with_stylesheet(text: str, href: str) -> str:
    """A page with one link instead of its stylesheets."""
    first = True

    def replace(match: re.Match[str]) -> str:
        nonlocal first
        link, first = (f'\n      <link rel="stylesheet" href="{href}">' if first else ""), False
        return link

    return _STYLESHEET.sub(replace, text)
