"""NVIDIA's compiler takes every kernel that functions launch, with the settings that they choose."""

import pytest

from tests.calls.test_attentions import problem
from tilewise.cuda.options import architecture
from tilewise.kernel import nvrtc
from tilewise.kernel.nvrtc import compile_kernel
from tilewise.kernels.calls.arrays import C_TYPES
from tilewise.kernels.calls.attentions import choose as choose_attention
from tilewise.kernels.calls.launching import GENERAL, general, published
from tilewise.kernels.calls.matmul_choices import FP32_TILES, MMA_TILES, WGMMA_TILES
from tilewise.kernels.calls.matmul_choices import choose as choose_matmul
from tilewise.kernels.calls.softmaxes import choose as choose_softmax

pytestmark = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))

SETTINGS = {
    "attention": [{"Number": number, "D": 256, "CAUSAL": 1} for number in C_TYPES.values()],
    "attention_split_hopper": [
        {"D": d, "CAUSAL": causal, "SPLIT": 2 + 2 * causal} for d in (64, 128) for causal in (0, 1)
    ],
    "backward_hopper": [{}],
    "backward_narrow": [{"D": 64, "WIDE": 64}, {"D": 96, "WIDE": 128}],
    "decode": [{"Number": number, "D": 256} for number in C_TYPES.values()],
    "decode_mma": [
        {"Number": C_TYPES[kind], "HALF": int(kind == "float16"), "D": 128, "CLUSTER": 1, "DIRECT": at}
        for at, kind in enumerate(("bfloat16", "float16"))
    ],
    "fill": [{"Number": word} for word in ("unsigned char", "unsigned long long")],
    "matmul": [
        {"Number": number, "ACTIVATION": at, "A_BY_ROWS": at % 2, "B_BY_ROWS": at // 2}
        for at, number in enumerate(C_TYPES.values(), start=1)
    ],
    "matmul_fp32": [
        {**FP32_TILES[-1].settings, "SPLIT": 1, "WIDE": at, "B_WIDTH": 1 + 3 * at, "ACTIVATION": 2}
        for at in range(2)
    ],
    "matmul_hopper": [
        {**one.settings, "SPLIT": 1, "CLUSTER": one.settings["CLUSTER_M"] * one.settings["CLUSTER_N"]}
        | {"A_COLUMNS": 1, "B_ROWS": 0, "ACTIVATION": 2, "WIDE": 1}
        | {"Number": C_TYPES[kind], "HALF": int(kind == "float16")}
        for one in WGMMA_TILES
        for kind in ("bfloat16", "float16")
    ],
    "matmul_mma": [
        {**one.settings, "SPLIT": 1, "Number": C_TYPES[kind], "HALF": int(kind == "float16"), "ACTIVATION": 2}
        | {"A_BY_ROWS": 1, "B_BY_ROWS": at, "A_LOAD": 16, "B_LOAD": (2, 16)[at], "WIDE": (1, 8)[at]}
        for one in MMA_TILES
        for at, kind in enumerate(("bfloat16", "float16"))
    ],
    "pad": [{"Number": word} for word in ("unsigned short", "unsigned int")],
    "pack": [
        *({"From": one, "To": other, "SAME": 0} for one in C_TYPES.values() for other in C_TYPES.values()),
        {"From": "unsigned long long", "To": "unsigned long long", "SAME": 1},
    ],
    "softmax": [
        {"Number": number, "TEAM": 1024, "THREADS": 1024, "SHARE": 24, "BLOCKS": 1}
        for number in C_TYPES.values()
    ],
    "sum": [{"Number": number, "CLUSTER": 1} for number in C_TYPES.values()],
    "transpose": [{"Number": word} for word in ("unsigned char", "unsigned long long")],
}
TARGETS = {
    "matmul_hopper": ["sm_90a"],
    "attention_split_hopper": ["sm_90a"],
    "backward_hopper": ["sm_90a"],
    "matmul_fp32": ["sm_80", "sm_90"],
    "decode_mma": ["sm_80", "sm_90"],
    "matmul_mma": ["sm_80", "sm_90"],
}
ENTRIES = {
    **{"attention": "attention_forward", "matmul": "matmul", "decode": "decode_split"},
    **{
        "attention_split_hopper": "attention_split",
        "softmax": "softmax_rows",
        "sum": "sum_blocks",
        "pad": "pad_two",
        "backward_narrow": "prepare_narrow",
    },
}


def test_every_general_kernel_is_compiled_here():
    assert set(SETTINGS) == {path.stem for path in GENERAL.glob("*.cu")}


def of_kernel(name):
    """A kernel as a case: it compiles anew when its text or its settings have changed."""
    return pytest.param(name, marks=pytest.mark.sweep(f"src/tilewise/kernels/general/{name}.cu"))


@pytest.mark.sweep(
    "src/tilewise/cuda/include",
    "src/tilewise/kernel/nvrtc.py",
    *(f"src/tilewise/kernels/calls/{name}.py" for name in ("arrays", "launching", "matmuls")),
    packages=["nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt"],
)
@pytest.mark.parametrize("name", [of_kernel(name) for name in SETTINGS])
def test_general_kernels_compile_and_spill_an_address_at_most(name):
    for settings in SETTINGS[name]:
        kernel = general(name, ENTRIES.get(name), **settings)
        for one in compile_kernel(kernel, TARGETS.get(name, ["sm_75", "sm_90"])):
            assert one.spill_store_bytes <= 16, (settings, one)


@pytest.mark.parametrize("columns", [7, 1000, 32_768])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
def test_the_settings_of_softmax_spill_nothing(columns, kind):
    choice = choose_softmax(columns, kind, arch=90)
    entry = "softmax_rows" if choice.lesson is None else None
    (found,) = compile_kernel(choice.load(entry), ["sm_90"])
    assert not found.spills


@pytest.mark.parametrize(
    "choice",
    [
        choose_softmax(100_000, "float32", arch=90),
        choose_softmax(65_536, "bfloat16", arch=90),
        choose_matmul(4096, 4096, 4096, "float32", arch=90),
        choose_matmul(4096, 4096, 4096, "bfloat16", arch=90),
        choose_attention(problem(causal=True), 90),
        choose_attention(problem(d=64), 90),
        choose_attention(problem(kind="float32"), 90),
    ],
    ids=lambda choice: choice.kernel,
)
def test_the_settings_of_lessons_kernels_spill_nothing(choice):
    (found,) = compile_kernel(published(choice.kernel, **choice.settings), [nvrtc_target(choice)])
    assert not found.spills


def nvrtc_target(choice):
    """The architecture that a kernel names, else Hopper's."""
    return architecture(choice.load().options) or "sm_90"
