"""Attention in a PyTorch model: a drop-in for `scaled_dot_product_attention` with gradients.

In: PyTorch tensors (batch, heads, length, d). Out: tensors that autograd can differentiate. PyTorch is
imported when the function is first called.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from tilewise.cuda.kernel_source import KernelError
from tilewise.kernels.calls.attentions import attention, attention_backward


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """`torch.nn.functional.scaled_dot_product_attention` with our kernels, forward and backward.

    Args:
        query: (batch, heads, N, d).
        key: (batch, KV heads, M, d).
        value: of the shape of `key`.
        attn_mask: None; the only mask is the causal one.
        dropout_p: 0.
        is_causal: whether query i sees only the keys up to i.
        scale: factor of the scores; None takes 1 / sqrt(d).
        enable_gqa: whether there may be fewer KV heads than heads.

    Raises:
        KernelError: an argument does not fit; nothing was written.
    """
    call = "scaled_dot_product_attention"
    if attn_mask is not None or dropout_p:
        what = "attn_mask" if attn_mask is not None else "dropout_p"
        raise KernelError(f"{call}: {what} is given. Omit it, or call PyTorch's own function.")
    if not enable_gqa and query.shape[-3:-2] != key.shape[-3:-2]:
        raise KernelError(
            f"{call}: query has {query.shape[-3]} heads and key {key.shape[-3]}. Pass enable_gqa=True."
        )
    return _function().apply(query, key, value, is_causal, scale)


@cache
def _function() -> Any:
    torch: Any = importlib.import_module("torch")

    class Attention(torch.autograd.Function):  # type: ignore[misc]
        """Forward and backward."""

        @staticmethod
        def forward(context: Any, q: Any, k: Any, v: Any, causal: bool, scale: float | None) -> Any:
            how: dict[str, Any] = {"causal": causal, "shift": 0 if causal else None, "scale": scale}
            out, lse = attention(q, k, v, **how, return_lse=True)
            context.save_for_backward(q, k, v, out, lse)
            context.how = how
            return out

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(context: Any, dout: Any) -> Any:
            gradients = attention_backward(dout, *context.saved_tensors, **context.how)
            return (*gradients, None, None)

    return Attention
