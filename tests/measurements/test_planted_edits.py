"""Edits of kernels that must leave a record current, and others that must not: by the key of the code.

The kernels are those of lessons, as they were when this was written: wgmma and TMA in a cluster, mma.sync,
shuffles, cache operators, halves, templates, lambdas, macros and conditions.
"""

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tilewise import Kernel, case, normal, output, tensor_map
from tilewise.cuda.cases import Case
from tilewise.cuda.tensor_map import TensorMap
from tilewise.kernel import machine_code
from tilewise.measurements.kernel_code import code_hash
from tilewise.measurements.key import digest, launches_code
from tilewise.simulator import CompileError

TEXTS = Path(__file__).with_name("planted")
WORD = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"|\b[A-Za-z_]\w*\b')
"""A comment, a string or a name."""
HOPPER = ("-std=c++17", "-arch=sm_90a")


def bf16(*shape: int, out: bool = False) -> Any:
    return output(*shape, dtype="bfloat16") if out else normal(*shape, dtype="bfloat16")


def box_of(name: str, **changes: Any) -> TensorMap:
    return tensor_map(**{"array": name, "box": (64, 64), "swizzle": 128, "dtype": "bfloat16", **changes})


@dataclass(frozen=True)
class Planted:
    """A kernel of a lesson with a launch of it."""

    case: Case
    defines: dict[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()


PLANTED = {
    "gemm": Planted(
        case(
            **{"A": bf16(256, 64), "B": bf16(64, 256), "C": bf16(256, 256, out=True)},
            **{f"{name.lower()}_map": box_of(name) for name in "ABC"},
            **{"order": normal(2), "tiles": 1, "K": 64, "grid": 2, "block": 384, "shared_bytes": 230400},
        ),
        {"CLUSTER": 2, "STAGES": 4},
        HOPPER,
    ),
    "ring": Planted(
        case(
            **{"A": bf16(128, 64), "B": bf16(64, 128), "C": bf16(128, 128, out=True)},
            **{"M": 128, "N": 128, "K": 64, "grid": 1, "block": 128, "shared_bytes": 98304},
        ),
        {"STAGES": 3},
    ),
    "sum_by_shuffles": Planted(case(x=normal(1000), sums=output(4), n=1000, grid=4, block=256)),
    "staged": Planted(
        case(
            **{"A": normal(128, 64), "B": normal(64, 128), "C": output(128, 128)},
            **{"M": 128, "N": 128, "K": 64, "grid": 1, "block": 256, "shared_bytes": 65536},
        )
    ),
    "add_four_streaming": Planted(
        case(a=normal(999), b=normal(999), c=output(999), n=999, grid=2, block=128)
    ),
    "softmax_on_chip": Planted(
        case(X=normal(9, 30), Y=output(9, 30), rows=9, cols=30, grid=2, block=64),
        {"Number": "float", "TEAM": 8, "THREADS": 64, "SHARE": 8},
        ("-std=c++17",),
    ),
    "multiply_tiled": Planted(
        case(
            **{"A": normal(40, 50), "B": normal(50, 60), "C": output(40, 60), "M": 40, "N": 60, "K": 50},
            **{"grid": (2, 2), "block": (32, 32)},
        ),
        {"T": 32},
    ),
    "relu_eight": Planted(
        case(x=normal(999, dtype="float16"), y=output(999, dtype="float16"), n=999, grid=1, block=128)
    ),
}


@dataclass(frozen=True)
class Edit:
    """What is done to a kernel, its options or its launch."""

    kernel: str
    title: str
    text: tuple[str, ...] = ()
    """Old, new, old, new."""
    names: str = ""
    """Old and new names, a pair for each comma: outside of strings, and in the case and the defines."""
    first: str = ""
    """Text that goes before all."""
    change: dict[str, Any] = field(default_factory=dict)
    """Values of the case; ``defines`` and ``options`` are the kernel's, and ``name`` which of several."""

    def __str__(self) -> str:
        return f"{self.kernel}: {self.title}"


def edited(edit: Edit) -> tuple[Kernel, Case]:
    """The kernel and the case after an edit."""
    planted = PLANTED[edit.kernel]
    text = (TEXTS / f"{edit.kernel}.cu").read_text(encoding="utf-8")
    for old, new in zip(edit.text[::2], edit.text[1::2], strict=True):
        assert old in text, f"{edit}: the kernel has no {old!r}"
        text = text.replace(old, new)
    names = dict(pair.split() for pair in edit.names.split(",") if pair)
    words = {found[0] for found in WORD.finditer(text)}
    assert names.keys() <= words, f"{edit}: the kernel has no {names.keys() - words}"
    assert not words & set(names.values()), f"{edit}: the kernel has {words & set(names.values())} already"
    text = WORD.sub(lambda found: names.get(found[0], found[0]), edit.first + text)
    change = dict(edit.change)
    defines = change.pop("defines", {names.get(name, name): one for name, one in planted.defines.items()})
    options = change.pop("options", planted.options)
    kernel = Kernel(text, change.pop("name", None), defines, options)
    shape = {name: getattr(planted.case, name) for name in ("grid", "block", "shared_bytes")}
    values = {names.get(name, name): value for name, value in planted.case.values.items()}
    return kernel, case(**{**shape, **values, **change})


@cache
def key_of(kernel: str) -> str:
    return code_of(Edit(kernel, "nothing"))


def code_of(edit: Edit) -> str:
    kernel, inputs = edited(edit)
    return digest(launches_code([kernel.on(inputs)]))


FETCH_MAP = """static __device__ void fetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}
"""
STRUCT = "struct __align__(128) TensorMap { unsigned long long opaque[16]; };\n"

SAME = [
    Edit(
        "gemm",
        "comments and layout",
        ("// New: tile after tile", "", "    float d[128];", "float  d [128] ;"),
    ),
    Edit(
        "gemm", "helpers renamed", names="at smem_addr,init mbarrier_init,wait mbarrier_wait,load tma_load_2d"
    ),
    Edit(
        "gemm",
        "labels and registers of assembly renamed",
        (
            "again",
            "retry",
            ".pred done",
            ".pred ready",
            "b64 done,",
            "b64 ready,",
            "@!done",
            "@!ready",
            ".pred p;",
            ".pred scale;",
            "setp.ne.b32 p,",
            "setp.ne.b32 scale,",
            "%129, p,",
            "%129, scale,",
            ".b32 there",
            ".b32 remote",
            "u32 there",
            "u32 remote",
            "[there]",
            "[remote]",
        ),
    ),
    Edit("gemm", "types renamed", names="TensorMap Descriptor,u64 Barrier,Bf16 Element"),
    Edit("gemm", "a helper moved to the front", (FETCH_MAP, "", STRUCT, STRUCT + FETCH_MAP)),
    Edit("gemm", "a macro made a constant", ("#define A_BYTES 16384\n", "constexpr int A_BYTES = 16384;\n")),
    Edit(
        "gemm",
        "a helper that nobody calls",
        first="static __device__ float half_of(float x) { return x / 2; }\n",
    ),
    Edit("gemm", "the kernel renamed", names="gemm gemm_bf16"),
    Edit("gemm", "a define renamed", names="CLUSTER CLUSTER_SIZE,STAGES DEPTH"),
    Edit("ring", "a function template renamed", names="bring load_tile,slab tile,there inside"),
    Edit("ring", "a lambda and its parameter renamed", names="begin start_stage,stage buffer"),
    Edit("ring", "a define written into the text", first="#define STAGES 3\n", change={"defines": {}}),
    Edit(
        "sum_by_shuffles", "a helper that is not static renamed", names="warp_sum warp_reduce_sum,hop offset"
    ),
    Edit(
        "sum_by_shuffles",
        "another kernel of the same source",
        first=('extern "C" __global__ void clear(float* x) { x[threadIdx.x] = warpSize; }\n'),
        change={"name": "sum_by_shuffles"},
    ),
    Edit(
        "staged",
        "a struct and its members renamed",
        names="Source Loader,q column_of_a,to_a smem_a,to_b smem_b",
    ),
    Edit("multiply_tiled", "tiles renamed", names="a tile_a,b tile_b,s acc"),
]
OTHER = [
    Edit("gemm", "no cluster", ("__cluster_dims__(CLUSTER, 1, 1)", "__cluster_dims__(1, 1, 1)")),
    Edit("gemm", "another launch bound", ("__launch_bounds__(384, 1)", "__launch_bounds__(384, 2)")),
    Edit(
        "gemm",
        "a loop not unrolled",
        ("                #pragma unroll\n                for (int m", "for (int m"),
    ),
    Edit("gemm", "another swizzle", change={"a_map": box_of("A", box=(64, 32), swizzle=64)}),
    Edit("gemm", "a map of another array", change={"b_map": box_of("A")}),
    Edit("gemm", "no clobber", ('"wgmma.fence.sync.aligned;" ::: "memory"', '"wgmma.fence.sync.aligned;"')),
    Edit("gemm", "another alignment", ("__align__(1024)", "__align__(128)")),
    Edit(
        "gemm",
        "a parameter no longer constant",
        ("const __grid_constant__ TensorMap c_map", "const TensorMap c_map"),
    ),
    Edit(
        "ring",
        "a signed index made unsigned",
        ("    int lane = threadIdx.x % 32, warp", "    unsigned lane = threadIdx.x % 32, warp"),
    ),
    Edit("ring", "inputs of another seed", change={"A": normal(128, 64, dtype="bfloat16", seed=3)}),
    Edit("sum_by_shuffles", "another shuffle", ("__shfl_down_sync", "__shfl_xor_sync")),
    Edit(
        "sum_by_shuffles",
        "a helper inlined by force",
        ("__device__ float warp_sum", "__device__ __forceinline__ float warp_sum"),
    ),
    Edit("sum_by_shuffles", "restrict", ("const float* x", "const float* __restrict__ x")),
    Edit("sum_by_shuffles", "volatile", ("float* sums", "volatile float* sums")),
    Edit("sum_by_shuffles", "a larger grid", change={"grid": 5}),
    Edit("staged", "another order of sums", change={"defines": {"SNAKE": 1}}),
    Edit("add_four_streaming", "another hint for loads", ("__ldcs", "__ldcg")),
    Edit("add_four_streaming", "one input twice", ("b + i", "a + i", "b[i]", "a[i]")),
    Edit("softmax_on_chip", "fast mathematics", change={"options": ("-std=c++17", "--use_fast_math")}),
    Edit("multiply_tiled", "a padded tile", ("b[T][T];", "b[T][T + 1];")),
    Edit(
        "relu_eight",
        "scalars instead of pairs",
        (
            "__hmax2(pairs[j], __half2half2(zero))",
            "__halves2half2(__hmax(pairs[j].x, zero), __hmax(pairs[j].y, zero))",
        ),
    ),
]


@pytest.mark.parametrize("edit", SAME, ids=str)
def test_an_edit_that_changes_no_code_leaves_the_key(edit):
    assert code_of(edit) == key_of(edit.kernel)


@pytest.mark.parametrize("edit", OTHER, ids=str)
def test_an_edit_that_changes_code_options_or_launch_changes_the_key(edit):
    assert code_of(edit) != key_of(edit.kernel)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("#if __CUDA_ARCH__ >= 900\n{}\n#endif", "has __CUDA_ARCH__, which compilers define each"),
        ("if (__CUDACC_VER_MAJOR__ > 12) {}", "has __CUDACC_VER_MAJOR__, which compilers define each"),
        ("float* __restrict__ from = x; {}", "has __restrict__ of something else than a parameter"),
        ("#pragma nv_loop\n{}", "unknown pragma ignored"),
        ("[[nvcc::fast]] int i = 0; {}", "unknown attribute 'nvcc::fast' ignored"),
        ("wmma_load(x); {}", "use of undeclared identifier 'wmma_load'"),
    ],
)
def test_what_clang_would_not_pass_on_has_no_key_of_its_code(source, said):
    body = source.format("x[0] = 1.0f;")
    with pytest.raises(CompileError, match=re.escape(said)) as caught:
        code_hash(f'extern "C" __global__ void one(float* x) {{\n{body}\n}}\n', "one", (), ("lesson.py", 11))
    assert str(caught.value).startswith("lesson.py:12: ")


@pytest.mark.sweep(
    "src/tilewise/measurements/kernel_code.py",
    *("src/tilewise/simulator/compile/header", "tests/measurements/planted"),
    packages=["ziglang", "nvidia-cuda-nvrtc"],
)
@pytest.mark.skipif(machine_code.available() is not None, reason=machine_code.available() or "")
@pytest.mark.parametrize("kernel", PLANTED)
def test_of_what_has_one_key_nvrtc_makes_one_machine_code(kernel):
    def made(edit: Edit) -> Any:
        code = machine_code.machine_code(edited(edit)[0])
        return code.resources.registers, code.resources.shared_bytes, [str(one) for one in code.instructions]

    expected = made(Edit(kernel, "nothing"))
    assert [str(edit) for edit in SAME if edit.kernel == kernel and made(edit) != expected] == []
