"""The page of ``tilewise play``: the Playground without the rest of the site.

In: the token, and the text of a file. Out: HTML whose scripts and styles are separate files.
"""

from __future__ import annotations

import json
from html import escape

POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Sent with every response: no resources from other hosts, and no inline scripts or styles."""
SCHEME = """\
const dark = matchMedia("(prefers-color-scheme: dark)");
const scheme = () => (dark.matches ? "slate" : "default");
const paint = () => document.documentElement.setAttribute("data-md-color-scheme", scheme());
dark.addEventListener("change", paint);
paint();
document.documentElement.classList.add("js");
"""


def compiler_meta(url: str, token: str) -> str:
    """Return the tag that tells a page's script where to send compile requests."""
    return f'<meta name="tilewise-compiler" content="{escape(token)}" data-url="{escape(url)}">'


def page(token: str, text: str | None, file: str) -> str:
    """Return the page.

    Args:
        token: required in compile requests.
        text: the editor's initial text; None means an example.
        file: the name of the text's file; may be empty.
    """
    data = json.dumps({"text": text}).replace("<", "\\u003c") if text is not None else ""
    script = f'<script type="application/json" class="tw-play-text">{data}</script>' if data else ""
    title = f"{file} · Playground" if file else "Playground"
    return (
        '<!doctype html>\n<html lang="en" class="tw-play-alone">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"{compiler_meta('/compile', token)}\n"
        '<link rel="stylesheet" href="/assets/tilewise.css">\n<script src="/scheme.js"></script>\n'
        '</head>\n<body>\n<main class="md-typeset">\n'
        '<article class="md-content__inner">\n<h1>Playground</h1>\n'
        f'<div class="tw-play" data-examples="/examples.json">{script}</div>\n'
        '</article>\n</main>\n<script src="/assets/tilewise.js"></script>\n</body>\n</html>\n'
    )
