"""The page that ``tilewise trace`` writes: one file with hazards, the stepped figure and the counts by line.

In: a run, its launch and its figure. Out: HTML with its own styles, scripts and data, which opens from a
folder and needs no server. ``site/web/play/trace.js`` lets the reader change the launch and run it again.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.cuda.tensor_map import InnerPointer
from tilewise.outputs.base import with_code

if TYPE_CHECKING:
    from tilewise.figures import Figure
    from tilewise.kernel.launch import Launch

MOST_HELD = 1 << 20
"""Most bytes of the launch's arrays in the page; for the rest, it draws new random numbers."""

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
.tw-assumed { margin: .5rem 0 0; padding: .6rem 1rem; border-left: 3px solid var(--tw-ink-2); }
"""
SCHEME = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => { document.body.dataset.mdColorScheme = dark.matches ? "slate" : "default"; };
dark.addEventListener("change", paint);
paint();
"""


def page(
    run: Any, again: dict[str, Any], figure: Figure | None, note: str, facts: str, advice: str, assets: Path
) -> str:
    """Return the whole page.

    Args:
        run: the run whose counts are shown.
        again: the launch as ``relaunch`` returned it.
        figure: the stepped figure; None if there is nothing to step through, which ``note`` then explains.
        note: what the figure omits.
        facts: the command's arguments in a line.
        advice: which values were assumed, and which others avoid the hazard; empty if none were.
        assets: the folder with the built styles and scripts.
    """
    if figure is None:
        figure_html = ""
    else:
        data = figure.json_bytes().decode().replace("<", "\\u003c")
        figure_html = (
            f"{figure.html('#tw-data', 'steps')}\n"
            f'<script type="application/json" id="tw-data">{data}</script>\n'
        )
    return (
        '<!doctype html>\n<html lang="en" data-tw-figures>\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(run.title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{styles(assets)}{_STYLE}</style>\n</head>\n"
        f'<body data-md-color-scheme="default">\n<script>{SCHEME}</script>\n<main class="tw-trace">\n'
        f'<h1>{escape(run.title)}</h1>\n<p class="tw-facts">{escape(facts)}</p>\n'
        f"{_assumed(advice)}{_hazards(run)}\n<h2>Step by step</h2>\n"
        f"{f'<p>{escape(note)}</p>' if note else ''}\n{figure_html}\n"
        f"<h2>Counts by line</h2>\n<div class='md-typeset'>{run.as_output().html()}</div>\n"
        "<p>Counted by the simulator at the level of PTX: requests of warps, 32-byte sectors, passes over "
        "the banks of shared memory. No caches and no time.</p>\n"
        f"{_panel(again, assets)}\n</main>\n{_scripts(assets)}\n</body>\n</html>\n"
    )


def _assumed(advice: str) -> str:
    """The advice on assumed values, with arguments as code."""
    if not advice:
        return ""
    text = re.sub(r"--(?:arg|grid|block|shared) [^\s;]*[^\s;.]", r"<code>\g<0></code>", escape(advice))
    return f'<p class="tw-assumed"><strong>Assumed values.</strong> {text}</p>\n'


def _panel(again: dict[str, Any], assets: Path) -> str:
    """The launch with input fields, and the scripts and data to run it again."""
    data = json.dumps(again).replace("<", "\\u003c")
    return (
        "<h2>Run it again</h2>\n"
        "<p>Change the launch or the inputs, and the kernel runs again in your browser, offline.</p>\n"
        '<div class="md-typeset"><div class="tw-try" id="tw-again"></div></div>\n'
        f'<script type="application/json" id="tw-again-data">{data}</script>\n'
        f"{simulator(assets)}\n"
        f'<script type="module">{held(assets, "trace.js")}</script>'
    )


def styles(assets: Path) -> str:
    """The site's styles, with the fonts of the reader's machine."""
    return re.sub(r"@font-face\s*{[^}]*}", "", (assets / "tilewise.css").read_text(encoding="utf-8"))


