"""Values that are kept in a folder from one build to the next."""

from pathlib import Path
from typing import Any

import pytest

from tilewise.build.file_cache import CacheError, FileCache, usable


def test_what_is_stored_is_there_for_the_next_process(tmp_path):
    FileCache(tmp_path, at_most=9).store("key", {"a": 1})
    assert FileCache(tmp_path, at_most=9).load("key", dict) == {"a": 1}
    assert FileCache(tmp_path, at_most=9).load("key", list) is None
    assert FileCache(tmp_path, at_most=9).load("other", dict) is None


def test_what_is_made_is_made_once(tmp_path):
    assert FileCache(tmp_path, at_most=9).made("key", list, lambda: [1]) == [1]
    assert FileCache(tmp_path, at_most=9).made("key", list, lambda: [2]) == [1]
    assert FileCache(tmp_path, at_most=9).made("key", dict, dict) == {}  # another type: made anew
    with pytest.raises(ZeroDivisionError):
        FileCache(tmp_path, at_most=9).made("other", int, lambda: 1 // 0)
    assert FileCache(tmp_path, at_most=9).load("other", int) is None


@pytest.mark.parametrize("content", [b"", b"\x80", b"no pickle", b"\x80\x04cnowhere\nnothing\n."])
def test_a_damaged_value_counts_as_absent(tmp_path, content):
    (tmp_path / "key").write_bytes(content)
    assert FileCache(tmp_path, at_most=9).load("key", dict) is None


def test_a_full_disk_costs_the_cache_and_nothing_else(tmp_path, monkeypatch):
    def full(*_: object) -> Any:
        raise OSError(28, "No space left on device")

    cache = FileCache(tmp_path / "cache", at_most=9)
    monkeypatch.setattr(Path, "write_bytes", full)
    cache.store("key", [1])
    cache.tidy()
    assert cache.load("key", list) is None


def test_a_folder_that_cannot_be_used_is_named_with_a_way_out(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(CacheError, match=r"cannot be written: .*TILEWISE_CACHE=/path/to/folder"):
        usable(tmp_path / "file" / "cache")
