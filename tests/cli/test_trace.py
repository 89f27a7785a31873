"""``tilewise trace`` on a file that knows nothing of lessons."""

import gzip
import json
import re
import shlex
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from tilewise.__main__ import main
from tilewise.cli.trace_arguments import value_of
from tilewise.errors import LessonError

SOURCE = """\
extern "C" __global__ void scale(const float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
"""

TEXTS = ("tilewise.css", "plotly.js", "stepped.js", "figures.js", "run_worker.js", "trace.js")
"""Styles and scripts that the page holds as they are."""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "scale.cu").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWISE_BACKEND", "simulator")
    return "scale.cu"


@pytest.fixture(autouse=True)
def built(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Styles and scripts as small texts: what they do is tested in a browser."""
    folder = tmp_path_factory.mktemp("assets")
    for name in (*TEXTS, "machine.wasm"):
        (folder / name).write_text(f"/* {name} */", encoding="utf-8")
    monkeypatch.setattr("tilewise.site.frontend.build_assets", lambda _: folder)


def arguments(n: object, x: str = "f32[100]") -> list[str]:
    pairs = (f"x={x}", "y=out f32[100]", f"n={n}", "by=0.5")
    return ["--grid", "4", "--block", "32", *(part for pair in pairs for part in ("--arg", pair))]


def test_a_hazard_is_named_with_its_line_and_fails(file, capsys):
    assert main(["trace", file, *arguments(101)]) == 1
    assert "out of bounds" in (said := capsys.readouterr().err)
    assert "3" in said


def test_a_hazard_in_a_header_is_named_with_the_header(file, capsys):
    Path("scale.cuh").write_text(f"\n\n{SOURCE}")
    Path(file).write_text('#include "scale.cuh"\n')
    assert main(["trace", file, *arguments(101)]) == 1
    assert "scale.cuh:5: out of bounds: " in (said := capsys.readouterr().err)
    assert ", in `if (i < n) y[i] = x[i] * by;`" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["none.cu", "--grid", "1", "--block", "1"], "none.cu: there is no such file."),
        (["scale.cu", *arguments(1), "--define", "2=1"], '"2=1" is not a macro. Write --define NAME=VALUE.'),
        (["scale.cu", *arguments(1, "none.npy")], "x: none.npy cannot be read"),
        (["scale.cu", *arguments(100), "--max-steps", "3"], "still running after 3 warp instructions"),
        (["scale.cu", "--grid", "1", "--block", "1"], "there is no x. Add --arg x=f32[1024]."),
        (["scale.cu", *arguments(1), "--arg", "z=1"], "scale has no parameter z. It takes x, y, n, by."),
        (["scale.cu", *arguments(1, "f7[1]")], 'x: there is no type "f7". Known: f16, f32'),
        (["scale.cu", *arguments("many")], 'n: "many" is neither a number nor an array.'),
        (["scale.cu", *arguments(1), "--grid", "wide"], '"wide" is no grid. Write --grid 4 or --grid 4,2,1.'),
        (["scale.cu", *arguments(1), "--arg", "x=f32[9]"], "x is given twice."),
        (["scale.cu", *arguments(1), "--arg", "x"], '"x" is not an argument. Write NAME=VALUE'),
        (["scale.cu", "--grid", "1", "--block", "1", "--arg", "yy=1"], "Did you mean y?"),
        (["scale.cu", *arguments(1), "--grid", "0"], "grid"),
        (["scale.cu", *arguments(1), "--block", "1025"], "1025"),
        (["scale.cu", *arguments(1), "--kernel", "other"], "other"),
        (["scale.cu", *arguments(1), "--out", "no/such/page.html"], "there is no such folder."),
    ],
)  # fmt: skip
def test_wrong_arguments_are_one_line(file, given, said, capsys):
    assert main(["trace", *given]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert said in error


ARRAYS = {
    "f32[2,3]": ("float32", (2, 3)),
    "random:f64[4]": ("float64", (4,)),
    "arange:i16[5]": ("int16", (5,)),
    "zeros f16[2x2]": ("float16", (2, 2)),
    "ones:u8[3]": ("uint8", (3,)),
    "out:i32[7]": ("int32", (7,)),
    "bool[6]": ("bool", (6,)),
    "letters:i8[40]": ("int8", (40,)),
    "0..3:u32[50]": ("uint32", (50,)),
}


@pytest.mark.parametrize("text", ARRAYS)
def test_arrays_of_every_kind_are_read(text):
    value = value_of("mine.cu", "x", text)
    made = value if isinstance(value, np.ndarray) else value.make(1)  # type: ignore[union-attr]
    assert (made.dtype.name, made.shape) == ARRAYS[text]
    if text.startswith("arange:i"):
        assert made.tolist() == [0, 1, 2, 3, 4]
    if text.startswith("letters"):
        assert bytes(made).decode().isalpha()
        assert bytes(made).islower()
    if text.startswith("zeros"):
        assert not made.any()
    if text.startswith("ones"):
        assert (made == 1).all()


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("-3", -3), ("0x10", 16), ("0.5", 0.5), ("1e-3", 0.001), ("true", 1), ("False", 0)],
)
def test_scalars_are_read(text, number):
    assert value_of("mine.cu", "n", text) == number


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("f32[0]", r'"\[0\]" is not a shape'),
        ("f32[]", "is not a shape"),
        ("f32[2,,3]", "is not a shape"),
        ("ramp:f32[2]", 'nothing fills an array by "ramp". Known: random, arange'),
        ("f64[100000,100000]", "is more than a gigabyte"),
        ("", "is neither a number nor an array"),
        ("f32[-1]", "is neither a number nor an array"),
    ],
)
def test_arguments_that_cannot_be_read_are_said(text, said):
    with pytest.raises(LessonError, match=said):
        value_of("mine.cu", "x", text)


def page_of(path: str) -> tuple[str, dict[str, object]]:
    """The page's text, and the figure that it holds."""
    text = Path(path).read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="tw-data">(.*?)</script>', text, re.S)
    assert found
    return text, json.loads(found[1])


def test_a_page_is_written_that_holds_all_it_needs(file, capsys):
    assert main(["trace", file, *arguments(100)]) == 0
    assert re.search(r"wrote scale.trace.html \(\d\.\d MB\): open it in a browser", capsys.readouterr().out)
    text, figure = page_of("scale.trace.html")
    assert not re.search(r"""(?:src|href)=(?!["'](?:data:|#))""", text)
    assert "None was met." in text
    for name in TEXTS:
        assert f"/* {name} */" in text
    assert figure["kind"] == "stepped"
    assert figure["spec"]["code"]["text"] == SOURCE  # type: ignore[index]
    assert figure["steps"][0].endswith(
        "threads 0 to 99 read x[0 to 99] in 13 sectors of 32 bytes, summed over 4 warps."
    )  # type: ignore[index]


def test_hazards_are_marked_on_their_lines_of_the_page(file):
    assert main(["trace", file, *arguments(101), "--out", "found.html"]) == 1
    text, figure = page_of("found.html")
    assert "<strong>out of bounds.</strong>" in text
    assert "Guard the access, or launch fewer threads." in text
    assert {hazard["line"] for hazard in figure["spec"]["hazards"]} == {3}  # type: ignore[index]


def test_a_large_launch_is_shown_in_part_and_counted_whole(file, capsys):
    given = ["x=f32[100000]", "y=out:f32[100000]", "n=100000", "by=2.0"]
    sizes = ["--grid", "400", "--block", "256"]
    assert main(["trace", file, *sizes, *(part for one in given for part in ("--arg", one))]) == 0
    assert "12,500" in capsys.readouterr().out
    text, figure = page_of("scale.trace.html")
    assert "The figure shows block 0 of 400; the table counts all." in text
    assert "12,500" in text
    assert len(gzip.compress(json.dumps(figure).encode())) < 200_000


HOST = """#include <cstdio>
#ifndef BY
#define BY 2
#endif
template <int N> __global__ void spread(const float* x, float* y, int n) {
    for (int i = threadIdx.x; i < n; i += N) y[i] = BY * x[i];
}
__global__ void fill(int* y, int rows, int cols) { y[threadIdx.x] = rows * cols; }
int main() { spread<32><<<1, 32>>>(nullptr, nullptr, 5); }
"""


def test_without_a_launch_the_kernels_of_a_file_are_listed(file, capsys, tmp_path):
    (tmp_path / "host.cu").write_text(HOST, encoding="utf-8")
    assert main(["trace", "host.cu"]) == 0
    said = capsys.readouterr().out
    assert "host.cu has 2 kernels. Try:" in said
    assert "fill(int* y, int rows, int cols)" in said
    commands = [shlex.split(line)[1:] for line in said.splitlines() if line.startswith("  tilewise trace")]
    assert len(commands) == 2
    for command in commands:  # what is proposed runs
        assert main(command) == 0, command
    assert "spread<32><<<1, 32>>>" in capsys.readouterr().out  # as the file launches it


SITES = """#include <cstdio>
#define TILE 16
struct Box { int left; float scale; };
struct Rows { int n; float* cells; };
__global__ void filled(Rows* rows) { rows->cells[threadIdx.x] = rows->n; }
__global__ void transpose(const float* in, float* out, int width, int height) {
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < width && y < height) out[x * height + y] = in[y * width + x];
}
__global__ void moved(Box box, int2 by, float* y) { y[threadIdx.x] = box.left * box.scale + by.x + by.y; }
__global__ void summed(const float* x, float* y, int n) {
    extern __shared__ float smem[];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    smem[threadIdx.x] = at < n ? x[at] : 0;
    __syncthreads();
    if (threadIdx.x == 0) for (int i = 0; i < blockDim.x; i++) y[blockIdx.x] += smem[i];
}
int main() {
    int w = 2048, h = 1024, threads = 64;
    float *a, *b;
    cudaMalloc(&a, w * h * sizeof(float)); cudaMalloc(&b, w * h * sizeof(float));
    dim3 block(TILE, TILE), grid((w + TILE - 1) / TILE, (h + TILE - 1) / TILE);
    transpose<<<grid, block>>>(a, b, w, h);
    summed<<<w / threads, threads, threads * sizeof(float)>>>(a, b, w);
}
"""


def test_the_launches_that_a_file_makes_are_proposed_and_run_without_hazards(file, capsys, tmp_path):
    (tmp_path / "sites.cu").write_text(SITES, encoding="utf-8")
    assert main(["trace", "sites.cu"]) == 0
    said = capsys.readouterr().out
    commands = [shlex.split(line)[1:] for line in said.splitlines() if line.startswith("  tilewise trace")]
    transpose, moved, summed = commands
    assert "  filled(Rows* rows)\n  No command: rows is Rows*, whose cells is a pointer" in said
    assert transpose[transpose.index("--block") + 1] == "16,16"
    assert summed[summed.index("--shared") + 1] == "256"
    assert {"box=zeros:u8[8]", "by=i32[2]"} <= set(moved)
    for command in commands:
        assert main(command) == 0, command


STENCIL = """#define RADIUS 3
__global__ void stencil(const int* in, float4* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (int k = -RADIUS; k <= RADIUS; k++) sum += in[i + k];
    out[i - 1].x = sum;
}
int main() {
    const int n = 64;
    int* in;
    float4* out;
    cudaMalloc(&in, (n + 2 * RADIUS) * sizeof(int));
    cudaMalloc(&out, (n + 1) * sizeof(float4));
    stencil<<<n / 32, 32>>>(in + RADIUS, &out[1]);
}
"""


def test_a_pointer_into_an_array_is_proposed_where_the_file_passes_one(file, capsys):
    Path("stencil.cu").write_text(STENCIL, encoding="utf-8")
    assert main(["trace", "stencil.cu"]) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("  tilewise trace")]
    command = shlex.split(line)[1:]
    assert {"in=i32[70]+3", "out=f32[260]+4"} <= set(command)
    assert main(command) == 0
    earlier = [one.replace("+3", " + 2") for one in command]
    assert main(earlier) == 1
    assert "thread 0 of block 0 reads in[-3]; in has 70 elements, from -2 to 67" in capsys.readouterr().err
    assert main([one.replace("+3", "+70") for one in command]) == 1
    assert "in: i32[70]+70 begins behind its array" in capsys.readouterr().err


