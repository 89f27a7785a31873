"""Compares the functions of `tilewise.kernels` with PyTorch's on random shapes: answers and times.

In: a seed. Out: `records/random_shapes.json`, one row per shape, with the GPU, its driver, clocks and all
versions. Device time is the time between two events around a call, after the L2 cache was overwritten and
behind a kernel that waits until the host has issued everything; host time is the time to issue a call. Run on
a GPU: `python -m validation.random_shapes`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parent / "records" / "random_shapes.json"
"""The record's file."""
SEED, SHAPES = 23, 60
"""The record's seed and its shapes per family."""
ASKED = {"matmul_fp32": 0.97}
"""By family: the required geometric mean, if it is not 1."""
_FLUSHED_BYTES, _ROUNDS, _BUDGET_MS = 1 << 28, 15, 120.0
_WAIT_CYCLES_PER_US = 2000


@dataclass(frozen=True)
class Task:
    """One shape of a family, with its arrays."""

    ours: Callable[[], Any]
    """The function under test."""
    theirs: Mapping[str, Callable[[], Any]]
    """By name: the implementations of PyTorch and CUDA's libraries."""
    exact: Callable[[], Any]
    """The exact answer, in FP64 or FP32."""
    room: float
    """The largest relative error, as a norm."""


Sizes = dict[str, Any]


def drawn(family: str, seed: int, count: int) -> Iterator[Sizes]:
    """The shapes of a family; every other one has aligned extents."""
    source = random.Random(f"{seed} {family}")
    for at in range(count):
        yield _DRAW[family](source, at % 2 == 0)


def _log(source: random.Random, least: int, most: int, step: int = 1) -> int:
    """A log-uniform extent, a multiple of `step`."""
    value = math.exp(source.uniform(math.log(least), math.log(most)))
    return max(1, round(value / step)) * step


def _draw_gemm(most: int) -> Callable[[random.Random, bool], Sizes]:
    def draw(source: random.Random, aligned: bool) -> Sizes:
        m, n, k = (_log(source, 32, most, 64 if aligned else 1) for _ in range(3))
        return {"M": m, "N": n, "K": k}

    return draw


def _draw_attention(most_flop: float) -> Callable[[random.Random, bool], Sizes]:
    def draw(source: random.Random, aligned: bool) -> Sizes:
        while True:
            batch, heads = _log(source, 1, 8), _log(source, 1, 32)
            n, d = _log(source, 64, 16384, 64 if aligned else 1), source.choice((64, 128))
            if 4.0 * batch * heads * n * n * d <= most_flop:
                return {"batch": batch, "heads": heads, "N": n, "d": d, "causal": source.random() < 0.5}

    return draw


def _draw_decode(source: random.Random, aligned: bool) -> Sizes:
    while True:
        batch, share = _log(source, 1, 128), source.choice((1, 4, 8))
        kv_heads, n = _log(source, 1, 32), _log(source, 64, 32768, 64 if aligned else 1)
        if 512 * batch * kv_heads * n <= 4 << 30:
            return {"batch": batch, "heads": share * kv_heads, "KV heads": kv_heads, "N": n, "d": 128}


def _draw_softmax(source: random.Random, aligned: bool) -> Sizes:
    while True:
        rows, columns = _log(source, 1, 65536), _log(source, 16, 262144, 64 if aligned else 1)
        if rows * columns <= 1 << 27:
            return {"rows": rows, "columns": columns, **_memory(source, aligned)}


def _draw_sum(source: random.Random, aligned: bool) -> Sizes:
    return {"n": _log(source, 256, 1 << 28, 64 if aligned else 1), **_memory(source, aligned)}


def _draw_transpose(source: random.Random, aligned: bool) -> Sizes:
    rows, columns = (_log(source, 16, 16384, 64 if aligned else 1) for _ in range(2))
    return {"rows": rows, "columns": columns, **_memory(source, aligned)}


def _memory(source: random.Random, aligned: bool) -> Sizes:
    """Element type, and the array's offset from a 16-byte boundary in elements."""
    kind = source.choice(("float32", "bfloat16"))
    return {"dtype": kind, "offset": 0 if aligned else source.choice((0, 0, 1))}


