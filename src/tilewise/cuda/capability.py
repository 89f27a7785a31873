"""The minimum GPU for a kernel, read from its text, so that a page can say whether a hosted GPU suffices.

In: a kernel's source and options. Out: a compute capability such as (7, 5). A test compares the table with
what NVRTC accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from tilewise.cuda.kernel_source import without_comments
from tilewise.cuda.options import architecture

Capability = tuple[int, int]

HOSTED: Capability = (7, 5)
"""The capability of the GPUs that run notebooks for free: T4, of the Turing generation."""
NAMES: dict[int, str] = {7: "Turing", 8: "Ampere", 9: "Hopper", 10: "Blackwell", 12: "Blackwell"}
"""Generations by major compute capability."""

_NEEDS: tuple[tuple[Capability, re.Pattern[str]], ...] = (
    (
        (9, 0),
        re.compile(
            r"\bcp\.async\.bulk|\bmbarrier\.try_wait|\bstmatrix\b|__cluster_dims__|\bbarrier\.cluster\b"
            r"|\bmapa\b|\bgriddepcontrol\b|\bfence\.proxy\.async\b|%cluster_ctarank"
        ),
    ),
    (
        (8, 0),
        re.compile(
            r"\bcp\.async\.(?:ca|cg|commit|wait)|\bmbarrier\.|\bredux\.sync\b|__reduce_(?:add|min|max|and|or|xor)_sync"
            r"|\bmma\.sync\.aligned\.m16n8k(?:16|32|64)\b|\bmma\.sync\.[\w.]*\.(?:bf16|tf32|f64)\b"
        ),
    ),
)


def needed(source: str, options: Iterable[str] = ()) -> Capability:
    """Return the minimum compute capability that a kernel's text requires, at least that of a hosted GPU.

    Args:
        source: the kernel's CUDA C.
        options: its options; ``-arch=sm_90a`` overrides the text.
    """
    if named := architecture(options):
        digits = named.removeprefix("sm_").rstrip("af")
        return int(digits[:-1]), int(digits[-1])
    return _needed_by(source)


@lru_cache(maxsize=2048)
def _needed_by(source: str) -> Capability:
    text = without_comments(source)
    return next((least for least, pattern in _NEEDS if pattern.search(text)), HOSTED)


def named(capability: Capability) -> str:
    """Return text such as ``compute capability 8.0 (Ampere)``."""
    major, minor = capability
    return f"compute capability {major}.{minor} ({NAMES.get(major, 'newer')})"
