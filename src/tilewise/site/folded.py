"""Folded content in a separate file next to the page, fetched when a reader first opens it.

In: a finished page. Out: the same page with only a link in each long closed fold, and for a lesson's rows in
a table of all lessons; and the files that the links point to, which are pages of their own for browsers
without JavaScript. ``web/site/later.js`` puts the parts back in place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

FILE = "folded.html"
"""The file of a page's folds, in the page's folder."""
ROWS = "rows-{}.html"
"""The file of one lesson's rows in a table of all lessons."""
LATER = "tw-later"
"""The class of the element with the link."""
LEAST = {"": 1000, "hint": 8000, "answer": 8000, "tw-provenance": 20_000}
"""Length in characters from which a fold's content moves out of the page, by the fold's class. Tasks should
need no fetch, and numbers in sentences show the facts of the records next to them."""
_ARTICLE = re.compile(r'<article class="md-content__inner.*?</article>', re.S)
_TAG = re.compile(r"""<(/?)(details|figure|template)\b((?:"[^"]*"|'[^']*'|[^>"'])*)>""")
_SUMMARY = re.compile(r"<summary\b[^>]*>(.*?)</summary>", re.S)
_CLASS = re.compile(r'\sclass="([^"]+)"')
_ID = re.compile(r'\sid="(?!__)([^"]+)"')
_OWN_PLACE = re.compile(r'\shref="#([^"]*)"')
_HEAD = re.compile(
    r'\s*(<(?:meta (?:charset|name="viewport"|http-equiv)|link rel="(?:icon|stylesheet)")[^>]*>)'
)
_TITLE = re.compile(r"<title>(.*?)</title>", re.S)
_BODY = re.compile(r"<body\b[^>]*>")
_TABLE = re.compile(r'(<table class="tw-sortable"[^>]*>)(<thead>.*?</thead>)(.*?)</table>', re.S)
_GROUP = re.compile(r'(<tbody data-group="([^"]*)">\s*<tr class="tw-group">.*?</tr>)(.*?)</tbody>', re.S)
_ROW = re.compile(r"<tr\b([^>]*)>")
_DATUM = re.compile(r'\sdata-([\w-]+)="([^"]*)"')


@dataclass(frozen=True)
class Part:
    """The content that a link replaces."""

    name: str
    """Its id in the file."""
    title: str
    """Its title in the file; HTML."""
    html: str
    aside: bool = False
    """Whether it belongs to a machine that isn't shown, so that its ids repeat others."""


def lightened(page: str) -> tuple[str, dict[str, str]]:
    """Move a page's folded content into files.

    Args:
        page: the page's HTML.

    Returns:
        The page without that content, and the files for its folder, by name.
    """
    match = _ARTICLE.search(page)
    if match is None:
        return page, {}
    article = match[0]
    files = {}
    article, groups = _without_rows(article)
    for name, group in groups.items():
        files[name] = _file(page, [group])
    article, parts = _without_folds(article)
    if parts:
        files[FILE] = _file(page, list(parts.values()))
    return page[: match.start()] + article + page[match.end() :], files


def _without_folds(html: str) -> tuple[str, dict[str, Part]]:
    """An article with links in its long closed folds, and their content by id."""
    parts: dict[str, Part] = {}
    pieces: list[str] = []
    at = 0
    for start, end, aside in _folds(html):
        summary = _SUMMARY.search(html, start, end)
        if summary is None:
            continue
        inside = html[summary.end() : end]
        classes = _CLASS.search(html, start, summary.start())
        kind = classes[1].split()[0] if classes else ""
        if len(inside) < LEAST.get(kind, LEAST[""]):
            continue
        name = _name(inside)
        if name not in parts or parts[name].aside:
            parts[name] = Part(name, re.sub(r"</?a\b[^>]*>", "", summary[1]), inside, aside)
        link = f'<a href="{FILE}#{name}">Open this part on a page of its own</a>'
        pieces += [html[at : summary.end()], f'<p class="{LATER}">{link}{_placeholders(inside)}</p>']
        at = end
    return "".join([*pieces, html[at:]]), parts