_DRAW: Mapping[str, Callable[[random.Random, bool], Sizes]] = {
    "matmul_bf16": _draw_gemm(8192),
    "matmul_fp32": _draw_gemm(4096),
    "attention": _draw_attention(1e12),
    "attention_backward": _draw_attention(4e11),
    "attention_decode": _draw_decode,
    "softmax": _draw_softmax,
    "sum": _draw_sum,
    "transpose": _draw_transpose,
}
FAMILIES = tuple(_DRAW)
"""The families of functions."""


def _task(family: str, sizes: Sizes) -> Task:
    import torch

    torch.manual_seed(1)
    return _TASKS[family](torch, sizes)


def _normal(torch: Any, *shape: int, dtype: str = "bfloat16", offset: int = 0) -> Any:
    count = math.prod(shape)
    buffer = torch.empty(count + offset, dtype=getattr(torch, dtype), device="cuda")
    return buffer.normal_()[offset:].view(*shape)


def _gemm(kind: str) -> Callable[[Any, Sizes], Task]:
    def task(torch: Any, sizes: Sizes) -> Task:
        from tilewise import kernels

        m, n, k = sizes["M"], sizes["N"], sizes["K"]
        a, b = _normal(torch, m, k, dtype=kind), _normal(torch, k, n, dtype=kind)
        room = 5e-3 if kind == "bfloat16" else 1e-5
        return Task(
            lambda: kernels.matmul(a, b),
            {"cuBLAS": lambda: torch.mm(a, b)},
            lambda: a.double() @ b.double(),
            room,
        )

    return task


def _attention_arrays(torch: Any, sizes: Sizes) -> tuple[Any, Any, Any]:
    shape = (sizes["batch"], sizes["heads"], sizes["N"], sizes["d"])
    q, k, v = (_normal(torch, *shape) for _ in range(3))
    return q, k, v


