"""Options that a kernel may carry, and no others, so that both backends mean the same by them.

In: option strings. Out: the same, checked, and which of them is whose. What the simulator makes of each is
documented there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilewise.cuda.kernel_source import KernelError

_KNOWN = {
    "-std": re.compile(r"-std=c\+\+(11|14|17|20)"),
    "-fmad": re.compile(r"-fmad=(true|false)"),
    "--use_fast_math": re.compile(r"--use_fast_math"),
    "--maxrregcount": re.compile(r"--maxrregcount=\d+"),
    "-arch": re.compile(r"-arch=sm_\d+a"),
    "--carveout": re.compile(r"--carveout=(100|\d{1,2})"),
}
_FORMS = "-std=c++17, -fmad=false, --use_fast_math, --maxrregcount=64, -arch=sm_90a, --carveout=50"


def check_options(options: Iterable[str]) -> tuple[str, ...]:
    """The options as a tuple.

    Raises:
        KernelError: one is unknown, misspelt or given twice.
    """
    if isinstance(options, str):
        raise KernelError(f'options is the text {options!r}. Give a tuple of texts: options=("{options}",).')
    checked = tuple(options)
    seen: set[str] = set()
    for option in checked:
        kind = option.split("=")[0] if isinstance(option, str) else ""
        if kind not in _KNOWN or not _KNOWN[kind].fullmatch(option):
            raise KernelError(f"option {option!r} is not one that both backends know. These are: {_FORMS}.")
        if kind in seen:
            raise KernelError(f"option {kind} is given twice. Keep one.")
        seen.add(kind)
    return checked


def architecture(options: Iterable[str]) -> str | None:
    """The `sm_90a` of `-arch=sm_90a`, where it is given."""
    return next((one.removeprefix("-arch=") for one in options if one.startswith("-arch=")), None)


def carveout(options: Iterable[str]) -> int | None:
    """The 50 of `--carveout=50`: how much of the most that an SM can keep as shared memory, in percent.

    It is no option for a compiler: the driver is asked for it when the kernel is loaded, takes the next size
    that the device has, and leaves the rest of the same store to the L1 cache. None leaves the choice to it.
    """
    found = next((one for one in options if one.startswith("--carveout=")), None)
    return None if found is None else int(found.removeprefix("--carveout="))


def for_compiler(options: Iterable[str]) -> tuple[str, ...]:
    """Those that a compiler knows."""
    return tuple(one for one in options if not one.startswith("--carveout="))