def _folds(html: str) -> Iterator[tuple[int, int, bool]]:
    """The outermost closed folds that may move out: start, end of the content, whether in a template.

    The text version of a chart of records stays, because a reader's own records rewrite it.
    """
    stack: list[tuple[str, int, bool]] = []
    for tag in _TAG.finditer(html):
        if not tag[1]:
            closed = tag[2] == "details" and not re.search(r"\sopen\b", tag[3])
            recorded = tag[2] == "figure" and " data-recorded" in tag[3]
            stack.append((tag[2], tag.start(), closed or recorded))
        elif stack and stack[-1][0] == tag[2]:
            name, start, movable = stack.pop()
            around = any(outer[2] for outer in stack)
            if name == "details" and movable and not around:
                yield start, tag.start(), any(outer[0] == "template" for outer in stack)


def _without_rows(html: str) -> tuple[str, dict[str, Part]]:
    """An article whose tables of all lessons keep the first lesson's rows, and the other rows by file."""
    parts: dict[str, Part] = {}

    def table(match: re.Match[str]) -> str:
        groups = list(_GROUP.finditer(match[3]))
        body, at = [], 0
        for group in groups[1:]:
            name = _name(group[3])
            file = ROWS.format(name.removeprefix("fold-"))
            whole = f"{match[1]}{match[2]}{group[1]}{group[3]}</tbody></table>"
            parts[file] = Part(name, group[2], f'<div class="tw-table tw-all-rows">{whole}</div>')
            heads = match[2].count("<th")
            link = f'<a href="{file}#{name}">Rows of {group[2]}</a>'
            counts = json.dumps(_counts(group[3]), separators=(",", ":")).replace('"', "&quot;")
            cell = f'<td colspan="{heads}">{link}{_placeholders(group[3])}</td>'
            row = f'<tr class="{LATER}" data-rows="{counts}">{cell}</tr>'
            body += [match[3][at : group.start()], f"{group[1]}{row}</tbody>"]
            at = group.end()
        return "".join([match[1], match[2], *body, match[3][at:], "</table>"])

    return _TABLE.sub(table, html), parts


def _counts(rows: str) -> list[list[object]]:
    """The data attributes of rows with their counts, for the script's counters and filters."""
    data = (tuple(_DATUM.findall(row[1])) for row in _ROW.finditer(rows) if "data-lesson" in row[1])
    return [[dict(attributes), count] for attributes, count in Counter(data).items()]


def _placeholders(html: str) -> str:
    """A placeholder for each id that a link may target until the part is loaded."""
    return "".join(f'<span id="{name}"></span>' for name in dict.fromkeys(_ID.findall(html)))


def _name(html: str) -> str:
    return f"fold-{hashlib.sha256(html.encode()).hexdigest()[:10]}"


def _file(page: str, parts: list[Part]) -> str:
    """The parts as a page of their own, with the head and body of the page that they come from."""
    title = match[1].strip() if (match := _TITLE.search(page)) else ""
    body = match[0] if (match := _BODY.search(page)) else "<body>"
    here = {name for part in parts for name in _ID.findall(part.html)}

    def place(match: re.Match[str]) -> str:
        return match[0] if match[1] in here or match[1][:2] == "__" else f' href="./#{match[1]}"'

    sections = []
    for part in parts:
        inside = _OWN_PLACE.sub(place, part.html)
        if part.aside:
            sections.append(f'<template id="{part.name}">{inside}</template>')
        else:
            sections.append(f'<section id="{part.name}"><h2>{part.title}</h2><div>{inside}</div></section>')
    lines = [
        '<!doctype html>\n<html lang="en">\n<head>',
        *_HEAD.findall(page.partition("</head>")[0]),
        f'<meta name="robots" content="noindex">\n<title>Folded parts of {title}</title>\n</head>',
        f'{body}\n<main class="md-typeset tw-folded">\n<p><a href="./">Back to the page</a></p>',
        f"<h1>Folded parts of {title}</h1>",
        *sections,
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(lines)