def _exact_attention(torch: Any, q: Any, k: Any, v: Any, causal: bool) -> Any:
    """Attention in FP32, head by head."""
    share, out = q.shape[1] // k.shape[1], torch.empty(q.shape, device=q.device)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            s = q[b, h].float() @ k[b, h // share].float().T * q.shape[-1] ** -0.5
            if causal:
                s = s.masked_fill_(torch.ones_like(s, dtype=torch.bool).triu_(1), -math.inf)
            out[b, h] = torch.softmax(s, -1) @ v[b, h // share].float()
    return out


def _backends(torch: Any, call: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    """A call under each of PyTorch's fast backends of attention."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def under(backend: Any) -> Callable[[], Any]:
        def run() -> Any:
            with sdpa_kernel(backend):
                return call()

        return run

    return {"cuDNN": under(SDPBackend.CUDNN_ATTENTION), "FlashAttention-2": under(SDPBackend.FLASH_ATTENTION)}


def _attention(torch: Any, sizes: Sizes) -> Task:
    from tilewise import kernels

    q, k, v = _attention_arrays(torch, sizes)
    causal = sizes["causal"]
    attend = torch.nn.functional.scaled_dot_product_attention
    return Task(
        lambda: kernels.attention(q, k, v, causal=causal),
        _backends(torch, lambda: attend(q, k, v, is_causal=causal)),
        lambda: _exact_attention(torch, q, k, v, causal),
        1e-2,
    )


def _attention_backward(torch: Any, sizes: Sizes) -> Task:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from tilewise import kernels

    q, k, v = _attention_arrays(torch, sizes)
    dout, causal = torch.randn_like(q), sizes["causal"]
    out, lse = kernels.attention(q, k, v, causal=causal, return_lse=True)
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (q, k, v)]
    attend = torch.nn.functional.scaled_dot_product_attention
    libraries: dict[str, Callable[[], Any]] = {}
    for name, backend in (("cuDNN", "CUDNN_ATTENTION"), ("FlashAttention-2", "FLASH_ATTENTION")):
        with sdpa_kernel(getattr(SDPBackend, backend)):
            output = attend(*leaves, is_causal=causal)
        libraries[name] = partial(torch.autograd.grad, output, leaves, dout, retain_graph=True)
    return Task(
        lambda: kernels.attention_backward(dout, q, k, v, out, lse, causal=causal),
        libraries,
        libraries["FlashAttention-2"],
        2e-2,
    )


def _attention_decode(torch: Any, sizes: Sizes) -> Task:
    from tilewise import kernels

    batch, heads, kv_heads, n, d = (sizes[name] for name in ("batch", "heads", "KV heads", "N", "d"))
    q = _normal(torch, batch, heads, d)
    k, v = (_normal(torch, batch, kv_heads, n, d) for _ in range(2))
    attend, grouped = torch.nn.functional.scaled_dot_product_attention, heads != kv_heads
    wide = q[:, :, None]
    return Task(
        lambda: kernels.attention_decode(q, k, v),
        _backends(torch, lambda: attend(wide, k, v, enable_gqa=grouped)),
        lambda: _exact_attention(torch, wide, k, v, False)[:, :, 0],
        1e-2,
    )


def _softmax(torch: Any, sizes: Sizes) -> Task:
    from tilewise import kernels

    x = _normal(torch, sizes["rows"], sizes["columns"], dtype=sizes["dtype"], offset=sizes["offset"])
    room = 1e-2 if sizes["dtype"] == "bfloat16" else 1e-5
    return Task(
        lambda: kernels.softmax(x),
        {"PyTorch": lambda: torch.softmax(x, -1)},
        lambda: torch.softmax(x.double(), -1),
        room,
    )


def _sum(torch: Any, sizes: Sizes) -> Task:
    import cupy

    from tilewise import kernels

    x = _normal(torch, sizes["n"], dtype=sizes["dtype"], offset=sizes["offset"]).abs_()
    libraries: dict[str, Callable[[], Any]] = {"PyTorch": lambda: torch.sum(x)}
    if sizes["dtype"] == "float32":
        cupy._core.set_reduction_accelerators(["cub"])
        cupy_array = cupy.from_dlpack(x)
        libraries["CUB"] = lambda: cupy.sum(cupy_array)
    return Task(
        lambda: kernels.sum(x),
        libraries,
        lambda: x.double().sum(),
        1e-2 if sizes["dtype"] == "bfloat16" else 1e-5,
    )


def _transpose(torch: Any, sizes: Sizes) -> Task:
    from tilewise import kernels

    x = _normal(torch, sizes["rows"], sizes["columns"], dtype=sizes["dtype"], offset=sizes["offset"])
    return Task(
        lambda: kernels.transpose(x),
        {"PyTorch": lambda: x.t().contiguous()},
        lambda: x.t().contiguous(),
        0.0,
    )


_TASKS: Mapping[str, Callable[[Any, Sizes], Task]] = {
    "matmul_bf16": _gemm("bfloat16"),
    "matmul_fp32": _gemm("float32"),
    "attention": _attention,
    "attention_backward": _attention_backward,
    "attention_decode": _attention_decode,
    "softmax": _softmax,
    "sum": _sum,
    "transpose": _transpose,
}


def _error(torch: Any, ours: Any, exact: Any) -> float:
    """The largest of the arrays' relative errors, as norms."""
    pairs = zip(ours, exact, strict=True) if isinstance(ours, tuple) else [(ours, exact)]
    errors = []
    for actual, right in pairs:
        distance = torch.linalg.vector_norm(actual.double() - right.double())
        errors.append(float(distance / torch.linalg.vector_norm(right.double()).clamp_min(1e-30)))
    return max(errors)


def _host_us(torch: Any, call: Callable[[], Any], calls: int) -> float:
    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls * 1e6)
        torch.cuda.synchronize()
    return statistics.median(times)


def _device_us(torch: Any, calls: Mapping[str, Callable[[], Any]], host: Mapping[str, float]) -> Any:
    """Device times by name; each round times all implementations."""
    flushed = torch.empty(_FLUSHED_BYTES // 4, dtype=torch.float32, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in calls}
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for event in (start, end):  # an event is created when it is first recorded
        event.record()
    spent, at = 0.0, 0
    while at < 3 or (at < _ROUNDS and spent < _BUDGET_MS):
        for name, call in calls.items():
            flushed.zero_()
            torch.cuda._sleep(int((2 * host[name] + 50) * _WAIT_CYCLES_PER_US))
            start.record()
            call()
            end.record()
            end.synchronize()
            elapsed_ms = start.elapsed_time(end)
            times[name].append(1e3 * elapsed_ms)
            spent += elapsed_ms
        at += 1
    return times


def compared(family: str, sizes: Sizes) -> dict[str, Any]:
    """One row of the record.

    Raises:
        AssertionError: our answer is wrong.
    """
    import torch

    task = _task(family, sizes)
    calls: dict[str, Callable[[], Any]] = {"tilewise": task.ours}
    for name, call in task.theirs.items():
        try:
            call()
            calls[name] = call
        except RuntimeError:  # a backend that does not take the shape
            continue
    error = _error(torch, task.ours(), task.exact())
    assert error <= task.room, f"{family} {sizes}: relative error {error:.2g}"
    start = time.perf_counter()
    task.ours()
    torch.cuda.synchronize()
    once_us = (time.perf_counter() - start) * 1e6
    count = max(3, min(30, int(30_000 / once_us)))
    host = {name: _host_us(torch, call, count) for name, call in calls.items()}
    device = _device_us(torch, calls, {name: min(time_us, 2000.0) for name, time_us in host.items()})
    median = {name: statistics.median(times) for name, times in device.items()}
    best = min((name for name in median if name != "tilewise"), key=lambda name: median[name])
    low, *_, high = sorted(device["tilewise"])
    return {
        **sizes,
        "ratio": round(median[best] / median["tilewise"], 3),
        "device_us": round(median["tilewise"], 2),
        "range_us": [round(low, 2), round(high, 2)],
        "best": best,
        "best_us": round(median[best], 2),
        "host_us": round(host["tilewise"], 1),
        "best_host_us": round(host[best], 1),
        "error": float(f"{error:.2g}"),
    }


def geometric_mean(rows: list[dict[str, Any]]) -> float:
    """The geometric mean of the rows' ratios."""
    return math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))


