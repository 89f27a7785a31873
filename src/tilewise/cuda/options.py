"""The options that a kernel may have, with the same meaning on both backends.

In: option strings. Out: the same, checked, and split by their consumer. The simulator documents its use of
each.
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
    """Return the options as a tuple.

    Raises:
        KernelError: an option is unknown, misspelt or given twice.
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
    """Return the `sm_90a` of `-arch=sm_90a`, if given."""
    return next((option.removeprefix("-arch=") for option in options if option.startswith("-arch=")), None)


def carveout(options: Iterable[str]) -> int | None:
    """Return the 50 of `--carveout=50`: shared memory as a percentage of an SM's maximum.

    It is not a compiler option: it is passed to the driver when the kernel is loaded, which takes the next
    size that the device supports and leaves the rest to the L1 cache. None leaves the choice to the driver.
    """
    carveout_option = next((option for option in options if option.startswith("--carveout=")), None)
    return None if carveout_option is None else int(carveout_option.removeprefix("--carveout="))


def for_compiler(options: Iterable[str]) -> tuple[str, ...]:
    """Return the options for a compiler."""
    return tuple(option for option in options if not option.startswith("--carveout="))
