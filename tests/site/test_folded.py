"""What is folded stands in a file beside the page: what goes there, and what the page keeps."""

import html
import json
import re

from tilewise.site.folded import FILE, LEAST, lightened

LONG = "x" * LEAST[""]
HEAD = '<html><head><meta charset="utf-8"><title>A page</title><link rel="stylesheet" href="a.css"></head>'


def page(inside: str) -> str:
    article = f'<article class="md-content__inner md-typeset">{inside}</article>'
    return f'{HEAD}<body class="a">{article}</body></html>'


def fold(inside: str, kind: str = "code", more: str = "") -> str:
    return f'<details class="{kind}"{more}><summary>Show code</summary>{inside}</details>'


def test_a_long_fold_is_a_link_and_its_file_has_the_rest():
    inside = (
        f'<p id="here">{LONG} <a href="#here">a</a> <a href="#there">b</a></p><span id="__span-0-1"></span>'
    )
    light, files = lightened(page(f'<h2 id="there">H</h2>{fold(inside)}'))
    (name,) = re.findall(rf'<a href="{FILE}#(fold-[0-9a-f]+)">', light)
    assert LONG not in light
    assert '<span id="here"></span>' in light, "a link into the fold leads nowhere"
    assert "__span" not in light
    (text,) = files.values()
    assert f'<section id="{name}"><h2>Show code</h2><div>' in text
    assert LONG in text
    assert 'href="#here"' in text
    assert 'href="./#there"' in text
    assert text.startswith("<!doctype html>")
    assert '<link rel="stylesheet" href="a.css">' in text
    assert '<meta name="robots" content="noindex">' in text


def test_what_is_open_short_or_asked_stays():
    for kept in (
        fold(LONG, more=' open=""'),
        fold(LONG[:-1]),
        fold(LONG, "answer"),
        fold(LONG, "tw-provenance"),
        f'<figure class="tw-figure" data-recorded>{fold(LONG, "tw-figure-alt")}</figure>',
        f"<div>{LONG}</div>",
    ):
        assert lightened(page(kept)) == (page(kept), {}), kept


def test_folds_in_folds_go_together_and_those_in_an_open_one_alone():
    light, files = lightened(page(fold(f"<p>a</p>{fold(LONG)}")))
    assert light.count("<details") == 1
    assert files[FILE].count("<section") == 1
    light, files = lightened(page(fold(f"<p>a</p>{fold(LONG)}", more=" open")))
    assert light.count("<details") == 2
    assert "<p>a</p>" in light


def test_what_another_machine_shows_repeats_no_id():
    shown, other = f'<p id="a">{LONG}1</p>', f'<p id="a">{LONG}2</p>'
    light, files = lightened(page(f"{fold(shown)}<template>{fold(other)}{fold(shown)}</template>"))
    assert light.count(FILE) == 3
    text = files[FILE]
    assert text.count("<section") == text.count("<template") == 1
    assert re.sub(r"<template.*?</template>", "", text, flags=re.S).count('id="a"') == 1


def test_rows_of_the_first_lesson_stay_and_those_of_others_are_counted():
    def group(name: str, devices: str) -> str:
        rows = "".join(
            f'<tr id="{name}-{one}" data-lesson="{name} &amp; b" data-device="{one}"></tr>' for one in devices
        )
        return f'<tbody data-group="{name} &amp; b"><tr class="tw-group"><th>{name}</th></tr>{rows}</tbody>'

    head = '<table class="tw-sortable" data-filters="lesson device"><thead><tr><th>v</th></tr></thead>'
    whole = f"{head}\n{group('one', 'pq')}\n{group('two', 'ppq')}</table>"
    light, files = lightened(page(whole))
    assert 'data-device="p"' in light
    assert '<tr id="two' not in light
    assert '<span id="two-q"></span>' in light
    (counts,) = re.findall(r'data-rows="([^"]+)"', light)
    lesson = "two & b"
    assert json.loads(html.unescape(counts)) == [
        [{"lesson": lesson, "device": "p"}, 2],
        [{"lesson": lesson, "device": "q"}, 1],
    ]
    (name,) = files
    assert f'href="{name}#fold-' in light
    assert files[name].count("<tr ") == 4
