"""The key: what has to change it, and what must not."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tilewise.measurements.key import digest, function_tokens, python_tokens, text_key


def module_of(tmp_path: Path, text: str) -> ModuleType:
    """A module whose functions have a file, as a lesson's have."""
    file = tmp_path / f"lesson_{len(list(tmp_path.iterdir()))}.py"
    file.write_text(text, encoding="utf-8")
    module = ModuleType(file.stem)
    exec(compile(text, str(file), "exec"), module.__dict__)
    return module


def tokens(tmp_path: Path, text: str) -> str:
    made: Any = module_of(tmp_path, text)
    return function_tokens(made.f)


PLAIN = "def f(arrays):\n    return lambda: arrays['a'] + 1\n"


@pytest.mark.parametrize(
    "same",
    [
        "# a comment\n\n\ndef f(arrays):\n    return lambda: arrays['a'] + 1\n",
        'def f(\n    arrays,\n):\n    """With a docstring."""\n    return lambda: arrays["a"] + 1  # one\n',
        "g = 3\ndef f(arrays): return (lambda: (arrays['a'] + 1))\n",
    ],
)
def test_comments_layout_and_docstrings_do_not_count(tmp_path, same):
    assert tokens(tmp_path, PLAIN) == tokens(tmp_path, same)


@pytest.mark.parametrize(
    "other",
    [
        PLAIN.replace("+ 1", "+ 2"),
        PLAIN.replace("'a'", "'b'"),
        PLAIN.replace("+", "-"),
    ],
)
def test_code_counts(tmp_path, other):
    assert tokens(tmp_path, PLAIN) != tokens(tmp_path, other)


def test_a_function_of_the_same_file_that_is_called_counts(tmp_path):
    text = "def helper():\n    return {}\n\ndef f(arrays):\n    return helper\n"
    assert tokens(tmp_path, text.format(1)) != tokens(tmp_path, text.format(2))
    assert tokens(tmp_path, text.format(1)) == tokens(tmp_path, "\n\n" + text.format(1))


def test_what_a_closure_holds_counts(tmp_path):
    text = "def make(held):\n    def inner(arrays):\n        return held\n    return inner\nf = make({})\n"
    assert tokens(tmp_path, text.format("True")) != tokens(tmp_path, text.format("False"))


def test_two_lambdas_on_a_line_are_told_apart(tmp_path):
    made: Any = module_of(tmp_path, "pair = [lambda arrays: 1, lambda arrays: 2]\n")
    first, second = (function_tokens(one) for one in made.pair)
    assert first != second
    alone: Any = module_of(tmp_path, "f = lambda arrays: 2\n")
    assert second == function_tokens(alone.f)


@pytest.mark.parametrize("compiled", ["object()", "type('JITFunction', (), dict(fn=function))()"])
def test_what_a_decorator_made_counts_by_its_definition_wherever_it_runs(tmp_path, compiled):
    text = "@jit\ndef kernel(x):\n    return {}\n\ndef f(arrays):\n    return lambda: kernel\n"
    with_it, without = (f"def jit(function):\n    return {made}\n\n{text}" for made in (compiled, "object()"))
    assert tokens(tmp_path, with_it.format(1)) != tokens(tmp_path, with_it.format(2))
    assert tokens(tmp_path, with_it.format(1)) == tokens(tmp_path, without.format(1))


def test_a_recursive_function_has_tokens(tmp_path):
    assert tokens(tmp_path, "def f(n):\n    return f(n - 1)\n")


def test_a_text_key_is_that_of_the_cells_code():
    assert text_key("print(1)  # shown") == text_key("print( 1 )")
    assert text_key("print(1)") != text_key("print(2)")


def test_digests_do_not_depend_on_the_order_of_facts():
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})


def test_python_tokens_are_the_same_on_every_python():
    """Written out, so that a version of Python with other empty fields in its trees would be seen."""
    assert python_tokens("f(1)") == (
        '["Module", [["body", [["Expr", [["value", ["Call", [["func", ["Name", [["id", "\'f\'"]]]], '
        '["args", [["Constant", [["value", "1"]]]]]]]]]]]]]]'
    )
