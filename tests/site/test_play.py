"""The Playground's compiler: whom it answers, what hostile texts learn, and when it stops."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sweeps import SIMULATOR
from tilewise.__main__ import main
from tilewise.kernel.pasted import compiled
from tilewise.site.play.compiling import Compiler
from tilewise.site.play.examples import examples
from tilewise.site.play.requests import MOST_BYTES, CompileRequests, is_loopback
from tilewise.site.play.server import PlayServer

pytestmark = pytest.mark.sweep(
    *SIMULATOR,
    "src/tilewise/kernel/pasted.py",
    "src/tilewise/kernel/access_patterns.py",
    "src/tilewise/kernel/proposals.py",
    "src/tilewise/site/play",
    packages=["ziglang"],
)

KERNEL = 'extern "C" __global__ void k(float* a, int n) { a[threadIdx.x] = n; }\n'
SECRET = "a line that nobody may read 4711"


@pytest.fixture(scope="module")
def compiler() -> Iterator[Compiler]:
    made = Compiler()
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayServer]:
    assets = tmp_path_factory.mktemp("all") / "assets"
    assets.mkdir()
    (assets / "tilewise.js").write_text("// script", encoding="utf-8")
    (assets.parent / "secret.js").write_text(SECRET, encoding="utf-8")
    made = PlayServer(assets, 0, "</script><!-- " + KERNEL, "mine.cu", compiler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def own_headers(server: PlayServer) -> dict[str, str]:
    host = f"127.0.0.1:{server.server_port}"
    return {
        "Host": host,
        "Origin": f"http://{host}",
        "Content-Type": "application/json",
        "X-Tilewise-Token": server.requests.token,
    }


def ask(
    server: PlayServer, method: str, path: str, headers: dict[str, str], body: bytes = b""
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    given = {"Content-Length": str(len(body)), **headers}
    for name, value in given.items():
        if value:
            connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def body(text: Any = KERNEL, **more: Any) -> bytes:
    return json.dumps({"text": text, **more}).encode()


def test_a_page_of_its_own_gets_a_program(server):
    status, content, headers = ask(server, "POST", "/compile", own_headers(server), body())
    assert status == 200
    made = json.loads(content)
    assert made["kernels"] == ["k"]
    assert made["offer"]["kernels"][0]["program"]["lines"]
    assert made["proposal"]["fields"]["a.length"] == "n"
    assert "Access-Control-Allow-Origin" not in headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"X-Tilewise-Token": "guessed"}, 403),
        ({"X-Tilewise-Token": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Host": "127.0.0.1:1", "Origin": "http://127.0.0.1:1"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Length": "some"}, 411),
        ({"Content-Length": "-1"}, 411),
        ({"Content-Length": str(MOST_BYTES + 1)}, 413),
    ],
)
def test_others_are_refused_before_anything_is_compiled(server, changed, status, monkeypatch):
    monkeypatch.setattr(server.compiler, "compile", lambda _: pytest.fail("compiled"))
    found, content, _ = ask(server, "POST", "/compile", own_headers(server) | changed, body())
    assert found == status
    assert json.loads(content)["refused"]


@pytest.mark.parametrize(
    "content",
    [
        b"no json",
        b"[]",
        b"[" * 100_000,
        b'{"text": 1}',
        b"\xff\xfe",
        body("\0"),
        body("\ud800"),
        body(defines={"a b": 1}),
        body(defines={"A": [1]}),
        body(options="-O3"),
        body(kernel=3),
        body("x" * 200_001),
    ],
)
def test_bodies_that_are_no_text_are_refused(server, content):
    status, said, _ = ask(server, "POST", "/compile", own_headers(server), content)
    assert status == 400
    assert json.loads(said)["refused"]


def test_only_its_own_files_are_served_and_to_this_machine_alone(server):
    own = {"Host": f"127.0.0.1:{server.server_port}"}
    status, page, headers = ask(server, "GET", "/", own)
    assert status == 200
    assert server.requests.token.encode() in page
    assert b"\\u003c/script>\\u003c!-- extern" in page
    assert "'unsafe-inline'" not in headers["Content-Security-Policy"]
    assert ask(server, "GET", "/assets/tilewise.js", own)[0] == 200
    assert ask(server, "GET", "/examples.json", own)[1] == examples()
    for path in ("/assets/../secret.js", "/assets/%2e%2e/secret.js", "/assets//etc/passwd", "/etc/passwd"):
        status, content, _ = ask(server, "GET", path, own)
        assert status == 404
        assert SECRET.encode() not in content
    assert ask(server, "GET", "/", {"Host": "evil.example"})[0] == 403
    assert ask(server, "POST", "/", own_headers(server), body())[0] == 404
    assert ask(server, "PUT", "/compile", own_headers(server), body())[0] in (405, 501)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.h"
    path.write_text(f"{SECRET}\n", encoding="utf-8")
    return path


HOSTILE = [
    '#include "{}"\n',
    "#include <{}>\n",
    "#include <../../../../../../../../..{}>\n",
    '#include "../../../../../../../../..{}"\n',
    '#include_next "{}"\n',
    '#import "{}"\n',
    '#define FILE "{}"\n#include FILE\n',
    '#inc\\\nlude "{}"\n',
    '%:include "{}"\n',
    '/**/#/**/include "{}"\n',
    '__device__ const unsigned char held[] = {{\n#embed "{}"\n}};\n',
    '#pragma GCC dependency "{}"\n',
    'asm(".incbin \\"{}\\"");\n',
]


@pytest.mark.parametrize("start", HOSTILE)
def test_a_text_cannot_read_a_file_of_the_machine(compiler, secret, start):
    """Neither its text nor whether it is there: a file that is not there gets the same answer."""
    answers = []
    for path in (str(secret), str(secret.with_name("absent.h"))):
        made = compiler.compile({"text": start.format(path) + KERNEL})
        assert made is not None
        said = json.dumps(made).replace(path, "PATH")
        assert SECRET not in said
        assert "4711" not in said
        answers.append(said)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("asked", ["__has_include", "__has_embed"])
def test_a_text_cannot_learn_whether_a_file_is_there(compiler, secret, asked):
    made = compiler.compile({"text": f'#if {asked}("{secret}")\n#error it is there\n#endif\n{KERNEL}'})
    assert made is not None
    assert made["faults"] == []


def test_inline_ptx_reads_no_file(compiler, secret):
    text = f'__global__ void k(int* a) {{ asm volatile(".incbin \\"{secret}\\";"); a[0] = 1; }}'
    made = compiler.compile({"text": text})
    assert made is not None
    assert "unknown directive" in made["faults"][0]["message"]
    assert SECRET not in json.dumps(made)


def test_own_headers_are_found(compiler):
    text = '#include <cuda_fp16.h>\n#include "hopper.cuh"\n' + KERNEL.replace("float", "__half")
    made = compiler.compile({"text": text})
    assert made is not None
    assert made["faults"] == []
    assert made["offer"]["arguments"][0]["type"] == "f2"


@pytest.mark.parametrize(
    "start",
    [
        "#pragma clang __debug crash\n",
        "#pragma clang __debug llvm_fatal_error\n",
        "(" * 100_000,
        "#define A B B B B B B B B\n#define B C C C C C C C C\n#include __FILE__\n",
    ],
)
def test_a_text_that_breaks_the_compiler_is_refused_and_the_next_compiles(compiler, start):
    made = compiler.compile({"text": start + KERNEL})
    assert made is not None
    assert made["faults"]
    after = compiler.compile({"text": KERNEL + f"// {time.time()}"})
    assert after is not None
    assert after["faults"] == []


def test_a_text_that_compiles_for_ever_is_stopped():
    endless = "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; i++) s += i * s; return s; }\n"
    endless += "__device__ char big[3000000000] = {1};\n__device__ long held = f(1L << 40);\n"
    hurried = Compiler(time_limit_s=1.5)
    try:
        hurried.compile({"text": KERNEL})  # starts the process
        made = hurried.compile({"text": endless + KERNEL})
        assert made is not None
        assert made["faults"][0]["message"] == "Compiling took more than 1.5 seconds and was stopped."
    finally:
        hurried.close()


def test_other_machines_are_not_answered():
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("192.168.1.7")
    requests = CompileRequests(Compiler(), 8000)
    headers = {
        "host": "127.0.0.1:8000",
        "origin": "http://127.0.0.1:8000",
        "x-tilewise-token": requests.token,
        "content-type": "application/json",
        "content-length": "2",
    }
    assert requests.refusal("POST", headers, "127.0.0.1") is None
    assert requests.refusal("POST", headers, "192.168.1.7") == (
        403,
        "Only pages of this machine are answered.",
    )
    assert requests.refusal("GET", headers, "127.0.0.1") == (405, "Only POST is answered here.")


def test_what_is_proposed_fits_the_signature():
    text = """\
