"""The page that ``tilewise trace`` writes: one file with hazards, the stepped figure and the counts by line.

In: a run and its figure. Out: HTML that holds its own styles, scripts and data, opens from a folder and asks
no server for anything.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewise.outputs.base import with_code

if TYPE_CHECKING:
    from tilewise.figures import Figure

_STYLE = """
body { margin: 0; background: var(--tw-paper); color: var(--tw-ink); font: 16px/1.5 var(--tw-sans); }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font: 600 1.4rem/1.3 var(--tw-mono, monospace); overflow-wrap: anywhere; }
h2 { margin: 2.2rem 0 .6rem; font-size: 1.1rem; }
code, .tw-mono { font-family: var(--tw-mono, monospace); font-size: .85rem; }
figure { margin: 0; }
.tw-facts { color: var(--tw-ink-2); font-size: .85rem; overflow-wrap: anywhere; }
.tw-found { padding: .6rem 1rem; border-left: 3px solid var(--tw-bad); background: var(--tw-bad-soft); }
.tw-found + .tw-found { margin-top: .5rem; }
"""
_SCHEME = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => { document.body.dataset.mdColorScheme = dark.matches ? "slate" : "default"; };
dark.addEventListener("change", paint);
paint();
"""


def page(run: Any, figure: Figure | None, facts: str, note: str, assets: Path) -> str:
    """Return the whole page.

    Args:
        run: the run whose counts are shown.
        figure: the stepped figure; None where there is nothing to step through, which ``note`` then explains.
        facts: the command's arguments in a line.
        note: what the figure leaves out.
        assets: the folder with the built styles and scripts.
    """
    styles = re.sub(r"@font-face\s*{[^}]*}", "", (assets / "tilewise.css").read_text(encoding="utf-8"))
    if figure is None:
        drawn = ""
    else:
        data = figure.json_bytes().decode().replace("<", "\\u003c")
        drawn = (
            f"{figure.html('#tw-data', 'steps')}\n"
            f'<script type="application/json" id="tw-data">{data}</script>\n'
            f"{_scripts(assets)}"
        )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(run.title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{styles}{_STYLE}</style>\n</head>\n"
        f'<body data-md-color-scheme="default">\n<script>{_SCHEME}</script>\n<main class="tw-trace">\n'
        f'<h1>{escape(run.title)}</h1>\n<p class="tw-facts">{escape(facts)}</p>\n'
        f"{_hazards(run)}\n<h2>Step by step</h2>\n"
        f"{f'<p>{escape(note)}</p>' if note else ''}\n{drawn}\n"
        f"<h2>Counts by line</h2>\n<div class='md-typeset'>{run.as_output().html()}</div>\n"
        "<p>Counted by the simulator at the level of PTX: requests of warps, 32-byte sectors, passes over "
        "the banks of shared memory. No caches and no time.</p>\n</main>\n</body>\n</html>\n"
    )


def _scripts(assets: Path) -> str:
    def held(name: str) -> str:
        text = (assets / name).read_text(encoding="utf-8")
        return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")

    licences = assets / "plotly.js.LEGAL.txt"
    legal = licences.read_text(encoding="utf-8") if licences.is_file() else ""
    return (
        f'<script type="text/plain" id="tw-plotly">{held("plotly.js")}</script>\n'
        f'<script type="text/plain" id="tw-licences">{legal.replace("</script", "")}</script>\n'
        f"<script>{held('stepped.js')}</script>\n<script>{held('figures.js')}</script>"
    )


def _hazards(run: Any) -> str:
    if not run.hazards:
        return "<h2>Hazards</h2>\n<p>None was met.</p>"
    found = []
    for hazard in run.hazards:
        times = f", {hazard.count:,} times" if hazard.count > 1 else ""
        near = "near " if hazard.is_near else ""
        code = escape(hazard.source_line.strip())
        at = f"{near}line {hazard.line}{times}: <code>{code}</code>" if hazard.line else ""
        found.append(
            f'<div class="tw-found"><strong>{escape(hazard.kind)}.</strong> {with_code(hazard.message)}<br>'
            f"{at}<br>{escape(hazard.repair)}</div>"
        )
    return "<h2>Hazards</h2>\n" + "\n".join(found)
