"""Language: unidiomatic words, each with the field's word for it.

In: lessons, or pages of docs/. Out: an error for each such word, each heading that is a clause, and each
sentence without a verb. The words are in ``language.txt``; it has no everyday English, because nobody reads a
linter that reports too much.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files

from tilewise.course.lesson import Lesson
from tilewise.course.mask import FILLER, WORDLESS, mask, spans
from tilewise.course.rules.model import LessonRule, on_lines
from tilewise.course.sentences import without_verb
from tilewise.errors import LessonError

AS_RECORDED = "# as recorded"
"""Ends a line of code that a text record depends on, so that changing it takes a GPU."""

_SPACE = r"(?:[^\S\n]+|[^\S\n]*\n[^\S\n]*)"
"""White space without a blank line."""
_COUNT = (
    r"(?:\d[\d,.]*|one|two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen|twenty|thirty-two|sixty-four|"
    r"a hundred|hundreds|thousands|a thousand)"
)
_COUNTED = (
    r"(?:threads?|warps?|blocks?|tiles?|lanes?|rows?|columns?|loads?|stores?|reads?|writes?|launch(?:es)?|"
    r"elements?|values?|numbers?|bytes?|bits?|words?|sectors?|lines?|requests?|instructions?|cycles?|clocks?|"
    r"operations?|registers?|quer(?:y|ies)|keys?|heads?|barriers?|copies|copy|passes|wavefronts?|[KM]i?B)"
)
_ONE = (
    r"(?:thread|warp|block|tile|lane|row|column|load|store|launch|element|byte|line|sector|request|instruction|"
    r"cycle|clock|query|key|head|batch|SM|warpgroup|cluster|wavefront|operation|multiply-add|pair|piece)"
)
_NOUN_ENDS = (
    r"(?=\s*(?:[.,;:!?()\]|—–]|$)|\s+(?:and|or|in|on|at|for|from|to|with|of|when|if|is|are|was|than|as|by|that|"
    r"which|each|because|but|while|where|instead|only|once|twice|per)\b)"
)
_PARTS = {"{n}": _COUNT, "{counted}": _COUNTED, "{one}": _ONE, "{end}": _NOUN_ENDS}
_NO_SENTENCE = ("heading", "block", "note")
_PARAGRAPH = re.compile(r"\S[^\n]*(?:\n(?!\s*\n)[^\n]*)*")
_LISTED = re.compile(r"(?:[-*|+>]|\d+\.)\s|\||\[\^|:")
_CLAUSE = re.compile(r"(?:What|How|That)\s(?!to\s)(?![^?]*\?\s*$)")
"""A heading that is a clause; questions and "How to ..." are not."""


@cache
def words() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Each pattern of the list, with its replacement."""
    patterns = []
    for line in files(__package__).joinpath("language.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern, better = line.split(" = ")
            for name, meaning in _PARTS.items():
                pattern = pattern.replace(name, meaning)
            # Not after a backslash: \word is the everyday word.
            edges = rf"(?<![\w\\-])(?:{pattern})(?![\w-])"
            patterns.append((re.compile(edges.replace(" ", _SPACE), re.IGNORECASE), better))
    return tuple(patterns)


def page_faults(path: str, text: str) -> Iterator[LessonError]:
    """The faults of a page of docs/, each with its line."""
    return on_lines(path, 1, text, _prose_faults(text))


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    """Faults in the header, in prose, and in the strings and comments of code."""
    header = lesson.header
    for key in ("title", "summary", "description"):
        text = getattr(header, key)
        for _, message, repair in (
            *_word_faults(text),
            *(_heading_faults(0, text) if key == "title" else ()),
        ):
            yield LessonError(lesson.path, header.line(key), message, repair)
    for cell in lesson.cells:
        if cell.kind == "markdown":
            faults = _prose_faults(cell.source, headings=True)
            yield from on_lines(lesson.path, cell.source_line, cell.source, faults)
            continue
        for name in (cell.title, cell.fold, cell.tab):
            yield from on_lines(lesson.path, cell.first_line, "", _word_faults(name))
        if cell.record:  # its code is the key of its recorded output
            continue
        recorded = {at for at, text in enumerate(cell.source.splitlines(), 1) if text.endswith(AS_RECORDED)}
        for line, text in _texts(cell.source):
            if line in recorded:
                continue
            yield from on_lines(lesson.path, cell.source_line + line - 1, text, _word_faults(text))


def _prose_faults(source: str, headings: bool = False) -> Iterator[tuple[int, str, str]]:
    """The faults of Markdown, optionally with its headings: place, message and repair."""
    shown = mask(source, spans(source, WORDLESS))
    yield from _word_faults(shown)
    yield from _verbless_faults(source, shown)
    for heading in spans(shown, ("heading",)) if headings else ():
        yield from _heading_faults(heading.start, heading.text.strip().lstrip("#").strip())


def _word_faults(text: str) -> Iterator[tuple[int, str, str]]:
    for pattern, better in words():
        for match in pattern.finditer(text):
            phrase = " ".join(match[0].split()).replace(FILLER, "")
            repair = f"Write {better}; in prose, \\{phrase} is the everyday word."
            yield match.start(), f'"{phrase}" is not what the field says.', repair


def _heading_faults(at: int, text: str) -> Iterator[tuple[int, str, str]]:
    if _CLAUSE.match(text):
        message = f'the heading "{text.replace(FILLER, "")}" is a clause.'
        yield at, message, "Name the technique or the finding, or ask a question."


def _verbless_faults(source: str, shown: str) -> Iterator[tuple[int, str, str]]:
    """Faults in paragraphs of running text; lists, tables and captions need no verbs."""
    for paragraph in _PARAGRAPH.finditer(mask(shown, spans(shown, _NO_SENTENCE))):
        if _LISTED.match(source, paragraph.start()):
            continue
        for at, sentence in without_verb(paragraph[0]):
            start = paragraph.start() + at
            is_formula = re.search(r"[=<>]|\\(?:le|ge|approx)", source[start : start + len(sentence)])
            if not is_formula and not sentence.startswith("**"):
                message = f'"{" ".join(sentence.replace(FILLER, "").split())}" has no verb.'
                yield start, message, "Say who does what; a \\ in front of it lets it pass."


@lru_cache(maxsize=4096)
def _texts(source: str) -> tuple[tuple[int, str], ...]:
    """The strings and comments of a code cell, each with its first line in the cell."""
    nodes = list(ast.walk(ast.parse(source)))
    ids = {
        part.args[0]
        for part in nodes
        if isinstance(part, ast.Call)
        and isinstance(part.func, ast.Name)
        and part.func.id == "measure"
        and part.args
    }  # names of records, which no reader sees
    texts = [
        (part.lineno, part.value)
        for part in nodes
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part not in ids
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts += [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    return tuple(texts)


LANGUAGE = LessonRule(
    "language",
    "Prose, headings, labels and captions use the field's words, src/tilewise/course/rules/language.txt; no "
    "heading is a clause, and no sentence lacks its verb. In "
    "prose, \\word is the everyday word.",
    "# %% [markdown]\n# ## Loads in flight\n#\n# Two loads are in flight. Work is \\under way.\n\n"
    '# %%\nshow(1, caption="One block per tile.")\n',
    "# %% [markdown]\n# ## Loads in flight\n#\n# Two loads are under way. Work is \\under way.\n\n"
    '# %%\nshow(1, caption="One block a tile.")\n',
    _faults,
    stops=False,
)
