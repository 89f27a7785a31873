"""The library contender cuBLASLt: which algorithm it takes, and what is said where there is none."""

from types import SimpleNamespace

import pytest

from tilewise.gpu import cublas_lt
from tilewise.gpu.timing import Timing


def test_the_algorithm_with_the_least_median_is_taken(monkeypatch):
    calls = [lambda at=at: at for at in range(3)]
    medians = {"0": 7.0, "1": 5.0, "2": 6.0}
    monkeypatch.setattr(cublas_lt, "algorithms", lambda a, b, out: calls)
    monkeypatch.setattr(
        cublas_lt,
        "time_contenders",
        lambda given, plan: [Timing(one.label, (), 0.0, medians[one.label], 0.0) for one in given],
    )
    assert cublas_lt.fastest(None, None, None)() == 1


def test_a_missing_library_is_an_import_error_so_that_the_row_is_left_out(
    monkeypatch,
):
    def missing(path: str, mode: int = 0) -> None:
        raise OSError(path)

    monkeypatch.setattr(cublas_lt.ctypes, "CDLL", missing)
    cublas_lt._library.cache_clear()
    assert cublas_lt.version() == ""
    with pytest.raises(ImportError, match="libcublasLt was not found"):
        cublas_lt._library()


def test_the_version_of_a_loaded_library(monkeypatch):
    loaded = SimpleNamespace(cublasLtGetVersion=lambda: 130201)
    monkeypatch.setattr(cublas_lt.ctypes, "CDLL", lambda path, mode: loaded)
    assert cublas_lt.version() == "13.2.1"
