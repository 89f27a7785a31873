"""Hopper's instructions as device functions, and a matrix product that uses most of them, for the tests."""

import re
from typing import Any

import numpy as np

OPTIONS = ("-std=c++17", "-arch=sm_90a")

DEVICE = r"""
struct __align__(128) TensorMap { unsigned long long opaque[16]; };
typedef unsigned long long u64;
#define DEVICE static __device__ __forceinline__
DEVICE unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
DEVICE void init(u64* bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(bar)), "r"(count) : "memory"); }
DEVICE void inval(u64* bar) { asm volatile("mbarrier.inval.shared::cta.b64 [%0];"
        :: "r"(at(bar)) : "memory"); }
DEVICE void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void expect(u64* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
        :: "r"(at(bar)), "r"(bytes) : "memory"); }
DEVICE void arrive(u64* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(bar)) : "memory"); }
DEVICE void arrive_at(unsigned bar) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(bar) : "memory"); }
DEVICE void wait(u64* bar, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra over;\nbra again;\nover:\n}"
        :: "r"(at(bar)), "r"(parity) : "memory"); }
DEVICE void load(void* to, const void* from, int bytes, u64* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :: "r"(at(to)), "l"(from), "r"(bytes), "r"(at(bar)) : "memory"); }
DEVICE void load_2d(void* to, const TensorMap* map, int x, int y, u64* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4}], [%2];" :: "r"(at(to)), "l"(map), "r"(at(bar)), "r"(x), "r"(y) : "memory"); }
DEVICE void load_2d_to(void* to, const TensorMap* map, int x, int y, u64* bar, unsigned short blocks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
        :: "r"(at(to)), "l"(map), "r"(at(bar)), "r"(x), "r"(y), "h"(blocks) : "memory"); }
DEVICE void store(void* to, const void* from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
        :: "l"(to), "r"(at(from)), "r"(bytes) : "memory"); }
DEVICE void store_2d(const TensorMap* map, const void* from, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
        :: "l"(map), "r"(at(from)), "r"(x), "r"(y) : "memory"); }
DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> DEVICE void bulk_wait() { asm volatile("cp.async.bulk.wait_group.read %0;"
        :: "n"(N) : "memory"); }
DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
DEVICE unsigned rank() { unsigned r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
DEVICE unsigned mapa(const void* p, unsigned rank) {
    unsigned r; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(at(p)), "r"(rank));
    return r; }
DEVICE int remote(unsigned address) {
    int r; asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(r) : "r"(address) : "memory"); return r; }
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;"
        :: "n"(N) : "memory"); }
DEVICE u64 descriptor(const void* p, int lead, int stride, int swizzle) {
    return (u64)((at(p) & 0x3ffff) >> 4) | (u64)(lead >> 4) << 16
        | (u64)(stride >> 4) << 32 | (u64)swizzle << 62; }
"""
"""Device functions; `SOURCE = DEVICE + kernel` keeps a kernel's first line after this many lines."""


def wgmma(
    n: int, kind: str = "bf16", k: int = 16, results: str = "f32", immediates: str = "1, 1, 0, 0"
) -> str:
    """A device function `multiply(d, a, b, scale)` on two descriptors."""
    count = n // (2 if results != "f16" else 4)
    letter, ctype = ("f", "float") if results == "f32" else ("r", "unsigned")
    registers = ", ".join(f"%{number}" for number in range(count))
    operands = ", ".join(f'"+{letter}"(d[{number}])' for number in range(count))
    return (
        f"DEVICE void multiply({ctype} (&d)[{count}], u64 a, u64 b, int scale) {{\n"
        f'    asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{count + 2}, 0;\\n"\n'
        f'        "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{results}.{kind}.{kind} {{{registers}}}, "\n'
        f'        "%{count}, %{count + 1}, p{", " if immediates else ""}{immediates};\\n}}"\n'
        f'        : {operands} : "l"(a), "l"(b), "r"(scale)); }}\n'
    )


def bf16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bits of float32 values as bf16, cut off: exact for values that bf16 holds."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def line_of(source: str, text: str, number: int = 0) -> int:
    """The line of a text's n-th occurrence in a kernel's source, counted from 1 as messages do."""
    lines = re.sub(r"^\n+", "", source).split("\n")
    return [at for at, line in enumerate(lines, start=1) if text in line][number]
