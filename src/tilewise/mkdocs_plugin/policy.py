"""The Content-Security-Policy of published pages: our own files, and the theme's own inline scripts by hash.

In: a page's HTML, and the texts of the scripts that the theme prints inline. Out: one policy for the whole
site, since a page that instant navigation brings in lives under the policy of the page that was loaded.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection
from html import escape

from jinja2 import Environment
from mkdocs.config.defaults import MkDocsConfig

_THEMES = (
    "javascripts/base.html",
    "javascripts/palette.html",
    "javascripts/content.html",
    "lazy-search.html",
    "color-scheme.html",
)
"""The partials of the theme, and of our overrides, that print scripts into pages."""
_SCRIPT = re.compile(
    r"<script(?=[\s>/])(?P<attributes>(?:[^>\"']|\"[^\"]*\"|'[^']*')*)>(?P<text>.*?)</script",
    re.DOTALL | re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"(?P<name>[^\s=>/]+)(?:\s*=\s*(?P<value>\"[^\"]*\"|'[^']*'|[^\s>]+))?")
_EMPTY = ""
"""Plotly keeps its rules in a style element that holds no text and is filled by script."""


def content_security_policy(scripts: Collection[str]) -> str:
    """The policy, which allows these inline scripts and nothing else inline that could run.

    Style elements must be empty; style attributes are allowed, since tables and figures state alignments and
    heights so, and an attribute styles nothing but its own element. There is no ``eval`` and no other host.
    Addresses may be the page's own host only; images may also be written out (``data:``), as icons are.
    """
    hashes = sorted(_hash(script) for script in scripts)
    directives = {
        "default-src": ["'none'"],
        "script-src": ["'self'", *hashes],
        "style-src": ["'self'", _hash(_EMPTY)],
        "style-src-attr": ["'unsafe-inline'"],
        "img-src": ["'self'", "data:", "blob:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "worker-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
    }
    return "; ".join(f"{name} {' '.join(values)}" for name, values in directives.items())


def theme_scripts(environment: Environment, config: MkDocsConfig, base: str) -> set[str]:
    """The inline scripts that the theme prints on a page whose addresses start with ``base``."""
    context = {"config": config, "base_url": base, "features": config.theme.get("features") or []}
    return {
        script
        for name in _THEMES
        for script in inline_scripts(environment.get_template(f"partials/{name}").render(context))
    }


def with_policy(page: str, policy: str) -> str:
    """A page that states the policy behind its encoding, before anything that the policy could forbid."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy, quote=False)}">'
    for mark in ('<meta charset="utf-8">', "<head>"):
        start, found, rest = page.partition(mark)
        if found:
            return f"{start}{found}\n      {meta}{rest}"
    return page


def inline_scripts(page: str) -> list[str]:
    """The texts of a page's inline scripts; blocks of data are none.

    A script's text ends at the first ``</script``, whatever is in it, so a search finds what a parser finds.
    What only looks like a script, in a comment, is found as well, and then named as one that will not run.
    """
    return [match["text"] for match in _SCRIPT.finditer(page) if _runs(match["attributes"])]


def _runs(attributes: str) -> bool:
    """Whether a script element with these attributes holds a script, and holds it itself."""
    given = {match["name"].lower(): match["value"] for match in _ATTRIBUTE.finditer(attributes)}
    kind = (given.get("type") or "").strip("\"'").lower()
    return "src" not in given and kind in ("", "text/javascript", "module")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
