"""Builds ``nvptx.wasm``: LLVM's optimiser and NVPTX backend, for a compiler in the page.

``python nvptx/build.py SOURCE HEADERS TBLGEN OUT [TARGET ...]``. SOURCE: LLVM's source, unpacked. HEADERS:
``include/llvm-22`` of a build of the same release, for the headers that CMake and TableGen make. TBLGEN: that
release's ``llvm-tblgen``. OUT: a folder for objects; a second run goes on where the first one stopped.
``nvptx.wasm.gz`` and ``NOTICES.txt`` come to lie beside this file.

The files of LLVM that the link takes are listed in ``files.txt``. Most include the same headers, which are
compiled once, and files that cannot mistake each other's names are compiled together: that leaves a third of
the time.
"""

from __future__ import annotations

import gzip
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import ziglang

HERE = Path(__file__).resolve().parent
ZIG = Path(ziglang.__file__).parent / "zig"
TARGET = ("-target", "wasm32-wasi", "-Os", "-DNDEBUG", "-fno-exceptions")
RELEASE = "22.1.8"
_FOLDERS = {
    "AggressiveInstCombine": "Transforms/AggressiveInstCombine",
    "AsmPrinter": "CodeGen/AsmPrinter",
    "BitReader": "Bitcode/Reader",
    "BitWriter": "Bitcode/Writer",
    "BitstreamReader": "Bitstream/Reader",
    "CFGuard": "Transforms/CFGuard",
    "Core": "IR",
    "Coroutines": "Transforms/Coroutines",
    "DebugInfoCodeView": "DebugInfo/CodeView",
    "DebugInfoDWARF": "DebugInfo/DWARF",
    "DebugInfoDWARFLowLevel": "DebugInfo/DWARF/LowLevel",
    "FrontendHLSL": "Frontend/HLSL",
    "FrontendOffloading": "Frontend/Offloading",
    "FrontendOpenMP": "Frontend/OpenMP",
    "GlobalISel": "CodeGen/GlobalISel",
    "HipStdPar": "Transforms/HipStdPar",
    "InstCombine": "Transforms/InstCombine",
    "Instrumentation": "Transforms/Instrumentation",
    "MCParser": "MC/MCParser",
    "NVPTXCodeGen": "Target/NVPTX",
    "NVPTXDesc": "Target/NVPTX/MCTargetDesc",
    "NVPTXInfo": "Target/NVPTX/TargetInfo",
    "ObjCARCOpts": "Transforms/ObjCARC",
    "ScalarOpts": "Transforms/Scalar",
    "SelectionDAG": "CodeGen/SelectionDAG",
    "TransformUtils": "Transforms/Utils",
    "Vectorize": "Transforms/Vectorize",
    "ipo": "Transforms/IPO",
}
"""Folders below ``lib`` of the libraries that are not called like theirs."""
_ALONE = (
    "Support Demangle TargetParser BinaryFormat BitstreamReader DebugInfoCodeView DebugInfoDWARF "
    "DebugInfoDWARFLowLevel ProfileData Object Remarks TextAPI CGData"
)
"""Libraries that include little of the rest."""
_LATE = (
    "NVPTXDesc NVPTXCodeGen SelectionDAG Target MC MCParser AsmPrinter CodeGen GlobalISel CodeGenTypes Passes"
)
"""Libraries whose files include the headers for generating code."""
_OWN_HEADERS = ("CodeGenCommonISel.cpp", "PHIElimination.cpp")
"""Files that call a static of theirs like something in a header that they do not include."""
_SYSTEM = ("Path.cpp", "Process.cpp", "Signals.cpp", "Watchdog.cpp")
"""Of Support, files whose second half calls the system; ``system.cpp`` has what of it is called."""
_TABLES = {
    "AsmWriter": "asm-writer",
    "DAGISel": "dag-isel",
    "InstrInfo": "instr-info",
    "RegisterInfo": "register-info",
    "SDNodeInfo": "sd-node-info",
    "SubtargetInfo": "subtarget",
}
_TARGET_LISTS = {
    "Targets": "TARGET",
    "AsmPrinters": "ASM_PRINTER",
    "AsmParsers": "ASM_PARSER",
    "Disassemblers": "DISASSEMBLER",
    "TargetMCAs": "TARGETMCA",
    "TargetExegesis": "EXEGESIS",
}
_SYSTEM_HAS = (
    "HAVE_DECL_FE_ALL_EXCEPT HAVE_GETPAGESIZE HAVE_UNISTD_H HAVE_PREAD HAVE_SYSCONF HAVE_STRERROR_R "
    "HAVE_FUTIMENS HAVE_STRUCT_STAT_ST_MTIM_TV_NSEC"
)
_OFTEN = 28
"""In so many files a header is included that is worth compiling once."""
_LARGE, _LARGEST, _MOST = 150_000, 260_000, 14
"""Letters of a file that is compiled alone; letters, and files, that are compiled together."""


