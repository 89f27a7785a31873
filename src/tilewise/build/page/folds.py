"""One line of folds under each output, and one badge for all checks of a page.

In: a page's HTML, with a separate block for each fold and check. Out: the same page, with neighbouring folds
as entries of one ``div.tw-folds``, that of the output above if there is one, and the checks listed in a
``details.tw-checks`` at the end of the lesson's head. It works on finished HTML, because only there is the
output of one cell next to the code of another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

SHOW_CODE = "Show code"
"""The default title of a code fold."""
_CODE = re.compile(r"(Code (of|for|that)\b|Imports$|The whole cell\b)")
_TAG = re.compile(r"""<(/?)(details|figure|div|template)\b((?:"[^"]*"|'[^']*'|[^>"'])*)>""")
_CLASS = re.compile(r'\bclass="([^"]*)"')
_SUMMARY = re.compile(r"<summary>(.*?)</summary>", re.S)
_HEADING = re.compile(r'<h[2-6] [^>]*?id="([^"]+)"[^>]*>(.*?)</h[2-6]>', re.S)
_PERMALINK = re.compile(r'<a class="headerlink".*?</a>', re.S)
_EMPTY = re.compile(r'<div(?: class="tw-machines"[^>]*)?>\s*(?:<template[^>]*>\s*</template>\s*)*</div>\s*')
_TEXTS = ("code", "kernel", "hint", "tests", "answer", "definition", "convention")
_FACTS = ("tw-provenance", "tw-rows", "tw-notes", "tw-needs")
_ENTRIES = frozenset(_TEXTS + _FACTS)
"""Classes of folds that become entries of a line."""
_ALONE = frozenset({"definition", "convention"})
"""Folds that stay separate blocks if there is no other fold next to them."""
_LINE = '<div class="tw-folds">'
_OUTPUTS = frozenset({"tw-measurement", "tw-machines", "tw-folds"})


@dataclass
class _Node:
    """A fold, a figure or a ``div``, with its offsets in the HTML."""

    tag: str
    classes: frozenset[str]
    start: int
    inside: int
    until: int = 0
    end: int = 0
    children: list[_Node] = field(default_factory=list)


def gather(html: str) -> str:
    """Gather the folds and the checks of a page."""
    if "<details" not in html and "tw-check" not in html:
        return html
    return _with_rows(_with_badge(html))


def _tree(html: str) -> _Node:
    root = _Node("", frozenset(), 0, 0, len(html), len(html))
    open_nodes = [root]
    for match in _TAG.finditer(html):
        if not match[1]:
            classes = _CLASS.search(match[3])
            names = frozenset(classes[1].split() if classes else ())
            node = _Node(match[2], names, match.start(), match.end())
            open_nodes[-1].children.append(node)
            open_nodes.append(node)
        elif len(open_nodes) > 1 and open_nodes[-1].tag == match[2]:
            node = open_nodes.pop()
            node.until, node.end = match.start(), match.end()
    for node in open_nodes[1:]:  # never closed: leave it unchanged
        node.until = node.end = node.inside
        node.children.clear()
    return root


def _walk(node: _Node, hidden: bool = False) -> Iterator[tuple[_Node, bool]]:
    """A node's descendants, each with whether it is in a template for another machine."""
    for child in node.children:
        yield child, hidden
        yield from _walk(child, hidden or child.tag == "template")


def _with_badge(html: str) -> str:
    """Move the checks into one list in the lesson's head; without a head, they stay in place."""
    root = _tree(html)
    head = next((node for node, hidden in _walk(root) if not hidden and "tw-lesson" in node.classes), None)
    if head is None:
        return html
    headings = [(match.start(), match[1], match[2]) for match in _HEADING.finditer(html)]
    passed: list[str] = []
    left_out: list[str] = []
    cuts: list[tuple[int, int]] = []
    for node, hidden in _walk(root):
        if not node.classes & {"tw-check", "tw-lack"}:
            continue
        cuts.append((node.start, node.end))
        if hidden:
            continue
        inside = html[node.inside : node.until].strip()
        above = [heading for heading in headings if heading[0] < node.start]
        if above:
            _, anchor, title = above[-1]
            name = re.sub(r"<[^>]+>", "", _PERMALINK.sub("", title)).strip()
            inside += f' <a href="#{anchor}">{name}</a>'
        (passed if "tw-check" in node.classes else left_out).append(f"<li>{inside}</li>")
    if not cuts:
        return html
    badge = _badge(passed, left_out)
    parts = []
    at = 0
    for start, end in [(head.until, head.until), *sorted(cuts)]:
        parts += [html[at:start], badge if start == end else ""]
        at = end
    page = "".join([*parts, html[at:]])
    before = ""
    while page != before:  # blocks that only contained checks
        before = page
        page = _EMPTY.sub("", page)
    return page


def _badge(passed: list[str], left_out: list[str]) -> str:
    count = len(passed)
    title = f"{count} {'check' if count == 1 else 'checks'} passed in this build"
    mark = '<span class="tw-check-mark" aria-hidden="true">✓</span> '
    if not passed:
        title, mark = "Not compared in this build", ""
    also = '<p class="tw-checks-also">Not compared in this build:</p>' if passed and left_out else ""
    lists = [f"<ul>{''.join(entries)}</ul>" for entries in (passed, left_out) if entries]
    return (
        f'<details class="tw-checks" data-search-exclude><summary>{mark}{title}</summary>'
        f"{also.join(lists)}</details>\n"
    )


def _with_rows(html: str) -> str:
    return _rewritten(html, _tree(html)).text


@dataclass
class _Content:
    """The content of a node written so far."""

    text: str = ""
    line: int = -1
    """The offset of the end of the previous output's line of folds; -1 if there is none."""
    shared: bool = False
    """Whether that output also has versions for further machines."""
    run: list[tuple[frozenset[str], str]] = field(default_factory=list)
    """Folds not written yet: classes and HTML."""

    def close(self) -> None:
        """Write the folds into the line of the output before them, or as a new line."""
        if not self.run:
            return
        entries = _merged(self.run)
        if self.line >= 0:
            mark = '<details data-kept=""' if self.shared else "<details"
            added = "".join(entry.replace("<details", mark, 1) for entry in entries)
            self.text = self.text[: self.line] + added + self.text[self.line :]
        elif len(self.run) == 1 and self.run[0][0] & _ALONE:
            self.text += self.run[0][1]
        else:
            self.text += f"{_LINE}{''.join(entries)}</div>"
            self.run = []
            self.line = len(self.text) - len("</div>")
            return
        self.run = []
        self.line = -1


def _rewritten(html: str, node: _Node) -> _Content:
    """The content of a node with its runs of folds gathered."""
    if node.tag == "template" or "tw-folds" in node.classes:
        return _Content(html[node.inside : node.until], node.until - node.inside)
    content = _Content()
    at = node.inside
    for child in node.children:
        between = html[at : child.start]
        is_entry = child.tag == "details" and bool(child.classes & _ENTRIES)
        if between.strip():
            content.close()
            content.line = -1
        if not content.run:
            content.text += between
        inside = _rewritten(html, child)
        opening = html[child.start : child.inside]
        whole = opening + inside.text + html[child.until : child.end]
        at = child.end
        if is_entry:
            content.run.append((child.classes, whole))
            continue
        if "tw-machines" in child.classes and inside.text.lstrip().startswith(_LINE):
            shared = _shared(content)
            whole = whole.replace(_LINE, _LINE + shared, 1)
            inside.line += len(shared)
        content.close()
        if child.tag != "template":
            has_line = inside.line >= 0 and _can_lend(child)
            content.line = len(content.text) + len(opening) + inside.line if has_line else -1
            content.shared = inside.shared or "tw-machines" in child.classes
        content.text += whole
    rest = html[at : node.until]
    content.close()
    if rest.strip():
        content.line = -1
    content.text += rest
    return content


def _shared(content: _Content) -> str:
    """The pending folds as entries of the next output, which is only a line of folds."""
    if not content.run or content.line >= 0:
        return ""
    entries = "".join(entry.replace("<details", '<details data-kept=""', 1) for entry in _merged(content.run))
    content.run = []
    return entries


def _can_lend(node: _Node) -> bool:
    """Whether folds after a node can join the line of folds at its end, because it is an output."""
    is_plain = node.tag == "div" and not node.classes
    return node.tag == "figure" or is_plain or bool(node.classes & _OUTPUTS)


def _merged(run: list[tuple[frozenset[str], str]]) -> list[str]:
    """The entries of a line in order; all code with default titles becomes one entry."""
    entries: list[str] = []
    code = -1
    for classes, whole in run:
        summary = _SUMMARY.search(whole) if "code" in classes else None
        if summary is None or not _CODE.match(summary[1]):
            entries.append(whole)
            continue
        body = whole[summary.end() : whole.rindex("</details>")]
        if code < 0:
            code = len(entries)
            entries.append(f"{whole[: summary.start()]}<summary>{SHOW_CODE}</summary>{body}</details>")
        else:
            entries[code] = entries[code].removesuffix("</details>") + f"{body}</details>"
    return entries