STRUCTS = """struct Params { int n; float by; double at[3]; };
__constant__ Params params;
__constant__ float* table;
__global__ void scaled(float* y) { if (threadIdx.x >= params.n) y[threadIdx.x] = params.by; }
__global__ void sized(dim3& size, float* y) { if (threadIdx.x < size.x) y[threadIdx.x] = 1; }
__global__ void looked_up(float* y) { y[threadIdx.x] = table[threadIdx.x]; }
"""


def test_a_struct_in_constant_memory_is_proposed_and_a_reference_is_not(file, capsys):
    Path("structs.cu").write_text(STRUCTS, encoding="utf-8")
    assert main(["trace", "structs.cu"]) == 0
    said = capsys.readouterr().out
    assert (
        "No command: size is a reference, dim3 &, to what the host has. Have the kernel take a value" in said
    )
    scaled, looked_up = [
        shlex.split(one)[1:] for one in said.splitlines() if one.startswith("  tilewise trace")
    ]
    assert "params=zeros:u8[32]" in scaled
    assert "params" in scaled[-1].split(",")
    assert main(scaled) == 0
    assert not any(one.startswith("table=") for one in looked_up)
    assert main([one.replace("u8[32]", "u8[4]") for one in scaled]) == 1
    assert "params holds 32 elements of uint8, and the value has 4" in capsys.readouterr().err