@dataclass(frozen=True)
class Tree:
    """Where everything is."""

    source: Path
    headers: Path
    tblgen: Path
    out: Path

    @property
    def llvm(self) -> Path:
        """The folder ``llvm`` of the source."""
        return self.source / "llvm"

    def folder(self, library: str) -> Path:
        """A library's folder."""
        return self.llvm / "lib" / _FOLDERS.get(library, library)

    def file(self, library: str, name: str) -> Path:
        """A library's file of this name."""
        if library == "Support" and name in _SYSTEM:
            return self.out / "support" / name
        folder = self.folder(library)
        return folder / name if (folder / name).exists() else min(folder.rglob(name))


def configure(tree: Tree) -> None:
    """Make the headers and tables that CMake would make."""
    config = tree.out / "inc/llvm/Config"
    for folder in ("inc/sys", "inc/machine", "support/Unix", "tables"):
        (tree.out / folder).mkdir(parents=True, exist_ok=True)
    _write(
        config / "llvm-config.h", _library_header((tree.headers / "llvm/Config/llvm-config.h").read_text())
    )
    _write(
        config / "config.h", _system_header((tree.llvm / "include/llvm/Config/config.h.cmake").read_text())
    )
    text = (tree.headers / "llvm/Config/abi-breaking.h").read_text()
    _write(config / "abi-breaking.h", text.replace("defined(LLVM_BUILD_STATIC) ||", "1 ||"))
    for name, macro in _TARGET_LISTS.items():
        ours = f"LLVM_{macro}(NVPTX)\n" if name in ("Targets", "AsmPrinters") else ""
        _write(config / f"{name}.def", f"{ours}#undef LLVM_{macro}\n")
    _write(tree.out / "inc/machine/endian.h", "#include <endian.h>\n")
    _write(tree.out / "inc/sys/wait.h", "#pragma once\n")
    for name in _SYSTEM:
        _write(tree.out / "support" / name, (tree.llvm / "lib/Support" / name).read_text())
        _write(tree.out / "support/Unix" / name.replace(".cpp", ".inc"), "")
    for path in (tree.headers / "llvm").rglob("*"):
        inside = path.relative_to(tree.headers)
        is_made = path.is_file() and not (tree.llvm / "include" / inside).exists()
        if is_made and "Config" not in inside.parts:
            _write(tree.out / "gen" / inside, path.read_text())
    target = tree.llvm / "lib/Target/NVPTX"
    for name, kind in _TABLES.items():
        table = tree.out / f"tables/NVPTXGen{name}.inc"
        if not table.exists():
            include: list[str | Path] = ["-I", tree.llvm / "include", "-I", target]
            subprocess.run(
                [tree.tblgen, f"-gen-{kind}", *include, target / "NVPTX.td", "-o", table], check=True
            )


def _library_header(text: str) -> str:
    off = "ENABLE_(?:THREADS|CURL|ZLIB|ZSTD|ONDISK_CAS|TELEMETRY)|WITH_Z3|USE_PERF"
    text = re.sub(rf"^#define (LLVM_(?:{off})) 1$", r"#define \1 0", text, flags=re.M)
    text = re.sub(
        r"^#define LLVM_(?:ENABLE_(?:DUMP|PLUGINS|LLVM_\w+)|BUILD_LLVM_DYLIB)$", "", text, flags=re.M
    )
    return re.sub(r"^#define LLVM_NATIVE_\w+ .*$", "", text, flags=re.M)


