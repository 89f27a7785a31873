"""What every output of a cell can do, how it travels between processes, and the sink that takes it.

In: values that a lesson's cells show. Out: frozen ``Output`` objects, as JSON for the cache and back.
The kinds live in the neighbouring modules, in ``tilewise.measurements`` and wherever a class derives from
``Output``; where an output is printed or collected is decided by whoever installs a sink.
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
    """What an output may ask of the page it is rendered on."""

    lesson_id: str
    """The lesson's id, e.g. ``kernels/grids``."""
    line: int
    """The first line of the cell that made the output, in the lesson's file."""
    add_file: Callable[[str, bytes], str]
    """``add_file(suffix, content)``: publish a file under its hash; returns its URL relative to the page."""
    unique: Callable[[str], str]
    """``unique(wanted)``: an element id that no other part of the page has."""
    nested: bool = False
    """True inside a tab or a fold, where Markdown knows no block of raw HTML: see ``html_block``."""
    link: Callable[[str], str] = str
    """``link(path)``: the URL of a file of the site, given from the site's root, relative to the page."""
    plain: bool = False
    """True inside of HTML, where all has to be HTML."""

    def html_block(self, html: str) -> str:
        """A block of raw HTML, in the form that Markdown keeps as it is at this depth.

        Args:
            html: one balanced block-level element; blank lines in it are taken out.
        """
        lines = [line for line in html.splitlines() if line.strip()]
        if self.plain or not self.nested:
            return "\n".join(lines)
        return "\n".join(["/// html | div", "    markdown: html", "", *lines, "///"])


class Output(ABC):
    """Something that a cell shows: on a terminal as text, on a page as Markdown.

    A kind of output is one frozen dataclass that derives from this. Its fields are what JSON can hold (and
    tuples); a class with richer fields overrides ``to_dict`` and ``from_dict``. Nothing else has to be
    touched: the encoded form names the class.
    """

    kind: ClassVar[str]
    """One word for what it is: text, table, figure, kernel, check, agree, measurement, ..."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON can hold them."""
        assert dataclasses.is_dataclass(self)
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The output whose ``to_dict`` gave ``data``."""
        return cls(**{name: _tuples(value) for name, value in data.items()})

    @abstractmethod
    def text(self) -> str:
        """What a terminal prints, without a final line end."""

    @abstractmethod
    def markdown(self, context: Context) -> str:
        """What the page holds, without a final line end; empty for nothing. Pure: no clock, GPU or disk."""


class Task(Output):
    """An output that sets the reader a task: its texts are prose, and their terms are checked like prose.

    On the page it stands without the code of the cell that made it.
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
    """A sentence as HTML, what is between back ticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def decode(encoded: Mapping[str, Any]) -> Output:
    """The output that ``encode`` gave; imports the module of its class.

    Raises:
        ValueError: the class is no output of tilewise.
    """
    module, _, name = str(encoded["class"]).partition(":")
    home = getattr(import_module(module), name, None) if module.split(".")[0] == "tilewise" else None
    if not (isinstance(home, type) and issubclass(home, Output)):
        raise ValueError(f"{encoded['class']} is no output of tilewise")
    return home.from_dict(encoded["data"])


class Sink(Protocol):
    """Where outputs go."""

    def add(self, output: Output) -> None:
        """Take an output, in the order in which the lesson shows them."""

    def publish(self, values: Mapping[str, Any]) -> None:
        """Take values that the lesson's prose may quote; plain JSON values, nested by name."""


class PrintingSink:
    """The default: prints every output's text, as a script or a notebook wants it."""

    def add(self, output: Output) -> None:
        """Print it."""
        print(output.text(), flush=True)

    def publish(self, values: Mapping[str, Any]) -> None:
        """Print the values by name."""
        for name, value in values.items():
            print(f"{name} = {value}", flush=True)


class CollectingSink:
    """Keeps outputs and published values for whoever installed it."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self.published: dict[str, Any] = {}

    def add(self, output: Output) -> None:
        """Keep it."""
        self.outputs.append(output)

    def publish(self, values: Mapping[str, Any]) -> None:
        """Keep them; a name published twice is the author's mistake.

        Raises:
            ValueError: a name was published before.
        """
        for name, value in values.items():
            if name in self.published:
                raise ValueError(
                    f"publish({name}=...) is called twice in this lesson; give one of them another name"
                )
            self.published[name] = value


_SINK: ContextVar[Sink | None] = ContextVar("tilewise_sink", default=None)
_at_rest: Sink = PrintingSink()


def sink() -> Sink:
    """The sink that outputs go to now; the printing one unless another is installed or set."""
    return _SINK.get() or _at_rest


def set_sink(new: Sink) -> None:
    """Send outputs to ``new`` wherever no other is installed: in each cell of a notebook, say."""
    global _at_rest  # noqa: PLW0603 - cells of a notebook have contexts of their own
    _at_rest = new


@contextmanager
def installed(new: Sink) -> Iterator[Sink]:
    """Send outputs to ``new`` for the length of a ``with`` block."""
    token = _SINK.set(new)
    try:
        yield new
    finally:
        _SINK.reset(token)
