"""Builds of small sites: kept, as ``mkdocs serve`` makes them, and cold, from nothing."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort

import tilewise
from tilewise.simulator.machine import prepare

URL = "http://127.0.0.1:8000/"


@dataclass
class Built:
    """What a build left behind."""

    files: dict[str, bytes]
    warnings: list[str]
    failure: str = ""


@dataclass
class Serving:
    """The builds of one ``mkdocs serve``, without its server."""

    project: Path
    site: Path
    builds: int = field(default=0)

    def build(self) -> Built:
        """Build as the server does after a save."""
        heard = Heard()
        logger = logging.getLogger("mkdocs")
        logger.addHandler(heard)
        failure = ""
        try:
            config = load_config(str(self.project / "mkdocs.yml"), site_dir=str(self.site))
            if not self.builds:
                config.plugins.on_startup(command="serve", dirty=False)
            self.builds += 1
            config.site_url = URL
            self.config = config
            build(config, serve_url=URL)
        except Abort as error:
            failure = str(error)
        finally:
            logger.removeHandler(heard)
        return Built(read(self.site), heard.messages, failure)

    def close(self) -> None:
        self.config.plugins.on_shutdown()


class Heard(logging.Handler):
    """Keeps warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(f"{record.levelname} {record.getMessage()}")


def forget_plugins() -> None:
    """Make MkDocs forget the plugins it keeps for the rest of a process, as a new process would."""
    dict(MkDocsConfig._schema)["plugins"].plugin_cache.clear()


@functools.cache
def simulator() -> Path:
    """The simulator's compiled machine, in the cache of whoever runs the tests: it takes 20 s to compile."""
    return prepare()


def link_assets(web_cache: Path, cache: Path) -> None:
    """Let a cold cache find what no lesson decides and is built already: styles, scripts and the simulator."""
    cache.mkdir(parents=True, exist_ok=True)
    (web_cache / "web").mkdir(parents=True, exist_ok=True)
    if not (cache / "web").exists():
        (cache / "web").symlink_to(web_cache / "web", target_is_directory=True)
    machine = simulator()
    if not (cache / machine.name).exists():
        shutil.copy(machine, cache)


def cold(project: Path, folder: Path, web_cache: Path) -> Built:
    """Build a project in a process of its own with an empty cache, as if nothing had been built before.

    It runs the code that the test itself runs, wherever another copy may be installed.
    """
    cache = folder / "cache"
    link_assets(web_cache, cache)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from sites import Serving; from pathlib import Path\n"
        "import json; made = Serving(Path(sys.argv[2]), Path(sys.argv[3])); built = made.build()\n"
        "made.close()\n"
        "print('RESULT' + json.dumps([built.warnings, built.failure]))"
    )
    site = folder / "site"
    site.mkdir(parents=True, exist_ok=True)
    home = str(Path(tilewise.__file__).parents[1])
    others = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent), str(project), str(site)],
        env={**os.environ, "TILEWISE_CACHE": str(cache), "PYTHONPATH": os.pathsep.join([home, *others])},
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "RESULT" in done.stdout, done.stdout + done.stderr
    warnings, failure = json.loads(done.stdout.rpartition("RESULT")[2])
    return Built(read(site), warnings, failure)


def code_of_tilewise() -> dict[str, str]:
    """The hashes of everything that makes pages, by path: all builds of one test need the same."""
    home = Path(tilewise.__file__).parent
    return {
        path.relative_to(home).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in home.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def read(site: Path) -> dict[str, bytes]:
    """Every file of a site but for what only carries the time of the build."""
    return {
        path.relative_to(site).as_posix(): path.read_bytes()
        for path in sorted(site.rglob("*"))
        if path.is_file() and path.name != "sitemap.xml.gz"
    }


def edit(path: Path, old: str, new: str) -> None:
    """Replace text in a file; its time of change differs even where the clock is coarse."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} has no {old!r}"
    path.write_text(text.replace(old, new), encoding="utf-8")
    now = time.time_ns()
    os.utime(path, ns=(now, now))