def simulator(assets: Path) -> str:
    """The simulator embedded in a page, for ``site/web/play/held.js``."""
    wasm = base64.b64encode(gzip.compress((assets / "machine.wasm").read_bytes(), mtime=0)).decode()
    return (
        f'<script type="text/plain" id="tw-wasm">{wasm}</script>\n'
        f'<script type="text/plain" id="tw-worker">{held(assets, "run_worker.js")}</script>'
    )


def relaunch(launch: Launch) -> dict[str, Any]:
    """A launch in the format of ``kernel/pasted.py``, with its values in the page's fields.

    Raises:
        LessonError: the kernel does not compile.
    """
    from tilewise.kernel.pasted import offered

    pasted = offered(launch.kernel)
    offer, proposal = pasted["offer"], pasted["proposal"]
    fields = proposal["fields"]
    for axis, blocks, threads in zip("xyz", launch.grid, launch.block, strict=True):
        fields |= {f"grid.{axis}": str(blocks), f"block.{axis}": str(threads)}
    fields["shared.bytes"] = str(launch.shared_bytes)
    values = launch.case.make()
    left, fills = MOST_HELD, {}
    for argument in offer["arguments"]:
        name = argument["name"]
        value = values[name]
        if isinstance(value, InnerPointer):
            first, value = value.first, values[value.source]
            argument["before"] = first * value.dtype.itemsize
        if value is None:
            fills[name] = ["null", ""]
        elif "shape" not in argument:
            fields[name] = str(np.asarray(value).item())
        else:
            if f"{name}.length" in fields:
                fields[f"{name}.length"] = str(np.size(value))
            left -= np.asarray(value).nbytes
            if left >= 0:
                argument.update(_contents(np.ascontiguousarray(value).tobytes()))
    state = launch.kernel.state
    offer["variables"] = [
        None
        if entry is None or (data := state.get(entry["name"])) is None
        else entry | _contents(data.tobytes())
        for entry in offer["variables"]
    ]
    entries = (*offer["arguments"], *filter(None, offer["variables"]))
    names = {entry["name"] for entry in entries}
    with_data = {entry["name"] for entry in entries if "data" in entry}
    proposal["arguments"] = [
        argument | ({"begins": "as given"} if argument["name"] in with_data else {})
        for argument in proposal["arguments"]
        if argument["name"] in names
    ]
    offer["collect"] = True
    return {**pasted, "fills": fills}


def _contents(raw: bytes) -> dict[str, Any]:
    """An array's initial contents, embedded in the page."""
    return {"fill": {"kind": "given"}, "data": base64.b64encode(raw).decode()}


def held(assets: Path, name: str) -> str:
    """A script's text, escaped for HTML."""
    text = (assets / name).read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _scripts(assets: Path) -> str:
    licences = assets / "plotly.js.LEGAL.txt"
    legal = licences.read_text(encoding="utf-8") if licences.is_file() else ""
    return (
        f'<script type="text/plain" id="tw-plotly">{held(assets, "plotly.js")}</script>\n'
        f'<script type="text/plain" id="tw-licences">{legal.replace("</script", "")}</script>\n'
        f"{stepping(assets)}"
    )


def stepping(assets: Path) -> str:
    """The scripts of stepped figures, without Plotly: without it, a page shows every launch flat."""
    return "\n".join(f"<script>{held(assets, name)}</script>" for name in ("stepped.js", "figures.js"))


def _hazards(run: Any) -> str:
    if not run.hazards:
        return "<h2>Hazards</h2>\n<p>None was met.</p>"
    boxes = []
    for hazard in run.hazards:
        times = f", {hazard.count:,} times" if hazard.count > 1 else ""
        near = "near " if hazard.is_near else ""
        code = escape(hazard.source_line.strip())
        at = f"{near}line {hazard.line}{times}: <code>{code}</code>" if hazard.line else ""
        if hazard.header:
            at += f"<br>{escape(hazard.header)}: <code>{escape(hazard.header_line.strip())}</code>"
        boxes.append(
            f'<div class="tw-found"><strong>{escape(hazard.kind)}.</strong> {with_code(hazard.message)}<br>'
            f"{at}<br>{escape(hazard.repair)}</div>"
        )
    return "<h2>Hazards</h2>\n" + "\n".join(boxes)
