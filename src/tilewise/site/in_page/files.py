"""The compiler's files, which a page fetches once its reader wants to edit.

In: npm packages, pinned in ``packages``; the project's ``nvptx/nvptx.wasm.gz``; this package's Python. Out:
the files by name, and a list of them with their sizes and hashes, which the page holds them to. Packing takes
seconds, so what comes from npm is kept packed in the cache.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tilewise.site import frontend

PACKAGES = Path(__file__).with_name("packages")
BACKEND = "nvptx/nvptx.wasm.gz"
"""LLVM's optimiser and NVPTX backend, in a checkout; ``nvptx/build.py`` makes it."""
LIST = "list.json"
_COURSE = Path(__file__).parents[2]
_CLANG, _PYTHON = "@yowasp/clang/gen", "pyodide"
_MODULES = {"clang.mjs": f"{_CLANG}/bundle.js"} | {
    name: f"{_PYTHON}/{name}" for name in ("pyodide.mjs", "pyodide.asm.mjs")
}
"""Scripts, which a browser fetches by itself."""
_PACKED = [f"{_CLANG}/llvm.core{number}.wasm" for number in ("", 2, 3, 4)] + [f"{_PYTHON}/pyodide.asm.wasm"]
_STDLIB = f"{_PYTHON}/python_stdlib.zip"
_PACKAGES_OF_COURSE = ("cuda", "figures", "gpu", "kernel", "simulator")
_MODULES_OF_COURSE = ("__init__.py", "bf16.py", "errors.py", "site/__init__.py")
_OF_COURSE = (*_MODULES_OF_COURSE, "site/play/__init__.py", "site/play/child.py", "site/in_page/__init__.py")
_TYPING = "from numpy import ndarray as NDArray\nArrayLike = DTypeLike = NDArray\n"
_ENGINE = (".py", ".def")
"""What of the simulator's engine is read: the page has it compiled."""


_WRITES = re.compile(
    r"function trampoline\d+\(arg0, arg1, arg2, arg3\) \{\n"
    r"(?=(?:(?! *function ).*\n)*?.*\.blockingWriteAndFlush\()"
)
_AT_ONCE = """\
const to = captureTable3.get(handleTable3[(arg0 << 1) + 1] & ~T_FLAG);
if (to?.callback) {
to.callback(new Uint8Array(memory0.buffer, arg1, arg2));
dataView(memory0).setInt8(arg3, 0, true);
return;
}
"""


def with_quick_output(script: str) -> str:
    """The script that runs clang, but what clang writes is handed on at once.

    Clang writes a syntax tree in millions of pieces of a few letters, and each would be a task of its own.

    Raises:
        FrontendError: it is another script than that of the pinned package.
    """
    made, count = _WRITES.subn(lambda found: found[0] + _AT_ONCE, script)
    if count != 1:
        raise frontend.FrontendError("the script of @yowasp/clang is not the one that is expected")
    return made


def compiler_files(root: Path, during: frontend.During) -> dict[str, Path | bytes]:
    """The files by name; empty where the project has no ``BACKEND``.

    Args:
        root: the project's folder.
        during: mentions what takes long.

    Raises:
        FrontendError: the packages could not be fetched.
    """
    backend = root / BACKEND
    if not backend.is_file():
        return {}
    made: dict[str, Path | bytes] = {path.name: path for path in sorted(_from_npm(root, during).iterdir())}
    made |= {backend.name: backend, "course.zip": course_zip(), "NOTICES.txt": root / "nvptx/NOTICES.txt"}
    listed = {}
    for name, held in made.items():
        content = held if isinstance(held, bytes) else held.read_bytes()
        size = len(gzip.compress(content, 6)) if name.endswith(".mjs") else len(content)  # as a host sends it
        listed[name] = {"bytes": size, "sha256": hashlib.sha256(content).hexdigest()}
    del listed["NOTICES.txt"]
    return {**made, LIST: json.dumps(listed).encode()}


def _from_npm(root: Path, during: frontend.During) -> Path:
    """What comes from npm, packed."""
    mark = hashlib.sha256((PACKAGES / "package-lock.json").read_bytes() + Path(__file__).read_bytes())
    cache = frontend.cache_folder(root)
    folder = cache / f"compiler-{mark.hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    with during("Fetching the compiler for pages from npm"):
        modules = frontend.packages(PACKAGES, root) / "node_modules"
    with during("Packing the compiler for pages"), tempfile.TemporaryDirectory(dir=cache) as name:
        fresh = Path(name) / "compiler"
        fresh.mkdir()
        for made, source in {**_MODULES, Path(_STDLIB).name: _STDLIB}.items():
            shutil.copyfile(modules / source, fresh / made)
        script = fresh / "clang.mjs"
        script.write_text(with_quick_output(script.read_text(encoding="utf-8")), encoding="utf-8")
        for source in _PACKED:
            packed = gzip.compress((modules / source).read_bytes(), 9, mtime=0)
            (fresh / f"{Path(source).name}.gz").write_bytes(packed)
        info = json.loads((modules / _PYTHON / "pyodide-lock.json").read_text(encoding="utf-8"))["info"]
        (fresh / "pyodide-lock.json").write_text(json.dumps({"info": info, "packages": {}}), encoding="utf-8")
        if not folder.is_dir():
            fresh.rename(folder)
    return folder


def course_zip() -> bytes:
    """The Python that compiles, with the headers that it reads, as a page unpacks it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in _course():
            _put(packed, f"tilewise/{path.relative_to(_COURSE).as_posix()}", path)
        _put(packed, "tilewise/site/in_page/answering.py", Path(__file__).with_name("answering.py"))
        _put(packed, "numpy/__init__.py", Path(__file__).with_name("stand_in.py"))
        packed.writestr(zipfile.ZipInfo("numpy/typing.py", (1980, 1, 1, 0, 0, 0)), _TYPING)
    return made.getvalue()


def _course() -> Iterator[Path]:
    yield from (_COURSE / name for name in _OF_COURSE)
    for package in _PACKAGES_OF_COURSE:
        for path in sorted((_COURSE / package).rglob("*")):
            inside = path.relative_to(_COURSE).parts
            is_read = path.suffix not in (".css", ".js", ".pyc")
            is_read &= "engine" not in inside or path.suffix in _ENGINE
            if path.is_file() and is_read:
                yield path


def _put(packed: zipfile.ZipFile, name: str, path: Path) -> None:
    """Add a file without its date, so that the same files make the same archive."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    packed.writestr(entry, path.read_bytes())
