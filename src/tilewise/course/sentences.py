"""Sentences without a finite verb: detected by a list of verbs and by endings, without a grammar.

In: a paragraph of plain prose. Out: its sentences without a verb, with their offsets. A possible verb counts
as one, so reports are nearly always right, but some sentences without a verb are missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from tilewise.course.mask import FILLER

_TOKEN = re.compile(rf"[A-Za-z]+(?:[-'’][A-Za-z]+)*|\d[\d,.]*|{FILLER}+|\S")
_CONTRACTED = re.compile(
    r"[a-z]+(?:n't|'re|'ve|'ll|'d|'m)$"
    r"|(?:it|that|there|here|what|who|where|how|this|everything|one|which|he|she)'s$"
)
_VERBAL = re.compile(r"\w{3,}ed$|\w{4,}(?:ise|ize|ify)s?$|\w{4,}ifies$")
_PREFIX = re.compile(r"(?:re|pre|de|un|mis|over|out)-?(?=\w{3})")
_PLURAL = re.compile(r"\w\w(?<!s)s$")
_END = re.compile(r"(?<=[.!?])[\"”)*_]*\s+(?=[\\\"“(*_]*[A-Z])")
_SENTENCE = re.compile(r"[\"“*_]*[A-Z][\s\S]*[.!][\"”)*_]*\s*$")


class _Words(NamedTuple):
    verbs: frozenset[str]
    """Forms that are verbs."""
    nouns: frozenset[str]
    """Forms that are mainly nouns, and sometimes verbs."""
    behind_verb: frozenset[str]
    """Words that can directly follow a verb, but not a noun."""
    before_verb: frozenset[str]
    """Words that can directly precede a verb."""
    before_noun: frozenset[str]
    """Words that make the next word a noun."""
    behind_noun: frozenset[str]
    """Words that make the previous word a noun."""


@cache
def _words() -> _Words:
    text = files("tilewise.course").joinpath("verbs.txt").read_text(encoding="utf-8")
    _, verbs, irregular, nouns, *neighbours = (
        part.split() for part in re.split(r"^\[.*\n", text, flags=re.M)
    )
    sure = frozenset(irregular) | {form for verb in verbs for form in (verb, _third_person(verb))}
    unsure = {form for noun in nouns for form in (noun, _third_person(noun))}
    return _Words(sure, frozenset(unsure) - sure, *map(frozenset, neighbours))


def _third_person(verb: str) -> str:
    if re.search(r"(?:s|x|z|ch|sh|o)$", verb):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search(r"[^aeiou]y$", verb) else f"{verb}s"


def without_verb(paragraph: str) -> Iterator[tuple[int, str]]:
    """The sentences of a paragraph that have no verb, each with its offset.

    Args:
        paragraph: prose, with other spans, such as code, replaced by ``FILLER``.
    """
    start = 0
    for end in [*(match.end() for match in _END.finditer(paragraph)), len(paragraph)]:
        sentence = paragraph[start:end]
        words = re.findall(r"[A-Za-z]{2,}", sentence)
        if len(words) > 2 and _SENTENCE.match(sentence) and not _has_verb(sentence):
            yield start, sentence
        start = end


def _has_verb(sentence: str) -> bool:
    tokens = [token.replace("’", "'").lower() for token in _TOKEN.findall(sentence)]
    verbs = _words().verbs
    for at, token in enumerate(tokens):
        if token in verbs or _CONTRACTED.match(token) or _VERBAL.match(token):
            return True
        if _PREFIX.sub("", token, count=1) in verbs or _is_verb_here(tokens, at):
            return True
    return False


def _is_verb_here(tokens: list[str], at: int) -> bool:
    """Whether a word that is mainly a noun is a verb between its neighbours."""
    token, words = tokens[at], _words()
    if token not in words.nouns:
        return False
    before = tokens[at - 1] if at else ""
    after = tokens[at + 1] if at + 1 < len(tokens) else "."
    if after in words.behind_verb or after[0].isdigit() or after[0] == FILLER or before in words.before_verb:
        return True
    if not token.endswith("s"):
        return before in ("", ",", ";", ":") or bool(_PLURAL.search(before))
    singular = before.isalpha() and not before.endswith("s") and before not in words.before_noun
    return singular and after.isalpha() and after not in words.behind_noun