def _system_header(text: str) -> str:
    def value(found: re.Match[str]) -> str:
        is_there = found["name"] in _SYSTEM_HAS.split()
        return f"#define {found['name']} {int(is_there)}" if is_there or found["number"] else ""

    text = re.sub(r"#cmakedefine(?P<number>01)?[ \t]+(?P<name>\w+).*", value, text)
    text = re.sub(r"#define BACKTRACE_HEADER.*", "", text).replace("${BUG_REPORT_URL}", "")
    named = {"PACKAGE_NAME": "LLVM", "PACKAGE_VERSION": RELEASE, "PACKAGE_STRING": f"LLVM {RELEASE}"}
    named |= {"LTDL_SHLIB_EXT": ".so", "LLVM_PLUGIN_EXT": ".so"}
    return text + "".join(f'#define {name} "{value}"\n' for name, value in named.items())


def _write(path: Path, text: str) -> None:
    """Write a file that is not so yet: what is older than its objects is not compiled again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def precompiled(tree: Tree, files: Sequence[Path]) -> None:
    """Write the two headers that are compiled once: with what many files include, and with more."""
    many = Counter(
        name for path in files for name in set(re.findall(r'#include "(llvm/[^"]+)"', path.read_text()))
    )
    often = sorted(name for name, count in many.items() if count >= _OFTEN and name.endswith(".h"))
    often = [name for name in often if "/Config/" not in name and "/Dwarf.h" not in name]
    late = {name for name in often if name.split("/")[1] in (*_LATE.split(), "TargetParser")}
    early = [name for name in often if name not in late]
    for header, names in (("early.h", early), ("late.h", [*early, *sorted(late)])):
        _write(tree.out / header, "".join(f'#include "{name}"\n' for name in (HERE / "nothreads.h", *names)))


_WORD = re.compile(r"\w+")
_NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
_TYPE = r"(?:class|struct|union|enum(?:\s+class)?)\s+(?:LLVM_\w+\s+)?(\w+)"
_LOCAL = (
    r"^\s*#\s*define\s+(\w+)",
    r"\b(?:STATISTIC|DEBUG_COUNTER|ALWAYS_ENABLED_STATISTIC)\(\s*(\w+)",
    r"^(?:static|extern|const|constexpr|inline|template[^\n]*\n?\s*static)\b[^;{(=]*?(\w+)\s*[;{(=\[]",
    r"^static\s+[^;]*?>\s*(\w+)\s*[({=;]",
    r"^static\s+[^;{]*?\b(\w+)\s*\(",
    rf"^{_TYPE}|^using\s+(\w+)\s*=|^typedef[^;]*?(\w+);",
)
_LOCAL_IN_NAMESPACE = (
    rf"\b{_TYPE}",
    r"^\w[\w:<>,&* ]*?\b(\w+)\s*\(",
    r"^using\s+(\w+)\s*=",
    r"^\s*(\w+)\s*(?:=[^,\n]*)?,\s*$",
    r"^\w[^\n]*?\b(\w+)\s*(?:=[^;\n]*)?;\s*$",
)
_COMMON = (
    "namespace llvm std if for while switch return template static const assert LLVM_DEBUG STATISTIC bool "
    "init llvm_unreachable operator desc DEBUG DEBUG_TYPE public private void int unsigned char auto"
)


def local_names(text: str) -> set[str]:
    """The names that a file defines for itself alone: macros, statics, what is in unnamed namespaces."""
    code = _NOT_CODE.sub("", text)
    spaces = [
        (_LOCAL_IN_NAMESPACE, inner) for inner in re.findall(r"^namespace\s*\{(.*?)^\}", code, re.M | re.S)
    ]
    found: set[str] = set()
    for patterns, part in [(_LOCAL, code), *spaces]:
        for pattern in patterns:
            for one in re.finditer(pattern, part, re.M):
                found.update(word for word in one.groups() if word)
    return found.difference(_COMMON.split())


@dataclass
class Unit:
    """Files that are compiled as one."""

    files: list[Path]
    letters: int
    spaces: frozenset[str]
    """The namespaces they use whole."""
    local: set[str]
    words: set[str]
    is_alone: bool

    @classmethod
    def of(cls, path: Path) -> Unit:
        """A file by itself."""
        text = path.read_text()
        spaces = frozenset(re.findall(r"^\s*using namespace ([\w:]+);", text, re.M)) - {"llvm"}
        words = set(_WORD.findall(_NOT_CODE.sub("", text)))
        is_alone = len(text) > _LARGE or "#define GET_" in text or path.name in _OWN_HEADERS
        return cls([path], len(text), spaces, local_names(text), words, is_alone)

    def fits(self, other: Unit) -> bool:
        """Whether neither has a name for itself that occurs in the other."""
        if self.is_alone or other.is_alone or self.spaces != other.spaces or len(self.files) == _MOST:
            return False
        return self.letters + other.letters < _LARGEST and not (
            self.local & other.words or other.local & self.words
        )

    def add(self, other: Unit) -> None:
        """Take another in."""
        self.files += other.files
        self.letters += other.letters
        self.local |= other.local
        self.words |= other.words


def together(files: Sequence[Path]) -> list[list[Path]]:
    """The files in groups that mean the same when they are compiled as one."""
    units: list[Unit] = []
    for path in files:
        new = Unit.of(path)
        fitting = next((unit for unit in units if unit.fits(new)), None)
        if fitting is None:
            units.append(new)
        else:
            fitting.add(new)
    return [unit.files for unit in units]


def flags(tree: Tree, command: str) -> list[str]:
    """What ``zig cc`` or ``zig c++`` would hand to clang, for calls of clang that go without zig's cache."""
    source = "none.cpp" if command == "c++" else "none.c"
    _write(tree.out / source, "")
    call: list[str | Path] = [ZIG, command, *TARGET, "-c", source, "-o", "none.o", "-###"]
    said = subprocess.run(call, cwd=tree.out, capture_output=True, text=True, check=True).stderr
    words = shlex.split(next(line for line in said.splitlines() if '"-cc1"' in line))[1:]
    without = {"-main-file-name", "-o", "-x"}
    kept = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if word not in without
        and before not in without
        and not word.startswith(("none.", "-fdebug-", "-fcov"))
    ]
    own = (tree.out / "inc", tree.llvm / "include", tree.out / "gen", tree.out / "tables")
    more = ["-std=c++17", "-fno-rtti"] if command == "c++" else []
    return [*kept, *more, "-w", *(part for folder in own for part in ("-I", str(folder)))]


