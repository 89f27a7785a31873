"""The compiler's files, which a page fetches when its reader starts to edit.

In: npm packages, pinned in ``packages``; the project's ``nvptx/nvptx.wasm.gz``; this package's Python. Out:
the files by name, and a list with their sizes and hashes, which the page verifies. Packing takes seconds, so
the packed npm files are cached.
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
"""LLVM's optimiser and NVPTX backend, in a checkout; ``nvptx/build.py`` builds it."""
LIST = "list.json"
_COURSE = Path(__file__).parents[2]
_CLANG, _PYTHON = "@yowasp/clang/gen", "pyodide"
_MODULES = {"clang.mjs": f"{_CLANG}/bundle.js"} | {
    name: f"{_PYTHON}/{name}" for name in ("pyodide.mjs", "pyodide.asm.mjs")
}
"""Scripts, which a browser loads as modules."""
_PACKED = [f"{_CLANG}/llvm.core{number}.wasm" for number in ("", 2, 3, 4)] + [f"{_PYTHON}/pyodide.asm.wasm"]
_STDLIB = f"{_PYTHON}/python_stdlib.zip"
_COURSE_PACKAGES = ("cuda", "figures", "gpu", "kernel", "simulator")
_COURSE_MODULES = ("__init__.py", "bf16.py", "errors.py", "site/__init__.py")
_COURSE_FILES = (*_COURSE_MODULES, "site/play/__init__.py", "site/play/child.py", "site/in_page/__init__.py")
_TYPING = "from numpy import ndarray as NDArray\nArrayLike = DTypeLike = NDArray\n"
_ENGINE = (".py", ".def")
"""Suffixes of the engine's files in the archive: the page has the engine itself as wasm."""


_WRITES = re.compile(
    r"function trampoline\d+\(arg0, arg1, arg2, arg3\) \{\n"
    r"(?=(?:(?! *function ).*\n)*?.*\.blockingWriteAndFlush\()"
)
_SYNCHRONOUS = """\
const to = captureTable3.get(handleTable3[(arg0 << 1) + 1] & ~T_FLAG);
if (to?.callback) {
to.callback(new Uint8Array(memory0.buffer, arg1, arg2));
dataView(memory0).setInt8(arg3, 0, true);
return;
}
"""


def with_quick_output(script: str) -> str:
    """Patch the script that runs clang so that it passes clang's output on synchronously.

    Clang writes a syntax tree in millions of short pieces, and each would be a task of its own.

    Raises:
        FrontendError: the script is not the pinned package's.
    """
    patched, count = _WRITES.subn(lambda match: match[0] + _SYNCHRONOUS, script)
    if count != 1:
        raise frontend.FrontendError("the script of @yowasp/clang is not the one that is expected")
    return patched


def compiler_files(root: Path, during: frontend.During) -> dict[str, Path | bytes]:
    """Return the files by name; empty if the project has no ``BACKEND``.

    Args:
        root: the project's folder.
        during: shows slow activities.

    Raises:
        FrontendError: the packages could not be fetched.
    """
    backend = root / BACKEND
    if not backend.is_file():
        return {}
    files: dict[str, Path | bytes] = {path.name: path for path in sorted(_from_npm(root, during).iterdir())}
    files |= {backend.name: backend, "course.zip": course_zip(), "NOTICES.txt": root / "nvptx/NOTICES.txt"}
    listing = {}
    for name, file in files.items():
        content = file if isinstance(file, bytes) else file.read_bytes()
        size = len(gzip.compress(content, 6)) if name.endswith(".mjs") else len(content)  # as sent by a host
        listing[name] = {"bytes": size, "sha256": hashlib.sha256(content).hexdigest()}
    del listing["NOTICES.txt"]
    return {**files, LIST: json.dumps(listing).encode()}


def _from_npm(root: Path, during: frontend.During) -> Path:
    """The folder of packed files from npm."""
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
        for target, source in {**_MODULES, Path(_STDLIB).name: _STDLIB}.items():
            shutil.copyfile(modules / source, fresh / target)
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
    """Return a zip archive of the Python code that compiles, with its headers, for the page to unpack."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in _course():
            _add(archive, f"tilewise/{path.relative_to(_COURSE).as_posix()}", path)
        _add(archive, "tilewise/site/in_page/answering.py", Path(__file__).with_name("answering.py"))
        _add(archive, "numpy/__init__.py", Path(__file__).with_name("stand_in.py"))
        archive.writestr(zipfile.ZipInfo("numpy/typing.py", (1980, 1, 1, 0, 0, 0)), _TYPING)
    return buffer.getvalue()


def _course() -> Iterator[Path]:
    yield from (_COURSE / name for name in _COURSE_FILES)
    for package in _COURSE_PACKAGES:
        for path in sorted((_COURSE / package).rglob("*")):
            inside = path.relative_to(_COURSE).parts
            is_read = path.suffix not in (".css", ".js", ".pyc")
            is_read &= "engine" not in inside or path.suffix in _ENGINE
            if path.is_file() and is_read:
                yield path


def _add(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    """Add a file with a fixed date, so that the archive is reproducible."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, path.read_bytes())
