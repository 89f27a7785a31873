"""Compiles kernels in the page as ``site/play`` does, with a clang that a script calls.

In: a kernel's text as JSON. Out: JSON in the form of ``kernel/pasted.py``. Clang's driver, which translates
options for its parts, does not support devices there, so ``front_end`` translates the options in use.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewise.simulator.compile.compiler import HEADERS

Clang = Callable[[str, str], Sequence[object]]
"""Takes a JSON list of options and a source; returns the exit code, the output and the messages."""
_PLAIN = """\
    -cc1 -triple nvptx64-nvidia-cuda -aux-triple x86_64-unknown-linux-musl -O2 -disable-free
    -clear-ast-before-backend -disable-llvm-verifier -discard-value-names -main-file-name kernel.cu
    -mrelocation-model static -fno-delete-null-pointer-checks -mframe-pointer=all -relaxed-aliasing
    -fno-rounding-math -no-integrated-as -aux-target-cpu x86-64 -fcuda-is-device -mllvm
    -enable-memcpyopt-without-libcalls -fno-threadsafe-statics -target-cpu sm_90 -target-feature
    +ptx83 -debug-info-kind=line-directives-only -dwarf-version=2 -debugger-tuning=gdb
    -fno-dwarf-directory-asm -nostdsysteminc -nobuiltininc -D__CUDA_ARCH_LIST__=900 -Wno-register -w
    -fdeprecated-macro -fno-autolink --offload-new-driver -fno-unroll-loops -fgnuc-version=4.2.1
    -fdeclspec -fskip-odr-check-in-gmf -fcxx-exceptions -fexceptions -vectorize-loops -vectorize-slp
    -mllvm -simplifycfg-sink-common=false -fdwarf2-cfi-asm -std=c++17
"""
"""The driver's translation of the options that ``compiler`` always passes, up to ``_LAST``."""
_LAST = "-std=c++17"
_TRANSLATED = {
    "-fcuda-flush-denormals-to-zero": "-fdenormal-fp-math-f32=preserve-sign,preserve-sign",
    "-fno-cuda-flush-denormals-to-zero": "",
    "-fno-finite-math-only": "",
    "-ffast-math": (
        "-fapprox-func -funsafe-math-optimizations -fno-signed-zeros -mreassociate -freciprocal-math "
        "-complex-range=basic -fgpu-approx-transcendentals"
    ),
    "-ferror-limit=0": "-ferror-limit 0",
    "-Xclang": "",
}
"""Its translation of further options, unless it passes them on unchanged; the last of a kind wins."""
_TREE = "-ast-dump=json"
_FIRST = HEADERS / "tilewise_cuda.h"
BITCODE, PRECOMPILED = "out.bc", "headers.pch"
"""Clang's output files: ``site/web/play/clang.js`` compiles the first and reuses the second."""


def front_end(flags: Sequence[str]) -> list[str]:
    """Translate the options that ``compiler`` passes to clang's driver for its front end, ``-cc1``.

    A syntax tree omits precompiled headers; otherwise it would be 50 MB.
    """
    output = [] if "-fsyntax-only" in flags else ["-emit-llvm-bc", "-disable-llvm-passes", "-o", BITCODE]
    first = ["-include-pch", PRECOMPILED] if _TREE in flags else ["-include", str(_FIRST)]
    return [*_translated(flags), *first, *output, "-x", "cuda", "kernel.cu"]


def precompiled(flags: Sequence[str]) -> list[str]:
    """Return the options that precompile the headers of every kernel."""
    common = [flag for flag in flags if flag not in ("-fsyntax-only", _TREE)]
    output = ["-emit-pch", "-fno-pch-timestamp", "-o", PRECOMPILED]
    return [*_translated(common), *output, "-x", "cuda", str(_FIRST)]


def _translated(flags: Sequence[str]) -> list[str]:
    own = flags[flags.index(_LAST) + 1 :]
    words = [word for flag in own for word in _TRANSLATED.get(flag, flag).split()]
    return [*_PLAIN.split(), "-isystem", str(HEADERS), *words]


def begin(clang: Clang, folder: str = "/tmp") -> None:
    """Replace ``subprocess.run`` by a call of a script, because a page cannot start processes.

    Args:
        clang: the script.
        folder: the in-memory folder for compiled files.
    """
    before: list[str] = []  # options of the last precompilation of headers

    def run(
        command: Sequence[str], *, cwd: Path | None = None, **_: Any
    ) -> subprocess.CompletedProcess[bytes]:
        nonlocal before
        if cwd is None:  # only headers, which the script precompiles itself
            raise OSError
        flags = command[command.index("clang") + 1 : command.index("-isystem")]
        if _TREE in flags and before != precompiled(flags):
            before = precompiled(flags)
            clang(json.dumps(before), "")
        source = (cwd / "kernel.cu").read_text(encoding="utf-8")
        code, *streams = clang(json.dumps(front_end(flags)), source)
        output, messages = (str(stream).encode() for stream in streams)
        return subprocess.CompletedProcess(command, int(str(code)), output, messages)

    subprocess.run = run  # type: ignore[assignment]
    program = Path(folder) / "clang"
    program.touch()
    os.environ.update(TILEWISE_ZIG=str(program), TILEWISE_CACHE=folder)


def headers() -> str:
    """Return the course's headers by path, as JSON."""
    return json.dumps({str(path): path.read_text("utf-8") for path in HEADERS.rglob("*") if path.is_file()})


def answered(request: str) -> str:
    """Compile a kernel for the page; both the request and the result are JSON."""
    from tilewise.site.play.child import answer

    return json.dumps(answer(json.loads(request)))
