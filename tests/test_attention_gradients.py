"""The forward and the backward kernel for attention on Hopper, one after the other: both mean the same L."""

import ast
from pathlib import Path

import numpy as np

from tilewise import Kernel, bf16, case, ceil_div, normal, output, tensor_map
from tilewise.kernel.literals import KernelText, Literals
from tilewise.measurements.attention import right_answer

LESSONS = Path(__file__).resolve().parents[1] / "lessons/attention"
HEADS, N, D = 2, 200, 128


def forward_kernel() -> Kernel:
    """``flash_wgmma`` with a causal mask, from the lesson that has it."""
    for file in sorted(LESSONS.glob("*.py")):
        constants = Literals(ast.parse(file.read_text(encoding="utf-8")).body)
        for node in constants.assigned.values():
            try:
                text = constants.value(node)
            except (ValueError, AttributeError, TypeError):
                continue
            if isinstance(text, KernelText) and "flash_wgmma(" in text.source:
                defines = {**(text.defines or {}), "D": D, "CAUSAL": 1}
                return Kernel(text.source, "flash_wgmma", defines=defines, options=text.options)
    raise AssertionError(
        "no lesson on attention has the kernel flash_wgmma any more: name its successor here"
    )


def backward_kernels() -> list[Kernel]:
    text = (LESSONS / "masks_and_backward.py").read_text(encoding="utf-8")
    constants = Literals(ast.parse(text).body)
    source, options = (constants.value(constants.assigned[name]) for name in ("BACKWARD", "OPTIONS"))
    return [Kernel(source, name, options=options) for name in ("prepare", "backward", "finish")]


def attended(shift: int) -> dict[str, np.ndarray]:
    """The arrays after both passes; query i sees the keys up to i + shift in the forward pass."""
    shape = (HEADS, N, D)
    inputs = {name: normal(*shape, dtype="bfloat16") for name in ("Q", "K", "V", "dO")}
    made = {name: output(*shape, dtype="bfloat16") for name in ("O", "dQ", "dK", "dV")}
    padded = ceil_div(N, 64) * 64
    made |= {"L": output(HEADS, N), "delta": output(HEADS, padded), "lse": output(HEADS, padded)}
    made |= {"sums": output(HEADS, padded, D)}
    maps = {
        f"{name.lower()}_map": tensor_map(name, box=(1, rows, 64), swizzle=128, dtype="bfloat16")
        for name, rows in {"Q": 64, "dO": 64, "K": 128, "V": 128, "dK": 64, "dV": 64}.items()
    }
    sizes = {"N": N, "M": N, "share": 1, "shift": shift, "padded": padded, "scale": D**-0.5}
    made = case(**inputs, **made, **maps, **sizes, causal=1, heads_first=0)
    arrays, kernel = made.make(), forward_kernel()
    consumers = int(kernel.defines["CONSUMERS"])
    grid, block = (ceil_div(N, 64 * consumers), HEADS), 128 + 128 * consumers
    kernel.on(made, grid=grid, block=block, shared_bytes=128 * D * (consumers + 8)).run(arrays)
    prepare, backward, finish = backward_kernels()
    prepare.on(made, grid=(padded // 16, HEADS), block=256).run(arrays)
    shared_bytes = 2 * 128 * D * 2 + 2 * 2 * 64 * D * 2 + 64 * 128 * 2 + 64 * D * 4
    backward.on(made, grid=(ceil_div(N, 128), HEADS), block=384, shared_bytes=shared_bytes).run(arrays)
    finish.on(made, grid=(padded // 64, 2, HEADS), block=128).run(arrays)
    return arrays


def test_gradients_from_what_the_forward_kernel_left():
    arrays = attended(0)
    q, k, v, d_out = (bf16.values(arrays[name]).astype(np.float64) for name in ("Q", "K", "V", "dO"))
    p = np.where(np.tri(N, dtype=bool), np.exp(q @ k.swapaxes(1, 2) * D**-0.5), 0.0)
    p /= p.sum(axis=2, keepdims=True)
    dp = d_out @ v.swapaxes(1, 2)
    ds = p * (dp - (p * dp).sum(axis=2, keepdims=True)) * D**-0.5
    right = {"dQ": ds @ k, "dK": ds.swapaxes(1, 2) @ q, "dV": p.swapaxes(1, 2) @ d_out}
    for name, exact in right.items():
        off = np.abs(bf16.values(arrays[name]) - exact).max() / np.abs(exact).max()
        assert off < 2**-6, name


def test_queries_that_see_no_key_get_and_give_no_gradient():
    arrays = attended(-70)
    assert np.isneginf(arrays["L"][:, :70]).all()
    exact = right_answer({**arrays, "share": 1, "shift": -70, "scale": D**-0.5})
    assert np.allclose(arrays["L"][:, 70:], exact["L"][:, 70:], atol=1e-4)
    for name in ("dQ", "dK", "dV"):
        assert np.isfinite(bf16.values(arrays[name])).all(), name
    assert not bf16.values(arrays["dQ"])[:, :70].any()
