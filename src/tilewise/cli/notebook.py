"""``%load_ext tilewise.cli.notebook``: outputs in Jupyter, VS Code and Colab much as a page has them.

In: outputs that cells show. Out: kernels of ``try_it`` in a frame that runs them with the reader's own sizes,
step by step; charts for the notebook's own Plotly; everything else as text. A kernel's source is edited in
its cell. Needs Node 20 once, like ``tilewise trace``; without it, the runs are text, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from tilewise.cli.trace import cache_root
from tilewise.cli.trace_page import SCHEME, held, simulator, stepping, styles
from tilewise.outputs.base import Context, Output, PrintingSink, set_sink
from tilewise.outputs.kinds import FigureOutput
from tilewise.outputs.try_it import TryOutput
from tilewise.site.frontend import FrontendError, build_assets

_STYLE = (
    "body { margin: 0; background: var(--tw-paper); color: var(--tw-ink); font: 15px/1.5 var(--tw-sans); }"
)


def load_ipython_extension(shell: Any) -> None:
    """Show outputs in this notebook's cells; called by IPython."""
    from IPython.display import display

    set_sink(NotebookSink(display))


def unload_ipython_extension(shell: Any) -> None:
    """Print outputs again; called by IPython."""
    set_sink(PrintingSink())


class NotebookSink(PrintingSink):
    """Shows each output in the notebook's form."""

    def __init__(self, display: Callable[..., None]) -> None:
        self._display = display

    def add(self, output: Output) -> None:
        """Show it below the cell."""
        self._display(bundle(output), raw=True)


def bundle(output: Output) -> dict[str, Any]:
    """An output by MIME type, which always includes text."""
    if isinstance(output, FigureOutput):
        return output.figure._repr_mimebundle_()
    shown = {"text/plain": output.text()}
    if isinstance(output, TryOutput) and (assets := _assets()) is not None:
        shown["text/html"] = frame(output, assets)
    return shown


@cache
def _assets() -> Path | None:
    try:
        return build_assets(cache_root())
    except FrontendError as error:
        print(f"Kernels do not run in the notebook's cells: {error}")
        return None


def frame(output: TryOutput, assets: Path) -> str:
    """A frame with the panel and the simulator, which needs no server.

    Args:
        output: the kernels, their sizes and the run at the start.
        assets: the folder with the built styles and scripts.
    """
    context = Context("notebook", 0, lambda *_: "", lambda wanted: wanted, plain=True)
    offered = {name: value for name, value in output.offer.items() if name != "totals"}  # there is no page
    offer = json.dumps(offered).replace("<", "\\u003c")
    page = (
        '<!doctype html><html lang="en" data-tw-figures><meta charset="utf-8"><title>Run it yourself</title>'
        f"<style>{styles(assets)}{_STYLE}</style>\n"
        f'<body data-md-color-scheme="default"><script>{SCHEME}</script>\n'
        f'<div class="md-typeset">{output.markdown(context)}</div>\n'
        f'<script type="application/json" id="tw-offer">{offer}</script>\n{simulator(assets)}\n'
        f'{stepping(assets)}\n<script type="module">{held(assets, "notebook.js")}</script></body></html>'
    )
    return (
        f'<iframe title="Run it yourself" srcdoc="{escape(page)}" '
        'style="width: 100%; height: 40rem; border: 0"></iframe>'
    )
