"""Outputs that differ by machine: a cell's outputs, with those of further machines next to them.

In: the outputs of a cell, and by further machine its outputs with that machine's records. Out: Markdown.
Outputs that differ are in a ``div.tw-machines[data-shown]``, those of each further machine in a
``template[data-machine]`` with the same ids; the site's script swaps them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape

from tilewise.outputs import Context, Output

Outputs = Sequence[Output]


def blocks(outputs: Outputs, others: Mapping[str, Outputs], machine: str, context: Context) -> list[str]:
    """The Markdown of a cell's outputs, with the differing ones of further machines."""
    if any(len(further) != len(outputs) for further in others.values()):
        groups = [(outputs, others)]
    else:
        groups = [
            ([output], {name: [further[at]] for name, further in others.items() if further[at] != output})
            for at, output in enumerate(outputs)
        ]
    texts = (_block(shown, differing, machine, context) for shown, differing in groups)
    return [text for text in texts if text]


def shown_alone(markdown: str) -> str:
    """A page's Markdown without the outputs of further machines."""
    return re.sub(r"<template data-machine=.*?</template>", "", markdown, flags=re.S)


def _block(outputs: Outputs, others: Mapping[str, Outputs], machine: str, context: Context) -> str:
    if not others:
        return "\n\n".join(text for output in outputs if (text := output.markdown(context)))
    assigned: dict[str, list[str]] = {}

    def unique(wanted: str) -> str:
        assigned.setdefault(wanted, []).append(context.unique(wanted))
        return assigned[wanted][-1]

    shown = _html(outputs, replace(context, plain=True, unique=unique))
    templates = []
    for name, further in others.items():
        left = {wanted: list(ids) for wanted, ids in assigned.items()}

        def reuse(wanted: str, left: dict[str, list[str]] = left) -> str:
            return left[wanted].pop(0) if left.get(wanted) else context.unique(wanted)

        html = _html(further, replace(context, plain=True, unique=reuse))
        templates.append(f'<template data-machine="{escape(name)}" data-search-exclude>\n{html}\n</template>')
    inner = "\n".join([shown, *templates])
    return context.html_block(f'<div class="tw-machines" data-shown="{escape(machine)}">\n{inner}\n</div>')


def _html(outputs: Outputs, context: Context) -> str:
    return "\n".join(output.markdown(context) for output in outputs)
