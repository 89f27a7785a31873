"""One line of folds under each output, and one badge for all checks of a page.

In: a page's HTML, in which folds follow each other and every check has a line of its own. Out: the same page,
where neighbouring folds are entries of one ``div.tw-folds``, that of the output above them if it has one, and
the checks are listed in a ``details.tw-checks`` at the end of the lesson's head. It works on finished HTML,
because only there is the output of one cell next to the code of another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

SHOW_CODE = "Show code"
"""The title of a fold whose author gave it no title of its own."""
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
"""Those of them that stay blocks of their own where no other fold is beside them."""
_LINE = '<div class="tw-folds">'
_OUTPUTS = frozenset({"tw-measurement", "tw-machines", "tw-folds"})


@dataclass
class _Node:
    """A fold, a figure or a ``div``, by its place in the HTML."""

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
    for found in _TAG.finditer(html):
        if not found[1]:
            classes = _CLASS.search(found[3])
            names = frozenset(classes[1].split() if classes else ())
            node = _Node(found[2], names, found.start(), found.end())
            open_nodes[-1].children.append(node)
            open_nodes.append(node)
        elif len(open_nodes) > 1 and open_nodes[-1].tag == found[2]:
            node = open_nodes.pop()
            node.until, node.end = found.start(), found.end()
    for node in open_nodes[1:]:  # never closed: leave it alone
        node.until = node.end = node.inside
        node.children.clear()
    return root


def _walk(node: _Node, hidden: bool = False) -> Iterator[tuple[_Node, bool]]:
    """The nodes below one, each with whether it is in a template, where another machine's outputs are."""
    for child in node.children:
        yield child, hidden
        yield from _walk(child, hidden or child.tag == "template")


def _with_badge(html: str) -> str:
    """The checks in one list; where there is no lesson's head, they stay where they are."""
    root = _tree(html)
    head = next((node for node, hidden in _walk(root) if not hidden and "tw-lesson" in node.classes), None)
    if head is None:
        return html
    headings = [(found.start(), found[1], found[2]) for found in _HEADING.finditer(html)]
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
    made = "".join([*parts, html[at:]])
    before = ""
    while made != before:  # what held nothing but checks
        before = made
        made = _EMPTY.sub("", made)
    return made


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
class _Inside:
    """The inside of a node, as far as it is written."""

    text: str = ""
    line: int = -1
    """Where in the text the line of the output just before ends; -1 where there is none."""
    shared: bool = False
    """Whether that output has those of further machines beside it."""
    run: list[tuple[frozenset[str], str]] = field(default_factory=list)
    """Folds that are not written yet: classes and HTML."""

    def close(self) -> None:
        """Write the folds: into the line of the output before them, or as a line of their own."""
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


def _rewritten(html: str, node: _Node) -> _Inside:
    """The inside of a node with its runs of folds gathered."""
    if node.tag == "template" or "tw-folds" in node.classes:
        return _Inside(html[node.inside : node.until], node.until - node.inside)
    made = _Inside()
    at = node.inside
    for child in node.children:
        between = html[at : child.start]
        is_entry = child.tag == "details" and bool(child.classes & _ENTRIES)
        if between.strip():
            made.close()
            made.line = -1
        if not made.run:
            made.text += between
        inside = _rewritten(html, child)
        opening = html[child.start : child.inside]
        whole = opening + inside.text + html[child.until : child.end]
        at = child.end
        if is_entry:
            made.run.append((child.classes, whole))
            continue
        if "tw-machines" in child.classes and inside.text.lstrip().startswith(_LINE):
            shared = _shared(made)
            whole = whole.replace(_LINE, _LINE + shared, 1)
            inside.line += len(shared)
        made.close()
        if child.tag != "template":
            has_line = inside.line >= 0 and _can_lend(child)
            made.line = len(made.text) + len(opening) + inside.line if has_line else -1
            made.shared = inside.shared or "tw-machines" in child.classes
        made.text += whole
    rest = html[at : node.until]
    made.close()
    if rest.strip():
        made.line = -1
    made.text += rest
    return made


def _shared(made: _Inside) -> str:
    """The folds before an output that is only a line of folds, as its entries, if no output has them yet."""
    if not made.run or made.line >= 0:
        return ""
    entries = "".join(entry.replace("<details", '<details data-kept=""', 1) for entry in _merged(made.run))
    made.run = []
    return entries


def _can_lend(node: _Node) -> bool:
    """Whether the line at a node's end is that of an output, which folds after it can join."""
    is_plain = node.tag == "div" and not node.classes
    return node.tag == "figure" or is_plain or bool(node.classes & _OUTPUTS)


def _merged(run: list[tuple[frozenset[str], str]]) -> list[str]:
    """The entries of a line, in order; code without a title of its own is one entry."""
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
