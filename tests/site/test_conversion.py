"""A page that documents modules is converted once, and registers the same names each time."""

from pathlib import Path

import pytest
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tilewise.site.conversion import Conversions, Surroundings, whole_words

CONFIG = """
site_name: A module
docs_dir: docs
plugins:
  - autorefs
  - mkdocstrings:
      handlers:
        python:
          paths: [modules]
"""


def converted(root: Path, modules: str) -> tuple[Page, MkDocsConfig]:
    """A page as a new process converts it."""
    config = load_config(str(root / "mkdocs.yml"))
    config = config.plugins.on_config(config)
    file = File("page.md", str(root / "docs"), str(root / "site"), use_directory_urls=True)
    page = Page(None, file, config)
    page.markdown = "# A page\n\n::: documented_here\n\n[link][documented_here.scale]\n"
    config.plugins.on_page_markdown(page.markdown, page=page, config=config, files=Files([file]))
    around = Surroundings("configuration", "files", lambda: modules)
    Conversions(root / "kept").render(page, config, Files([file]), around)
    return page, config


def test_a_page_of_modules_is_converted_once_for_their_text(tmp_path, monkeypatch):
    for name, text in {
        "mkdocs.yml": CONFIG,
        "docs/page.md": "",
        "modules/documented_here.py": 'def scale(x: int) -> int:\n    """Twice as much."""\n',
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    page, config = converted(tmp_path, "one")
    with monkeypatch.context() as patched:
        patched.setattr(Conversions, "_convert", lambda *_: pytest.fail("converted again"))
        again, later = converted(tmp_path, "one")
        with pytest.raises(pytest.fail.Exception):
            converted(tmp_path, "other")
    assert "Twice as much." in str(again.content)
    assert (again.content, again.toc.items[0].title) == (page.content, "A page")
    for name in ("_primary_url_map", "_secondary_url_map", "_title_map"):
        assert getattr(later.plugins["autorefs"], name) == getattr(config.plugins["autorefs"], name)
    assert "documented_here.scale" in later.plugins["autorefs"]._primary_url_map
    inventories = [
        each.plugins["mkdocstrings"].handlers.inventory.format_sphinx() for each in (config, later)
    ]
    assert inventories[0] == inventories[1]
    assert list(later.plugins["mkdocstrings"].handlers.seen_handlers)


def test_a_heading_does_not_break_at_a_hyphen():
    link = '<a class="headerlink" href="#or-split-k" title="to-it">¶</a>'
    made = whole_words(f'<h2 id="or-split-k">Small or split-K{link}</h2>\n<p>No split-K.</p>')
    span = '<span class="tw-unbroken">split-K</span>'
    assert made == f'<h2 id="or-split-k">Small or {span}{link}</h2>\n<p>No split-K.</p>'
