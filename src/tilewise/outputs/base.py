"""The base class of all outputs, their JSON form between processes, and the sink that receives them.

In: values that a lesson's cells show. Out: frozen ``Output`` objects, to JSON for the cache and back.
The kinds are in the other modules of this package, in ``tilewise.measurements`` and wherever a class derives
from ``Output``; the installed sink decides whether outputs are printed or collected.
"""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from importlib import import_module
from typing import Any, ClassVar, Protocol, Self


@dataclasses.dataclass(frozen=True)
class Context:
    """What a page provides to the outputs rendered on it."""

    lesson_id: str
    """The lesson's id, e.g. ``kernels/grids``."""
    line: int
    """The first line of the output's cell in the lesson's file."""
    add_file: Callable[[str, bytes], str]
    """``add_file(suffix, content)``: publish a file under its hash; returns its URL relative to the page."""
    unique: Callable[[str], str]
    """``unique(wanted)``: an element id that is unique on the page."""
    nested: bool = False
    """True inside a tab or a fold, where Markdown has no raw HTML blocks: see ``html_block``."""
    link: Callable[[str], str] = str
    """``link(path)``: the page-relative URL of a file, given relative to the site's root."""
    plain: bool = False
    """True inside HTML, where Markdown is not allowed."""

    def html_block(self, html: str) -> str:
        """A block of raw HTML, in the form that Markdown leaves unchanged at this depth.

        Args:
            html: one balanced block-level element; its blank lines are removed.
        """
        lines = [line for line in html.splitlines() if line.strip()]
        if self.plain or not self.nested:
            return "\n".join(lines)
        return "\n".join(["/// html | div", "    markdown: html", "", *lines, "///"])


class Output(ABC):
    """An output of a cell: text on a terminal, Markdown on a page.

    Each kind of output is a frozen dataclass that derives from this. Its fields are JSON values and tuples; a
    class with other fields overrides ``to_dict`` and ``from_dict``. Nothing else has to change, because the
    encoded form names the class.
    """

    kind: ClassVar[str]
    """Its kind in one word: text, table, figure, kernel, check, agree, measurement, ..."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        assert dataclasses.is_dataclass(self)
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The output whose ``to_dict`` returned ``data``."""
        return cls(**{name: _tuples(value) for name, value in data.items()})

    @abstractmethod
    def text(self) -> str:
        """The text for a terminal, without a final newline."""

    @abstractmethod
    def markdown(self, context: Context) -> str:
        """The Markdown for the page, without a final newline; may be empty. Pure: no clock, GPU or disk."""


class Task(Output):
    """A task for the reader: its texts are prose, and their terms are checked like prose.

    The page does not show the code of its cell.
    """

    @abstractmethod
    def texts(self) -> tuple[str, ...]:
        """Its texts in Markdown, in a fixed order."""

    @abstractmethod
    def with_texts(self, texts: Sequence[str]) -> Self:
        """The same task with other texts, in the order of ``texts()``."""


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return value


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(entry) for entry in value)
    return value


def encode(output: Output) -> dict[str, Any]:
    """An output as a JSON object that names its class."""
    home = type(output)
    return {"class": f"{home.__module__}:{home.__qualname__}", "data": output.to_dict()}


def with_code(text: str) -> str:
    """A sentence as HTML, with text between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def decode(encoded: Mapping[str, Any]) -> Output:
    """The output that ``encode`` encoded; imports the module of its class.

    Raises:
        ValueError: the class is not an output of tilewise.
    """
    module, _, name = str(encoded["class"]).partition(":")
    home = getattr(import_module(module), name, None) if module.split(".")[0] == "tilewise" else None
    if not (isinstance(home, type) and issubclass(home, Output)):
        raise ValueError(f"{encoded['class']} is no output of tilewise")
    return home.from_dict(encoded["data"])


class Sink(Protocol):
    """Where outputs go."""

    def add(self, output: Output) -> None:
        """Add an output, in the order in which the lesson shows them."""

    def publish(self, values: Mapping[str, Any]) -> None:
        """Add values that the lesson's prose may quote; plain JSON values, nested by name."""


class PrintingSink:
    """The default: prints every output's text, for scripts and notebooks."""

    def add(self, output: Output) -> None:
        """Print the output."""
        print(output.text(), flush=True)

    def publish(self, values: Mapping[str, Any]) -> None:
        """Print the values by name."""
        for name, value in values.items():
            print(f"{name} = {value}", flush=True)


class CollectingSink:
    """Collects outputs and published values."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self.published: dict[str, Any] = {}

    def add(self, output: Output) -> None:
        """Collect the output."""
        self.outputs.append(output)

    def publish(self, values: Mapping[str, Any]) -> None:
        """Collect the values.

        Raises:
            ValueError: a name was already published.
        """
        for name, value in values.items():
            if name in self.published:
                raise ValueError(
                    f"publish({name}=...) is called twice in this lesson; give one of them another name"
                )
            self.published[name] = value


_SINK: ContextVar[Sink | None] = ContextVar("tilewise_sink", default=None)
_default_sink: Sink = PrintingSink()


def sink() -> Sink:
    """The current sink; the printing one unless another is installed or set."""
    return _SINK.get() or _default_sink


def set_sink(new: Sink) -> None:
    """Set the sink for when none is installed, for example in the cells of a notebook."""
    global _default_sink  # noqa: PLW0603 - each notebook cell has its own context
    _default_sink = new


@contextmanager
def installed(new: Sink) -> Iterator[Sink]:
    """Send outputs to ``new`` inside a ``with`` block."""
    token = _SINK.set(new)
    try:
        yield new
    finally:
        _SINK.reset(token)
