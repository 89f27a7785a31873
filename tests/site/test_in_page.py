"""Compiling in the page: with the committed backend, in Node, programs are those of the installed clang."""

import gzip
import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sweeps import SIMULATOR
from tilewise.kernel.saved_launches import decode
from tilewise.simulator.browser.program import program_data
from tilewise.site.frontend import find_node, packages
from tilewise.site.in_page import answering
from tilewise.site.in_page.files import BACKEND, PACKAGES, with_quick_output
from tilewise.site.play import examples
from tilewise.site.play.child import answer
from validation.collection import COURSE, files, launches

ROOT = Path(__file__).parents[2]
HASH = "eb1fdbc5d1a6558ff55da42a7975b297d9e457c8aebf1f0437d52d51882eb419"
"""SHA-256 of ``nvptx.wasm``, which ``nvptx/build.py`` made from LLVM 22.1.8."""
EXAMPLES = sorted(Path(examples.__file__).with_name("examples").glob("*.cu"))
WHOLE = """\
#include <cuda_fp16.h>
#include <cstdio>
#include <vector>

typedef unsigned char byte;
namespace shapes {
template <int N, typename T>
__global__ void scale(const T* x, T* y, byte* marks, uint32_t n) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * T(N), marks[i] = 1;
}
__global__ void __launch_bounds__(128) halves(const half2* x, half2* y, size_t n) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hadd2(x[i], x[i]);
    if (i == 3) printf("three %f\\n", expf(1.0f));
}
}
int main() {
    std::vector<float> x(32);
    shapes::scale<3, float><<<1, 32>>>(nullptr, nullptr, nullptr, 32);
}
"""
WRONG = "__global__ void f(int* x) {\n    x[0] = y;\n    x[1] = z;\n}\n"
LESSONS = [file.relative_to(ROOT).as_posix() for file in files(COURSE)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[answering.Clang]:
    """The page's clang, in Node."""
    package = packages(PACKAGES, ROOT) / "node_modules/@yowasp/clang/gen"
    clang = tmp_path_factory.mktemp("clang") / "clang.mjs"
    clang.write_text(with_quick_output((package / "bundle.js").read_text(encoding="utf-8")))
    for file in package.glob("*"):
        (clang.parent / file.name).symlink_to(file)
    parts = (clang, ROOT / BACKEND, ROOT / "src/tilewise/site/web/play/clang.js")
    command = [find_node(), Path(__file__).with_name("in_page.mjs"), *(part.as_uri() for part in parts)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(line: str) -> None:
        print(line, file=process.stdin, flush=True)

    def run(options: str, source: str) -> Any:
        ask(json.dumps([json.loads(options), source]))
        return json.loads(process.stdout.readline())

    ask(answering.headers())
    yield run
    process.stdin.close()
    process.stdout.close()
    process.wait(timeout=60)


@pytest.fixture
def in_page(
    node: answering.Clang, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], Any]], Any]:
    """Gives what something gives where it compiles as the page does."""

    def made(something: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(subprocess, "run", subprocess.run)
            for name in ("TILEWISE_ZIG", "TILEWISE_CACHE"):
                patched.setenv(name, os.environ.get(name, ""))
            answering.begin(node, str(tmp_path))
            return something()

    return made


def test_the_backend_is_the_one_that_was_compared():
    assert hashlib.sha256(gzip.decompress((ROOT / BACKEND).read_bytes())).hexdigest() == HASH


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_the_same(example, in_page):
    given = {"text": example.read_text(encoding="utf-8")}
    here = in_page(lambda: answer(given))
    assert here["offer"]
    assert here == answer(given)


def test_a_whole_file_is_the_same(in_page):
    for kernel in ("shapes::scale<3, float>", "shapes::halves"):
        given = {"text": WHOLE, "kernel": kernel}
        here = in_page(lambda given=given: answer(given))
        assert here["offer"]
        assert here == answer(given)


def test_faults_are_the_same(in_page):
    here = in_page(lambda: answer({"text": WRONG}))
    assert [fault["line"] for fault in here["faults"]] == [2, 3]
    assert here == answer({"text": WRONG})


@pytest.mark.sweep(
    *SIMULATOR,
    "nvptx/nvptx.wasm.gz",
    "src/tilewise/site/in_page",
    "src/tilewise/site/web/play/clang.js",
    "src/tilewise/site/web/play/nvptx.js",
    packages=["ziglang"],
)
@pytest.mark.parametrize("lesson", [pytest.param(one, marks=pytest.mark.sweep(one)) for one in LESSONS])
def test_a_lessons_kernels_are_the_same_programs(lesson, in_page, record_property):
    [(_, path, kept)] = launches(COURSE, [ROOT / lesson])

    def programs() -> list[Any]:
        return [program_data(decode(one, path).kernel.entry) for one in kept]

    record_property("tally", f"{len(kept)}/{len(kept)}")
    assert in_page(programs) == programs()
