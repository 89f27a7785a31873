"""Values that are kept in a folder from one build to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from tilewise.mkdocs_plugin.file_cache import CacheError, FileCache, KeptTemplates, usable


def test_what_is_stored_is_there_for_the_next_process(tmp_path: Path) -> None:
    FileCache(tmp_path, at_most=9).store("key", {"a": 1})
    assert FileCache(tmp_path, at_most=9).load("key", dict) == {"a": 1}
    assert FileCache(tmp_path, at_most=9).load("key", list) is None
    assert FileCache(tmp_path, at_most=9).load("other", dict) is None


@pytest.mark.parametrize("content", [b"", b"\x80", b"no pickle", b"\x80\x04cnowhere\nnothing\n."])
def test_a_damaged_value_counts_as_absent(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    assert FileCache(tmp_path, at_most=9).load("key", dict) is None


def test_a_full_disk_costs_the_cache_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Any:
        raise OSError(28, "No space left on device")

    cache = FileCache(tmp_path / "cache", at_most=9)
    monkeypatch.setattr(Path, "write_bytes", full)
    cache.store("key", [1])
    cache.tidy()
    assert cache.load("key", list) is None
    environment = Environment(bytecode_cache=KeptTemplates(cache))
    assert environment.from_string("{{ a }}").render(a=1) == "1"


def test_a_folder_that_cannot_be_used_is_named_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(CacheError, match=r"cannot be written: .*TILEWISE_CACHE=/path/to/folder"):
        usable(tmp_path / "file" / "cache")


@pytest.mark.parametrize("damage", [lambda data: data[:9], lambda data: b"", lambda data: data[:-5]])
def test_a_template_is_compiled_once_unless_its_file_is_damaged(tmp_path: Path, damage: Any) -> None:
    from jinja2 import DictLoader

    def made() -> Environment:
        cache = KeptTemplates(FileCache(tmp_path, at_most=9))
        return Environment(loader=DictLoader({"a": "{{ 1 + 1 }}"}), bytecode_cache=cache)

    assert made().get_template("a").render() == "2"
    (file,) = tmp_path.iterdir()
    again = made()
    again.compile = None  # type: ignore[assignment, method-assign]
    assert again.get_template("a").render() == "2"
    file.write_bytes(damage(file.read_bytes()))
    assert made().get_template("a").render() == "2"