def plan(tree: Tree) -> str:
    """The text of ``build.ninja``."""
    listed = [line.split(": ") for line in (HERE / "files.txt").read_text().splitlines()]
    files = {library: [tree.file(library, name) for name in names.split()] for library, names in listed}
    precompiled(tree, [path for paths in files.values() for path in paths])
    cpp, c = flags(tree, "c++"), flags(tree, "cc")
    header = ["-emit-pch" if word == "-emit-obj" else word for word in cpp]
    exports = " ".join(f"-Wl,--export={name}" for name in ("reserve", "compile", "made", "length"))
    _write(tree.out / "cxx.rsp", _quoted([*cpp, "-x", "c++"]))
    _write(tree.out / "c.rsp", _quoted([*c, "-x", "c"]))
    _write(tree.out / "header.rsp", _quoted([*header, "-fpch-instantiate-templates", "-x", "c++-header"]))
    text = [
        *(
            f"rule {name}\n  command = {ZIG} clang @{name}.rsp $more -o $out $in\n  description = $out\n"
            for name in ("cxx", "c", "header")
        ),
        f"rule link\n  command = {ZIG} c++ {' '.join(TARGET)} -mexec-model=reactor {exports} "
        "-Wl,--gc-sections -Wl,--strip-all -Wl,-z,stack-size=8388608 -o $out @$out.rsp\n"
        "  rspfile = $out.rsp\n  rspfile_content = $in\n  description = $out\n",
        *(f"build {name}.pch: header {name}.h\n" for name in ("early", "late")),
    ]
    objects = []
    for library, paths in files.items():
        for group in [[path] for path in paths] if library in _ALONE.split() else together(paths):
            made = f"obj/{library}/{group[0].stem}-{len(group)}.o"
            text.append(_edge(tree, library, group, made))
            objects.append(made)
    for name in ("nvptx", "system"):
        text.append(f"build obj/{name}.o: cxx {HERE / name}.cpp | late.pch\n  more = -include-pch late.pch\n")
    text.append(f"build nvptx.wasm: link obj/nvptx.o obj/system.o {' '.join(objects)}\ndefault nvptx.wasm\n")
    return "".join(text)


