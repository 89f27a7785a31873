"""Fixtures for tests of the site: a small project, and a process that serves it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import synthetic
from sites import Serving, forget_plugins, link_assets, simulator

from tilewise.site.frontend import build_assets

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def web_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all sites, so that styles, scripts and the simulator are built at most once."""
    simulator()
    build_assets(ROOT)
    given = os.environ.get("TILEWISE_CACHE")
    return Path(given) if given else ROOT / ".cache" / "tilewise"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of four small lessons."""
    folder = tmp_path / "project"
    synthetic.write_project(folder, 4)
    return folder


@pytest.fixture
def serving(
    project: Path, tmp_path: Path, web_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Serving]:
    """A process that serves, which keeps what it can between builds."""
    monkeypatch.setenv("TILEWISE_CACHE", str(tmp_path / "cache"))
    link_assets(web_cache, tmp_path / "cache")
    forget_plugins()
    site = tmp_path / "served"
    site.mkdir()
    made = Serving(project, site)
    yield made
    made.close()
    forget_plugins()