def machine() -> dict[str, Any]:
    """The GPU and the software versions."""
    import cupy
    import torch

    fields = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    values = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    return {
        **dict(zip(fields.split(","), values, strict=True)),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "cupy": cupy.__version__,
        "python": sys.version.split()[0],
        "date": datetime.now(UTC).date().isoformat(),
    }


def merged(record: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A record with the families of another run instead of its own, and the dates and clocks of both.

    Raises:
        ValueError: the runs differ in more than the temperature and current clock of the GPU, the date and
            the families.
    """
    momentary = ("clocks.sm", "date")
    unlike = dict.fromkeys((*momentary, "temperature.gpu"), "")
    same = [{**run, "machine": {**run["machine"], **unlike}} for run in (record, other)]
    for name in sorted(set(record) | set(other)):
        if name != "families" and same[0].get(name) != same[1].get(name):
            raise ValueError(f"{name} differs: {record.get(name)} and {other.get(name)}")
    machine = dict(record["machine"])
    for name in momentary:
        machine[name] = " and ".join(
            sorted({part for run in (record, other) for part in run["machine"][name].split(" and ")})
        )
    return {**record, "machine": machine, "families": {**record["families"], **other["families"]}}


def main() -> None:
    """Compare and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=list(FAMILIES), help=", ".join(FAMILIES))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--shapes", type=int, default=SHAPES)
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--warm", action="store_true", help="only compile and check")
    parser.add_argument("--merge", type=Path, help="only put the families of this record into that at --out")
    arguments = parser.parse_args()
    if arguments.merge:
        both = (json.loads(path.read_text(encoding="utf-8")) for path in (arguments.out, arguments.merge))
        arguments.out.write_text(json.dumps(merged(*both), indent=1) + "\n", encoding="utf-8")
        return
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    families: dict[str, Any] = {}
    failed = []
    for family in arguments.families:
        rows, start = [], time.perf_counter()
        for sizes in drawn(family, arguments.seed, arguments.shapes):
            try:
                if arguments.warm:
                    _task(family, sizes).ours()
                    torch.cuda.synchronize()
                else:
                    rows.append(compared(family, sizes))
            except (AssertionError, Exception) as error:
                failed.append(f"{family} {sizes}: {type(error).__name__}: {str(error)[:300]}")
        torch.cuda.empty_cache()
        elapsed_s = time.perf_counter() - start
        if not rows:
            print(f"{family}: {elapsed_s:.1f} s", flush=True)
            continue
        rows.sort(key=lambda row: row["ratio"])
        families[family] = rows
        mean, under = geometric_mean(rows), sum(row["ratio"] < 0.85 for row in rows)
        print(f"{family:20} geometric mean {mean:.3f}, worst {rows[0]['ratio']:.3f}, "
              f"{under} of {len(rows)} under 0.85, {elapsed_s:.1f} s", flush=True)  # fmt: skip
    for line in failed:
        print("FAILED", line)
    if not arguments.warm:
        record = {
            "kind": "random_shapes",
            "schema": 1,
            "seed": arguments.seed,
            "machine": machine(),
            "families": families,
        }
        arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
