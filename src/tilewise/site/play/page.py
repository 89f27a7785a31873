"""The page of ``tilewise play``: the Playground alone, without the site around it.

In: the token, and the text of a file. Out: HTML whose scripts and styles are files beside it.
"""

from __future__ import annotations

import json
from html import escape

POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Sent with every answer: nothing of another host, and no script or style that stands in the page itself."""
SCHEME = """\
const dark = matchMedia("(prefers-color-scheme: dark)");
const scheme = () => (dark.matches ? "slate" : "default");
const paint = () => document.documentElement.setAttribute("data-md-color-scheme", scheme());
dark.addEventListener("change", paint);
paint();
document.documentElement.classList.add("js");
"""


def compiler_meta(url: str, token: str) -> str:
    """What tells a page's script that texts are compiled here."""
    return f'<meta name="tilewise-compiler" content="{escape(token)}" data-url="{escape(url)}">'


def page(token: str, text: str | None, file: str) -> str:
    """The page.

    Args:
        token: what requests to compile must carry.
        text: the text that the editor has at first; None: that of an example.
        file: the name of the file that it comes from; may be empty.
    """
    given = json.dumps({"text": text}).replace("<", "\\u003c") if text is not None else ""
    held = f'<script type="application/json" class="tw-play-text">{given}</script>' if given else ""
    title = f"{file} · Playground" if file else "Playground"
    return (
        '<!doctype html>\n<html lang="en" class="tw-play-alone">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"{compiler_meta('/compile', token)}\n"
        '<link rel="stylesheet" href="/assets/tilewise.css">\n<script src="/scheme.js"></script>\n'
        '</head>\n<body>\n<main class="md-typeset">\n'
        '<article class="md-content__inner">\n<h1>Playground</h1>\n'
        f'<div class="tw-play" data-examples="/examples.json">{held}</div>\n'
        '</article>\n</main>\n<script src="/assets/tilewise.js"></script>\n</body>\n</html>\n'
    )
