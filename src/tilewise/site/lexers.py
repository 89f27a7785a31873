"""Pygments lexers for PTX, for SASS as NVIDIA's nvdisasm writes it, and for kernels in Python strings.

In: source text. Out: tokens that distinguish jumps, memory, predicates, registers and constants. Pygments
finds the lexers by entry points, as ``nvidia-ptx``, ``nvidia-sass`` and ``python-cuda``: its own PTX lexer
marks predicates as errors, and its Sass is the stylesheet language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups
from pygments.lexers import CudaLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

_JUMPS = (
    r"(?:BRA|BRX|BRXU|JMP|CALL|RET|EXIT|BSSY|BSYNC|BREAK|WARPSYNC|BAR|MEMBAR|FENCE|SYNCS|DEPBAR|NANOSLEEP)"
)
"""Control-flow and synchronisation instructions."""


class PtxLexer(RegexLexer):  # type: ignore[misc]  # Pygments has no types
    """PTX as NVRTC and clang emit it."""

    name = "NVIDIA PTX"
    aliases: ClassVar[list[str]] = ["nvidia-ptx"]
    url = "https://docs.nvidia.com/cuda/parallel-thread-execution/"

    tokens: ClassVar[dict[str, list[object]]] = {
        "root": [
            (r"//[^\n]*", Comment.Single),
            (r"/\*.*?\*/", Comment.Multiline),
            (r'"[^"\n]*"', String),
            (r"^(\s*)(\$\w+)(:)", bygroups(Whitespace, Name.Label, Punctuation)),
            (r"@!?%?\w+", Keyword.Type),
            (r"^(\s*)(\.\w+)", bygroups(Whitespace, Keyword.Declaration)),
            (
                r"\b(?:bra|brx|call|ret|exit|bar|barrier|membar|fence|mbarrier)(?:(?:\.|::)\w+)*\b",
                Keyword.Reserved,
            ),
            (r"\b(?:ld|ldu|ldmatrix|st|stmatrix|atom|red|cp|prefetch)(?:(?:\.|::)\w+)+\b", Name.Builtin),
            (
                r"%(?:ctaid|ntid|tid|nctaid|laneid|warpid|clock|clock64|smid|cluster_\w+)(?:\.[xyz])?",
                Name.Constant,
            ),
            (r"%\w+", Name.Variable),
            (r"\$\w+", Name.Label),
            (r"0[fFdD][0-9a-fA-F]+|-?(?:0x[0-9a-fA-F]+|\d+\.?\d*)U?\b", Number),
            (
                r"\b[a-z][a-z0-9]*(?:(?:\.|::)\w+)+\b|\b(?:not|mov|add|sub|mul|mad|fma|neg|abs|min|max|cvt|cvta)\b",
                Keyword,
            ),
            (r"\.\w+", Keyword.Declaration),
            (r"[-+|~!*<>=_]", Operator),
            (r"[][(){},;:.]", Punctuation),
            (r"\w+", Name),
            (r"\s+", Whitespace),
        ],
    }


class SassLexer(RegexLexer):  # type: ignore[misc]  # Pygments has no types
    """SASS, the machine code of NVIDIA's GPUs, as nvdisasm prints it."""

    name = "NVIDIA SASS"
    aliases: ClassVar[list[str]] = ["nvidia-sass"]
    url = "https://docs.nvidia.com/cuda/cuda-binary-utilities/"

    tokens: ClassVar[dict[str, list[object]]] = {
        "root": [
            (r"//[^\n]*", Comment.Single),
            (r"/\*.*?\*/", Comment.Multiline),
            (r"^(\s*)(\.L_\w+)(:)", bygroups(Whitespace, Name.Label, Punctuation)),
            (r"@!?U?P(?:T|\d+)", Keyword.Type),
            (rf"\b{_JUMPS}(?:\.\w+)*\b", Keyword.Reserved),
            (r"\b(?:LD|ST|ATOM|RED|CCTL|UTMA|UBLKCP|LDGSTS)[A-Z]*(?:\.\w+)*\b", Name.Builtin),
            (r"\.L_\w+|\$[\w$]+", Name.Label),
            (r"\b(?:SR|SRZ)_\w+(?:\.[XYZ])?|\b[cd]esc\b", Name.Constant),
            (r"\b(?:U?R(?:\d+|Z)|U?P(?:\d+|T)|SB\d+|B\d+)\b", Name.Variable),
            (r"\bc(?=\[0x)", Name.Constant),
            (r"[-+]?(?:0x[0-9a-fA-F]+|\d+\.?\d*(?:e[-+]?\d+)?|\bINF\b|\bQNAN\b)", Number),
            (r"\b[A-Z][A-Z0-9_]*(?:\.\w+)*\b", Keyword),
            (r"\.\w+", Name.Decorator),
            (r"[-+|~!&*]", Operator),
            (r"[][(){},;:`?=.]", Punctuation),
            (r"\w+", Name),
            (r"\s+", Whitespace),
        ],
    }


class PythonCudaLexer(PythonLexer):  # type: ignore[misc]  # Pygments has no types
    """Python with CUDA C in raw strings that contain a kernel or a device function."""

    name = "Python with CUDA C"
    aliases: ClassVar[list[str]] = ["python-cuda"]
    filenames: ClassVar[list[str]] = []
    mimetypes: ClassVar[list[str]] = []

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]:
        """Yield the position, type and text of each token."""
        end = 0
        for string in re.finditer(r'r"""(.*?)"""', text, re.DOTALL):
            if re.search(r"__(?:global|device)__", string[1]):
                yield from self._python(text, end, string.start(1))
                for at, kind, value in CudaLexer().get_tokens_unprocessed(string[1]):
                    yield string.start(1) + at, kind, value
                end = string.end(1)
        yield from self._python(text, end, len(text))

    def _python(self, text: str, start: int, end: int) -> Iterator[tuple[int, object, str]]:
        """A section of Python, with the quotes that end the previous kernel and begin the next."""
        closing = '"""' if start else ""
        opening = 'r"""' if end < len(text) else ""
        if closing:
            yield start, String, closing
        for at, kind, value in super().get_tokens_unprocessed(
            text[start + len(closing) : end - len(opening)]
        ):
            yield start + len(closing) + at, kind, value
        if opening:
            yield end - len(opening), String, opening
