"""Compiling: messages at the lesson's own line, the cache, and machines without a compiler."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.simulator.kernels import ORIGIN, VEC_ADD, simulate
from tilewise.errors import LessonError
from tilewise.simulator import CompileError, compile_kernel
from tilewise.simulator.compile import compiler
from tilewise.simulator.engine import machine
from tilewise.simulator.frontend import watching

RUN = """
import json, sys, numpy as np
from tilewise.errors import LessonError
from tilewise.simulator import ToolchainError, compile_kernel, launch
source = sys.stdin.read()
a = np.arange(64, dtype=np.float32); c = np.zeros(64, np.float32)
try:
    entry = compile_kernel(source).kernels["vec_add"]
    launch(entry, [a, a, c, np.int32(64)], grid=(2, 1, 1), block=(32, 1, 1))
except (LessonError, ToolchainError) as error:
    print(json.dumps({"error": str(error)}))
else:
    print(json.dumps({"c": c.tolist()}))
"""
HIDDEN = "import sys; sys.modules['ziglang'] = None\n"


def _fresh_process(cache: Path, source: str = VEC_ADD, before: str = "") -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", before + RUN],
        input=source,
        capture_output=True,
        text=True,
        env={**os.environ, "TILEWISE_CACHE": str(cache)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


def test_an_error_of_the_compiler_names_the_lessons_line():
    source = '#define N 4\n#line 1\nextern "C" __global__ void k(float* y) {\n    y[0] = missing;\n}\n'
    with pytest.raises(CompileError) as caught:
        compile_kernel(source, origin=ORIGIN)
    assert (caught.value.path, caught.value.line) == (ORIGIN[0], ORIGIN[1] + 1)
    assert "undeclared identifier 'missing'" in str(caught.value)
    assert "y[0] = missing;" in str(caught.value) and "\n" not in str(caught.value)


def test_a_kernel_without_the_header_of_its_types_is_told_of_it():
    source = 'extern "C" __global__ void k(const __grid_constant__ TensorMap map) { __shared__ u64 full; }'
    with pytest.raises(CompileError, match=r'Begin the source with #include "hopper\.cuh"\.'):
        compile_kernel(source)


def _ptx(cache: Path) -> str:
    source = """#include <cuda_fp16.h>
        extern "C" __global__ void waves(float* a, __half* b, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) a[i] = sinf(a[i]) + __shfl_xor_sync(~0u, __half2float(b[i]), 1);
            if (i == 0) printf("%d\\n", n);
        }"""
    shutil.rmtree(cache / "ptx", ignore_errors=True)
    text = compiler.ptx_text(source, ("-ffp-contract=off",), None, "clang")
    return re.sub(r'"[^"]*kernel\.cu"', "", text)


def test_headers_that_were_compiled_before_make_the_same_ptx(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWISE_CACHE", str(tmp_path))
    compiled = _ptx(tmp_path)
    (headers,) = (tmp_path / "headers").iterdir()
    headers.write_bytes(b"damaged")
    assert _ptx(tmp_path) == compiled
    monkeypatch.setattr(compiler, "_precompiled", lambda *_: None)
    assert _ptx(tmp_path) == compiled


def test_several_kernels_of_one_source_share_a_module():
    source = VEC_ADD + VEC_ADD.replace("vec_add", "vec_sub").replace("a[i] + b[i]", "a[i] - b[i]")
    module = compile_kernel(source)
    assert set(module.kernels) == {"vec_add", "vec_sub"}
    assert module.kernels["vec_sub"].parameter_names == ("a", "b", "c", "n")
    assert compile_kernel(source) is module


def test_watch_comments_become_calls_with_the_same_lines():
    text, names = watching("int a = 1;  // watch: a\nint b = a;\nb += a;  // watch: b, a\n")
    assert names == ("a", "b")
    assert text == (
        "int a = 1;   tw_watch<0>(a); // watch: a\nint b = a;\n"
        "b += a;   tw_watch<1>(b); tw_watch<0>(a); // watch: b, a\n"
    )


machine_is_built = pytest.mark.sweep("src/tilewise/simulator", packages=["ziglang"])
"""Marks what has the machine compiled anew, which takes 20 s."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which three processes that started together have built the machine."""
    folder = tmp_path_factory.mktemp("built")
    command = [
        sys.executable,
        "-c",
        "from tilewise.simulator.engine.machine import prepare; print(prepare())",
    ]
    env = {**os.environ, "TILEWISE_CACHE": str(folder)}
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) for _ in range(3)]
    assert len({process.communicate()[0] for process in processes}) == 1
    assert [process.returncode for process in processes] == [0, 0, 0]
    return folder


@machine_is_built
def test_a_carried_cache_works_without_the_compiler(built, tmp_path):
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    made = _fresh_process(tmp_path)
    assert made == {"c": [2.0 * i for i in range(64)]}
    assert _fresh_process(tmp_path, before=HIDDEN) == made
    other = _fresh_process(tmp_path, VEC_ADD.replace("+ b", "- b"), HIDDEN)
    assert 'pip install "tilewise[simulator]"' in str(other["error"])
    assert "not in the cache" in str(other["error"])


@machine_is_built
def test_processes_that_start_together_build_once(built):
    assert len(list(built.glob("machine-*.so"))) == 1
    assert not list(built.glob("tmp*"))


@machine_is_built
def test_a_machine_that_does_not_load_is_built_anew(built, tmp_path, monkeypatch):
    good = next(built.glob("machine-*.so"))
    damaged = tmp_path / "machine.so"
    damaged.write_bytes(good.read_bytes()[:300])

    def prepare() -> Path:
        if not damaged.exists():
            shutil.copy(good, damaged)
        return damaged

    monkeypatch.setattr(machine, "prepare", prepare)
    monkeypatch.setattr(machine, "_compiled", prepare)
    assert machine._loaded().tw_run
    monkeypatch.setattr(machine, "prepare", lambda: tmp_path / "nothing.so")
    monkeypatch.setattr(machine, "_compiled", lambda: tmp_path / "nothing.so")
    with pytest.raises(machine.MachineError, match="does not load"):
        machine._loaded()


@pytest.mark.parametrize(
    "body",
    ["for (int k = 0; k < 4; ++n) {}", "int i = 3 % i;\n    out[i] = n;"],
    ids=["an endless loop that does nothing", "a variable used before it has a value"],
)
def test_a_kernel_of_which_the_compiler_leaves_nothing_says_why(body):
    source = f'\nextern "C" __global__ void gone(int* out, int n) {{\n    {body}\n}}\n'
    with pytest.raises(LessonError, match="the compiler left nothing of the kernel") as caught:
        simulate(source, np.zeros(4, np.int32), np.int32(4))
    assert (caught.value.path, caught.value.line) == (ORIGIN[0], ORIGIN[1] + 1)
    assert "look for a loop that cannot end" in str(caught.value)
    assert "a variable that is used before it has a value" in str(caught.value)
