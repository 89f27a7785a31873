"""The course's kernels as functions on arrays, ``tilewise.kernels.softmax(x)``, and as kernels to import.

In: arrays of NumPy, CuPy or PyTorch for a function; a name for a kernel. Out: arrays of the same library, or
the ``Kernel`` of a lesson, read from the ``.cu`` file of that name next to this module.
``python -m tilewise.kernels`` writes these files and a test compares them with the lessons; they don't need
the lessons. Functions are in ``calls``; each is loaded when it is first used.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewise.cuda.cases import Case
from tilewise.errors import nearest
from tilewise.kernel.kernel import Kernel
from tilewise.kernels.published import PUBLISHED, Published, hilbert

if TYPE_CHECKING:
    from tilewise.kernels.calls.attentions import attention, attention_backward
    from tilewise.kernels.calls.autograd import scaled_dot_product_attention
    from tilewise.kernels.calls.decoding import attention_decode
    from tilewise.kernels.calls.explaining import explain
    from tilewise.kernels.calls.matmuls import matmul
    from tilewise.kernels.calls.softmaxes import softmax
    from tilewise.kernels.calls.sums import sum_of as sum
    from tilewise.kernels.calls.transposes import transpose

FOLDER = Path(__file__).resolve().parent
"""The folder of the ``.cu`` files."""

_FUNCTIONS = {
    "scaled_dot_product_attention": ("tilewise.kernels.calls.autograd", "scaled_dot_product_attention"),
    "attention_decode": ("tilewise.kernels.calls.decoding", "attention_decode"),
    "explain": ("tilewise.kernels.calls.explaining", "explain"),
    "attention": ("tilewise.kernels.calls.attentions", "attention"),
    "attention_backward": ("tilewise.kernels.calls.attentions", "attention_backward"),
    "matmul": ("tilewise.kernels.calls.matmuls", "matmul"),
    "softmax": ("tilewise.kernels.calls.softmaxes", "softmax"),
    "sum": ("tilewise.kernels.calls.sums", "sum_of"),
    "transpose": ("tilewise.kernels.calls.transposes", "transpose"),
}
"""By function on arrays: its module and its name there."""

__all__ = [
    "PUBLISHED",
    "Published",
    "attention",
    "attention_backward",
    "attention_decode",
    "case_of",
    "explain",
    "hilbert",
    "kernel",
    "matmul",
    "matmul_bf16",
    "matmul_fp32",
    "matmul_fp32_narrow",
    "pad_both_16bit",
    "scaled_dot_product_attention",
    "softmax",
    "source",
    "sum",
    "sum_fp32",
    "transpose",
    "transpose_fp32",
]


def source(name: str) -> str:
    """The CUDA C of a published kernel, complete, with its settings at the top.

    Args:
        name: one of ``PUBLISHED``, or ``general/softmax`` and the like: the kernels that functions launch
            if no lesson's kernel takes an array.

    Raises:
        KeyError: there is no kernel of that name.
    """
    general = {f"general/{path.stem}" for path in (FOLDER / "general").glob("*.cu")}
    if name.startswith("general/") and name not in general:
        raise KeyError(f'no kernel "{name}". {nearest(name, general)}')
    if name not in general:
        _entry(name)
    return (FOLDER / f"{name}.cu").read_text(encoding="utf-8")


def kernel(name: str, **defines: float | str) -> Kernel:
    """A published kernel with other settings, say ``kernel("matmul_fp32", ALIGNED=0)``.

    Args:
        name: one of ``PUBLISHED``.
        **defines: values for its ``#define`` lines; the others keep their published values.

    Raises:
        KeyError: no kernel of that name is published.
        KernelError: a ``#define`` line cannot hold a value.
    """
    entry = _entry(name)
    text = source(name)
    if "__half" in defines.values() and "<cuda_fp16.h>" not in text:
        text = "#include <cuda_fp16.h>\n" + text
    published_kernel = Kernel(text, entry.entry, {**entry.defines, **defines}, entry.options)
    published_kernel.origin = (str(FOLDER / f"{name}.cu"), 1)
    return published_kernel


def case_of(name: str, **sizes: int) -> Case:
    """Inputs and launch of a published kernel at a size, as a ``case``.

    ``kernels.matmul_fp32.on(kernels.case_of("matmul_fp32", M=512, N=512, K=256)).run()`` runs it on random
    inputs. For arrays of your own, call the kernel with the case's ``grid``, ``block`` and ``shared_bytes``.

    Args:
        name: one of ``PUBLISHED``.
        **sizes: the parameters of its entry's function ``inputs``.

    Raises:
        KeyError: no kernel of that name is published.
        TypeError: a size is missing or unknown.
        ValueError: the kernel, with its published settings, does not take such sizes or has no case.
    """
    inputs = _entry(name).inputs
    if inputs is None:
        raise ValueError(f'"{name}" has no case: call the function that launches it, or fill its arguments.')
    return inputs(**sizes)


def _entry(name: str) -> Published:
    if name not in PUBLISHED:
        raise KeyError(f'no kernel "{name}" is published. {nearest(name, PUBLISHED)}')
    return PUBLISHED[name]


@cache
def _kernel(name: str) -> Kernel:
    return kernel(name)


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        module, function = _FUNCTIONS[name]
        return getattr(import_module(module), function)
    if name not in PUBLISHED:
        raise AttributeError(
            f'module "{__name__}" has no attribute "{name}". {nearest(name, {*PUBLISHED, *_FUNCTIONS})}'
        )
    return _kernel(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLISHED, *_FUNCTIONS})