def _edge(tree: Tree, library: str, group: Sequence[Path], made: str) -> str:
    """How one object is made."""
    source = group[0]
    if len(group) > 1:
        source = (tree.out / made).with_suffix(".cpp")
        _write(source, "".join(f'#include "{path}"\n#undef DEBUG_TYPE\n' for path in group))
    near = [tree.folder(library), *(path.parent for path in group), tree.llvm / "lib/Support"]
    near += [tree.llvm / "lib/Target/NVPTX", tree.source / "third-party/siphash/include"]
    more = [f"-I {folder}" for folder in dict.fromkeys(near)]
    if source.suffix == ".c":
        return f"build {made}: c {source}\n  more = {' '.join(more)}\n"
    if library in _ALONE.split() or source.name in _OWN_HEADERS:
        return f"build {made}: cxx {source}\n  more = {' '.join(more)} -include {HERE / 'nothreads.h'}\n"
    header = "late.pch" if library in _LATE.split() else "early.pch"
    return f"build {made}: cxx {source} | {header}\n  more = {' '.join(more)} -include-pch {header}\n"


def _quoted(words: Sequence[str]) -> str:
    return " ".join(f'"{word}"' for word in words)


_PACKAGES = """\
What pages compile with, beside the course's own code:

- nvptx.wasm.gz: LLVM's optimiser and NVPTX backend with the C and C++ libraries of wasm32-wasi, unchanged but
  for calls of a system, which are left out (nvptx/build.py). Their licences follow.
- clang.mjs, llvm.core*.wasm.gz: clang of https://github.com/YoWASP/clang, under the Apache License 2.0 with
  the LLVM exceptions and, its script, the ISC License, Copyright Catherine.
- pyodide.mjs, pyodide.asm.*: Pyodide, under the Mozilla Public License 2.0; its source is at
  https://github.com/pyodide/pyodide. In it and in python_stdlib.zip is CPython, under the PSF License
  Agreement, Copyright Python Software Foundation; its source is at https://github.com/python/cpython.
"""


def notices(tree: Tree) -> str:
    """The licences of all that is in the file, and what pages fetch beside it."""
    libc, support = ZIG.parent / "lib/libc", tree.llvm / "lib/Support"
    whole = {
        "LLVM, libc++, libc++abi": tree.llvm / "LICENSE.TXT",
        "LLVM's regular expressions": support / "COPYRIGHT.regex",
        "wasi-libc": libc / "wasi/LICENSE",
        "wasi-libc, MIT License": libc / "wasi/LICENSE-MIT",
        "cloudlibc, in wasi-libc": libc / "wasi/libc-bottom-half/cloudlibc/LICENSE",
        "musl": libc / "musl/COPYRIGHT",
    }
    texts = {title: path.read_text(encoding="utf-8") for title, path in whole.items()}
    for title, name in (("xxHash, in LLVM", "xxhash.cpp"), ("ConvertUTF, in LLVM", "ConvertUTF.cpp")):
        code = (support / name).read_text(encoding="utf-8")
        texts[title] = next(one for one in re.findall(r"/\*(.*?)\*/", code, re.S) if "Copyright" in one)
    return _PACKAGES + "".join(
        f"\n\n{'=' * 80}\n{title}\n\n{text.strip()}\n" for title, text in texts.items()
    )


def main() -> None:
    """Build what is named, or all."""
    tree = Tree(*(Path(name).resolve() for name in sys.argv[1:5]))
    configure(tree)
    _write(tree.out / "build.ninja", plan(tree))
    subprocess.run(["nice", "-n", "19", "ninja", "-C", tree.out, *sys.argv[5:]], check=True)
    made = tree.out / "nvptx.wasm"
    if made.exists():
        (HERE / "nvptx.wasm.gz").write_bytes(gzip.compress(made.read_bytes(), 9, mtime=0))
        _write(HERE / "NOTICES.txt", notices(tree))


if __name__ == "__main__":
    main()