PLACES = """#include <cstdlib>
__global__ void gather(const int* at, const float* x, float* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[4 * at[i]];
}
__global__ void first(float* y) { y[threadIdx.x - 1] = 1; }
__global__ void other(float* y, float f) { y[blockDim.x] = f; }
__global__ void same(float* z) { z[0] = threadIdx.x; }
__global__ void last(float* y, int n) { y[(int)threadIdx.x - n] = 1; }
int main(int argc, char** argv) {
    int n = 64, m = atoi(argv[1]);
    int* at;
    float *x, *y, *z;
    cudaMalloc(&at, n * sizeof(int)); cudaMalloc(&x, n * sizeof(float)); cudaMalloc(&y, n * sizeof(float));
    cudaMalloc(&z, m * sizeof(float));
    gather<<<1, 32>>>(at, x, y, n);
    first<<<1, n>>>(x);
    last<<<1, 32>>>(z, m);
    same<<<1, 32>>>(given());
    other<<<1, n>>>(x, given());
}
"""


@pytest.mark.parametrize(
    ("name", "assumed", "said"),
    [
        ("gather", "at.values", "There is no hazard with --arg at=zeros:i32[64]. "),
        ("first", "", ""),  # as the file itself launches it
        ("last", "n", "Others were tried for n, and none ran clean"),
        ("other", "f", "No others were tried. "),
    ],
)
def test_of_a_hazard_the_assumed_values_that_lead_to_it_are_named(file, capsys, name, assumed, said):
    Path("places.cu").write_text(PLACES, encoding="utf-8")
    assert main(["trace", "places.cu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (command,) = [shlex.split(line)[1:] for line in lines if f"trace places.cu --kernel {name} " in line]
    assert command[-2:] == ["--assumed", assumed] if assumed else "--assumed" not in command
    assert main(command) == 1
    told = capsys.readouterr().err
    assert "Guard the access, or launch fewer threads." in told
    assert said in told
    assert ("places.cu does not say " in told) == bool(assumed)
    assert not assumed or told.startswith("places.cu does not say "), "before the hazards"
    text, _ = page_of("places.trace.html")
    shown = re.findall(r'<p class="tw-assumed">(.*?)</p>', text)
    plain = [unescape(re.sub("<[^>]*>", "", one)).removeprefix("Assumed values. ") for one in shown]
    assert plain == [line for line in told.splitlines() if line.startswith("places.cu does not say ")]
    helps = re.search(r"There is no hazard with (--arg [^.]*)\. ", told)
    if helps:
        name, value = helps[1].removeprefix("--arg ").split("=")
        assert main([f"{name}={value}" if one.startswith(f"{name}=") else one for one in command]) == 0


def test_a_race_is_not_put_down_to_what_an_array_of_floats_holds(file, capsys):
    Path("places.cu").write_text(PLACES, encoding="utf-8")
    command = ["trace", "places.cu", "--kernel", "same", "--grid", "1", "--block", "32"]
    assert main([*command, "--arg", "z=f32[1024]", "--assumed", "z"]) == 1
    assert capsys.readouterr().err.startswith("places.cu:7: race: ")


LENGTHS = """#include <cstdio>
__global__ void far(const float* x, float* y, int n) {
    extern __shared__ float held[];
    held[threadIdx.x + 5000] = x[n * n * threadIdx.x];
    if (threadIdx.x == 0) printf("one");
    y[threadIdx.x] = held[threadIdx.x + 5000];
}
int main() {
    float *x, *y;
    make(&x); cudaMalloc(&y, 64 * sizeof(float));
    far<<<1, 64, much()>>>(x, y, 64);
}
"""


def test_what_is_assumed_of_lengths_grows_until_it_is_enough(file, capsys):
    Path("far.cu").write_text(LENGTHS, encoding="utf-8")
    assert main(["trace", "far.cu"]) == 0
    (command,) = [shlex.split(one)[1:] for one in capsys.readouterr().out.splitlines() if "--assumed" in one]
    assert command[-1] == "shared,x"
    assert main(command) == 0
    told = capsys.readouterr()
    assert re.match(
        r"The length of x is assumed, and the kernel uses more than [\d,]+ elements of it", told.err
    )
    assert "The size of dynamic shared memory is assumed" in told.err
    assert told.out.startswith("one")
    assert "oneone" not in told.out
    at = command.index("--shared")
    assert main([*command[:at], *command[at + 2 :]]) == 0, "no shared memory is made more, too"
    assert "shared memory is assumed" in capsys.readouterr().err
    assert main([*command[:-1], "grid"]) == 1, "lengths that are said stay"
    assert "x has " in capsys.readouterr().err
    farther = [one.replace("n=64", "n=30000") for one in command]
    assert main(farther) == 1
    told = capsys.readouterr().err
    assert "far.cu: the kernel uses element 900,000,000 of x, whose length is assumed" in told
    assert "Launch with smaller values, or take x out of --assumed" in told
    shorter = [one.replace("y=f32[64]", "y=f32[63]") for one in command]
    assert main(shorter) == 1, "y's length is known"
    assert "writes y[63]; y has 63 elements" in capsys.readouterr().err


def test_a_run_of_many_blocks_that_is_cut_off_has_no_hazard_and_an_endless_loop_has(file, capsys):
    Path("long.cu").write_text(
        "__global__ void k(float* y, int n) {\n"
        "    for (int i = 0; i != n; i++) y[32 * blockIdx.x + threadIdx.x] += 1;\n}\n"
    )
    shape = ["--grid", "8", "--block", "32", "--max-steps", "4000"]
    command = ["trace", "long.cu", *shape, "--arg", "y=f32[256]"]
    assert main([*command, "--arg", "n=100"]) == 0
    assert re.search(
        r"Note: the run ends after 4,000 warp instructions, in block [1-7]: ", capsys.readouterr().out
    )
    assert main([*command, "--arg", "n=-1"]) == 1
    assert "block 0 is still running after 4,000 warp instructions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/*\n__global__ void k(float* y) {}\n*/\nint main() {}\n", "none.cu: the source has no kernel."),
        ("__global__ void k(float** y) { y[0][0] = 1; }\n", "a pointer to pointers"),
    ],
)
def test_a_file_without_a_kernel_that_can_be_launched_is_refused(text, said, file, capsys, tmp_path):
    (tmp_path / "none.cu").write_text(text, encoding="utf-8")
    assert main(["trace", "none.cu"]) == 1
    assert said in capsys.readouterr().err


