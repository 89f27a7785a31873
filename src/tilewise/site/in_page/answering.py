"""Answers texts in the page as ``site/play`` does, with a clang that a script calls.

In: a text as JSON. Out: JSON, as ``kernel/pasted.py`` has it. Clang's own driver, which turns a compiler's
options into those of its parts, does not know devices there: ``front_end`` does it for the options in use.
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
"""Takes a JSON list of options and a source; returns an exit code, what is made and what is said."""
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
"""What the driver makes of what ``compiler`` gives it for every text, which ends with ``_LAST``."""
_LAST = "-std=c++17"
_MEANT = {
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
"""What it makes of further options that are not handed on as they are; later ones of a kind hold."""
_TREE = "-ast-dump=json"
_FIRST = HEADERS / "tilewise_cuda.h"
BITCODE, PRECOMPILED = "out.bc", "headers.pch"
"""What clang leaves: ``site/web/play/clang.js`` compiles the first, and keeps the second for later texts."""


def front_end(flags: Sequence[str]) -> list[str]:
    """The options of clang's front end, ``-cc1``, for those that ``compiler`` gives its driver.

    A syntax tree leaves out what comes from precompiled headers; it would be 50 MB.
    """
    output = [] if "-fsyntax-only" in flags else ["-emit-llvm-bc", "-disable-llvm-passes", "-o", BITCODE]
    first = ["-include-pch", PRECOMPILED] if _TREE in flags else ["-include", str(_FIRST)]
    return [*_meant(flags), *first, *output, "-x", "cuda", "kernel.cu"]


def precompiled(flags: Sequence[str]) -> list[str]:
    """The options that compile the headers which every text has."""
    kept = [flag for flag in flags if flag not in ("-fsyntax-only", _TREE)]
    return [*_meant(kept), "-emit-pch", "-fno-pch-timestamp", "-o", PRECOMPILED, "-x", "cuda", str(_FIRST)]


def _meant(flags: Sequence[str]) -> list[str]:
    own = flags[flags.index(_LAST) + 1 :]
    words = [word for flag in own for word in _MEANT.get(flag, flag).split()]
    return [*_PLAIN.split(), "-isystem", str(HEADERS), *words]


def begin(clang: Clang, folder: str = "/tmp") -> None:
    """From now on call a script where clang would be started: in a page no process can be.

    Args:
        clang: the script.
        folder: what is compiled is kept there, in memory.
    """
    before: list[str] = []  # what the headers were last compiled with

    def run(
        command: Sequence[str], *, cwd: Path | None = None, **_: Any
    ) -> subprocess.CompletedProcess[bytes]:
        nonlocal before
        if cwd is None:  # headers alone: the script keeps them itself
            raise OSError
        given = command[command.index("clang") + 1 : command.index("-isystem")]
        if _TREE in given and before != precompiled(given):
            before = precompiled(given)
            clang(json.dumps(before), "")
        source = (cwd / "kernel.cu").read_text(encoding="utf-8")
        code, made, said = clang(json.dumps(front_end(given)), source)
        return subprocess.CompletedProcess(command, int(str(code)), str(made).encode(), str(said).encode())

    subprocess.run = run  # type: ignore[assignment]
    program = Path(folder) / "clang"
    program.touch()
    os.environ.update(TILEWISE_ZIG=str(program), TILEWISE_CACHE=folder)


def headers() -> str:
    """The texts of the course's headers by their paths, as JSON."""
    return json.dumps({str(path): path.read_text("utf-8") for path in HEADERS.rglob("*") if path.is_file()})


def answered(given: str) -> str:
    """What the page is told of a text, both as JSON."""
    from tilewise.site.play.child import answer

    return json.dumps(answer(json.loads(given)))