struct Pair { int first; float second; };
__constant__ float weights[4];
__global__ void many(
    const float4* a, const __nv_bfloat16* b, bool* c, Pair pair, double scale, int rows, int cols) {
    extern __shared__ float held[];
    held[threadIdx.x] = weights[blockIdx.x % 4];
    c[0] = held[0] > scale;
}
__global__ void plane(float* a, int n) { a[threadIdx.y * n + threadIdx.x] = blockIdx.x; }
__global__ void row(float* a, int n) { if (threadIdx.x < n) a[threadIdx.x] = 1; }
"""
    made = compiled(text, "many")
    assert made["kernels"] == ["many", "plane", "row"]
    fields = made["proposal"]["fields"]
    assert fields["a.length"] == "4 * rows * cols"
    assert fields["rows"] == "32"
    assert fields["scale"] == "0.5"
    assert fields["shared.bytes"] == "16384"
    assert fields["grid.x"] == "ceil_div(rows * cols, blockDim.x)"
    types = {one["name"]: one["type"] for one in made["offer"]["arguments"]}
    assert types == {
        "a": "f4", "b": "bf16", "c": "b1", "pair": "u1", "scale": "f8", "rows": "i4", "cols": "i4",
    }  # fmt: skip
    assert made["offer"]["arguments"][3]["shape"] == [8]
    assert [one["name"] for one in made["offer"]["variables"] if one] == ["weights"]
    plane = compiled(text, "plane")["proposal"]["fields"]
    assert (plane["block.x"], plane["block.y"], plane["a.length"], plane["n"]) == ("16", "16", "n * n", "32")
    assert plane["grid.y"] == "ceil_div(n, blockDim.y)"
    row = compiled(text, "row")["proposal"]["fields"]
    assert (row["block.x"], row["n"]) == ("256", "256")  # one block, as it never reads blockIdx


def test_faults_have_the_lines_of_the_text():
    faults = compiled("\n\n" + KERNEL.replace("= n", "= m") + "int x = y;\n")["faults"]
    assert [(one["line"], one["message"]) for one in faults] == [
        (3, "Use of undeclared identifier 'm'."),
        (4, "Use of undeclared identifier 'y'."),
    ]
    [none] = compiled("int x;")["faults"]
    assert "no kernel" in none["message"]
    [template] = compiled("template <int N> __global__ void k(int* a) { a[0] = N; }")["faults"]
    assert "K is a template: launch it in the text, as in k<32><<<1, 32>>>" in template["message"]


ALIKE = """\
__global__ void k(float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // __global__
    if (i < n) a[i] = i;
}
"""


@pytest.mark.parametrize(
    "start",
    [
        'extern "C" ',
        "#include <cuda_runtime.h>\n#include <cstdio>\n",
        "int main() { k<<<1, 2>>>(nullptr, 1); }\n",
        "namespace {}\n",
        "static ",
    ],
)
def test_a_kernel_is_the_same_however_it_is_written(start):
    """A text of kernels alone takes a shorter way than one that clang has to take apart."""
    wanted, found = (compiled(text)["offer"]["kernels"][0]["program"] for text in (ALIKE, start + ALIKE))
    moved = start.count("\n")
    assert found["source"] == start + ALIKE
    assert found["lines"] == [line and line + moved for line in wanted["lines"]]
    assert found["code"] == wanted["code"]
    assert found["parameters"] == wanted["parameters"]


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    assert main(["play", str(tmp_path / "none.cu"), "--no-browser"]) == 1
    assert "there is no such file." in capsys.readouterr().err
    (tmp_path / "long.cu").write_text("//" + "x" * 200_000, encoding="utf-8")
    assert main(["play", str(tmp_path / "long.cu"), "--no-browser"]) == 1
    assert "more than 200,000 letters" in capsys.readouterr().err