def test_of_many_launches_of_a_template_some_are_proposed_and_all_are_named(file, capsys, tmp_path):
    launches = " ".join(f"k<{n}><<<1, 32>>>(text);" for n in range(1, 7))
    kernel = "template <int N> __global__ void k(char* text) { text[threadIdx.x] = N; }\n"
    (tmp_path / "many.cu").write_text(f"{kernel}void all(char* text) {{ {launches} }}", encoding="utf-8")
    assert main(["trace", "many.cu"]) == 0
    said = capsys.readouterr().out
    assert "many.cu has 6 kernels" in said
    assert "Also launched: k<5>, k<6>." in said
    assert said.count("--arg 'text=letters:i8[1024]'") == 4


def test_macros_and_saved_arrays_are_taken(file, tmp_path):
    (tmp_path / "host.cu").write_text(HOST, encoding="utf-8")
    np.save(tmp_path / "x.npy", np.ones(40, np.float32))
    given = ["--kernel", "spread<32>", "--grid", "1", "--block", "32", "--define", "BY=0.5f"]
    arrays = ["--arg", "x=x.npy", "--arg", "y=out:f32[40]", "--arg", "n=40"]
    assert main(["trace", "host.cu", *given, *arrays]) == 0
    assert (value_of("host.cu", "x", "x.npy") == 1).all()
