"""`Kernel`: definition, regions, origin, cases, and a launch without a GPU."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tilewise.cuda.cases import case, normal, output
from tilewise.cuda.kernel_source import KernelError
from tilewise.kernel import backend as module
from tilewise.kernel.backend import backend
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launch import Launch

SCALE = Kernel(
    r"""

extern "C" __global__ void scale(const float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // [work
    if (i < n) y[i] = x[i] * by * T;
    // work]
}
""",
    defines={"T": 2},
    options=("-std=c++17",),
)
TWO = r"""
extern "C" __global__ void one(float* y) { y[0] = 1; }
extern "C" __global__ void two(float* y, int n) { y[0] = n; }
"""


def test_a_kernel_knows_what_it_is():
    assert (SCALE.name, dict(SCALE.defines), SCALE.options) == ("scale", {"T": 2}, ("-std=c++17",))
    assert [
        (one.name, one.ctype, one.is_pointer, one.is_const, str(one.dtype)) for one in SCALE.parameters
    ] == [
        ("x", "const float*", True, True, "float32"),
        ("y", "float*", True, False, "float32"),
        ("n", "int", False, False, "int32"),
        ("by", "float", False, False, "float32"),
    ]
    assert SCALE.source.startswith('extern "C" __global__ void scale(')
    assert SCALE.preprocessed == "#define T 2\n#line 1\n" + SCALE.source
    assert Kernel(TWO, "one").preprocessed == TWO.lstrip("\n")
    assert repr(SCALE) == f"Kernel(scale, {__file__}:{SCALE.origin[1]})"


def test_the_origin_is_the_line_where_the_source_begins():
    lines = Path(__file__).read_text().split("\n")
    assert SCALE.origin[0] == __file__
    assert lines[SCALE.origin[1] - 1].startswith('extern "C" __global__ void scale(')
    path, line = Kernel(TWO, "one").origin
    assert (path, lines[line - 1]) == (__file__, 'extern "C" __global__ void one(float* y) { y[0] = 1; }')


def test_the_origin_is_right_in_a_cell_that_a_runner_executes(tmp_path):
    text = (
        "# %% [markdown]\n# Some prose.\n\n# %%\nfrom tilewise import Kernel\n\n\ndef made():\n"
        '    return Kernel(r"""\nextern "C" __global__ void f(int* x) {\n    x[0] = 1;\n}\n""")\n'
        "\n\nK = made()\n"
    )
    lesson = tmp_path / "lesson.py"
    lesson.write_text(text)
    cell = "\n".join(text.split("\n")[4:])
    tree = ast.increment_lineno(ast.parse(cell), 4)
    namespace = {"__name__": "__main__"}
    exec(compile(tree, str(lesson), "exec"), namespace)
    assert namespace["K"].origin == (str(lesson), 10)


@pytest.mark.parametrize(
    ("source", "name", "options", "message"),
    [
        ("", None, (), 'the source has no kernel. Write: __global__ void name(...) { ... }'),
        (TWO, None, (), "the source has several kernels: one, two. Say which: Kernel(..., name=...)."),
        (TWO, "three", (), 'the source has no kernel "three"; it has one, two. Correct the name.'),
        (TWO, "one", "-fmad=false", "options is the text '-fmad=false'. Give a tuple of texts: "
         'options=("-fmad=false",).'),
        (TWO, "one", ("-O3",), "option '-O3' is not one that both backends know. These are: -std=c++17, "
         "-fmad=false, --use_fast_math, --maxrregcount=64, -arch=sm_90a, --carveout=50."),
        (TWO, "one", ("-arch=sm_90",), "option '-arch=sm_90' is not one that both backends know. These are: "
         "-std=c++17, -fmad=false, --use_fast_math, --maxrregcount=64, -arch=sm_90a, --carveout=50."),
        (TWO, "one", ("-fmad=true", "-fmad=false"), "option -fmad is given twice. Keep one."),
    ],
)  # fmt: skip
def test_a_kernel_that_cannot_be_made_says_why(source, name, options, message):
    with pytest.raises(KernelError) as caught:
        Kernel(source, name, options=options)
    assert str(caught.value) == message


def test_a_region_has_its_true_lines():
    region = SCALE.region("work")
    assert (region.name, region.region, region.first_line) == ("scale", "work", 4)
    assert region.source == "    if (i < n) y[i] = x[i] * by * T;\n"
    with pytest.raises(
        KernelError, match=r'^kernel "scale" has no region "play"; it has work\. Correct the name\.$'
    ):
        SCALE.region("play")


def test_a_fingerprint_ignores_comments_and_keeps_defines_and_options():
    base = Kernel(TWO, "one", defines={"A": 1, "B": 2})
    same = Kernel("// new\n" + TWO.replace("= 1", "=  1"), "one", defines={"B": 2, "A": 1})
    assert base.fingerprint() == same.fingerprint()
    others = [
        Kernel(TWO, "one", defines={"A": 1, "B": 3}),
        Kernel(TWO, "one", defines={"A": 1, "B": 2}, options=("-fmad=false",)),
        Kernel(TWO.replace("= 1", "= 2"), "one", defines={"A": 1, "B": 2}),
    ]
    assert len({base.fingerprint(), *(one.fingerprint() for one in others)}) == 4


def test_a_launch_takes_its_arguments_from_the_case_by_name():
    given = case(unused=3, by=0.5, n=5, y=output(5), x=normal(5), grid=1, block=32)
    launch = SCALE.on(given)
    assert isinstance(launch, Launch)
    values = given.make()
    assert [
        value is values[name]
        for value, name in zip(launch.arguments(values), ["x", "y", "n", "by"], strict=True)
    ]
    assert (launch.grid, launch.block, launch.shared_bytes, launch.threads) == (
        (1, 1, 1),
        (32, 1, 1),
        0,
        (32, 1, 1),
    )
    assert SCALE.on(given, grid=(2, 3), block=4, shared_bytes=64).grid == (2, 3, 1)
    assert str(launch) == (
        "scale, grid (1, 1, 1), block (32, 1, 1): case(x: 5 float32, y: 5 float32, n=5, by=0.5)"
    )


def test_a_case_that_lacks_a_parameter_or_a_grid_is_refused():
    with pytest.raises(KernelError) as caught:
        SCALE.on(case(x=normal(5), n=5, grid=1, block=32))
    assert str(caught.value) == (
        'kernel "scale": the case has no y, by; it has x, n. '
        "Name the case's values like the kernel's parameters."
    )
    with pytest.raises(KernelError, match=r'^kernel "scale": no grid was given'):
        SCALE.on(case(x=normal(5), y=output(5), n=5, by=1.0))


def test_the_environment_decides_where_kernels_run(monkeypatch, capsys):
    def forget():
        module.backend.cache_clear()

    module.chosen.cache_clear()
    forget()
    monkeypatch.setenv("TILEWISE_BACKEND", "simulator")
    assert (backend(), backend()) == ("simulator", "simulator")
    assert capsys.readouterr().err == "tilewise: kernels run on the simulator, as TILEWISE_BACKEND says.\n"
    forget()
    monkeypatch.setenv("TILEWISE_BACKEND", "cpu")
    with pytest.raises(KernelError, match=r'^TILEWISE_BACKEND is "cpu"\. Set it to gpu or simulator'):
        backend()
    monkeypatch.setattr(module.device, "gpu_fault", lambda: "CuPy finds no GPU.")
    monkeypatch.setenv("TILEWISE_BACKEND", "gpu")
    with pytest.raises(KernelError, match=r"^TILEWISE_BACKEND asks for a GPU\. CuPy finds no GPU\."):
        backend()
    monkeypatch.delenv("TILEWISE_BACKEND")
    assert (backend(), backend()) == ("simulator", "simulator")
    assert capsys.readouterr().err == "tilewise: kernels run on the simulator. CuPy finds no GPU.\n"
    module.chosen.cache_clear()
    forget()


def test_making_a_kernel_imports_neither_cupy_nor_the_simulator():
    code = (
        "import sys\nfrom tilewise import Kernel, case\n"
        "Kernel('extern \"C\" __global__ void f(int n) {}').on(case(n=1, grid=1, block=1))\n"
        "print(sorted({'cupy', 'tilewise.simulator', 'tilewise.outputs', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
