"""The engine that a wheel carries: taken where it fits, else one is compiled here."""

import platform
from pathlib import Path

import pytest

from tilewise.simulator.compile.toolchain import zig
from tilewise.simulator.engine import built, machine


@pytest.fixture
def carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the wheel has it, in which nothing stands yet."""
    monkeypatch.setattr(built, "FOLDER", tmp_path)
    return tmp_path


def here() -> Path:
    return built._path(built.PLATFORMS[platform.system(), platform.machine()])


def test_a_checkout_has_none(carried):
    assert built.library() is None
    assert machine.prepare() == machine._compiled()


@pytest.mark.parametrize("name", ["other sources", "an unknown platform", "an old processor"])
def test_one_that_does_not_fit_is_not_taken(name, carried, monkeypatch):
    here().write_bytes(b"")
    assert built.library() == (here() if built._has_avx2() else None)
    if name == "other sources":
        monkeypatch.setattr(built, "sources_hash", lambda: "0" * 16)
    elif name == "an unknown platform":
        monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    else:
        monkeypatch.setattr(built, "PLATFORMS", {(platform.system(), platform.machine()): "x86_64-linux-gnu"})
        monkeypatch.setattr(built, "_has_avx2", lambda: False)
    assert built.library() is None


@pytest.mark.sweep("src/tilewise/simulator/engine", packages=["ziglang"])
def test_the_one_for_this_platform_loads(carried):
    target = built.PLATFORMS[platform.system(), platform.machine()]
    done = built.compile_engine(zig(), here(), *built.LIBRARY, "-target", target)
    assert done.returncode == 0, done.stderr
    assert machine._loaded()._name == str(built.library() or machine._compiled())


def test_one_that_does_not_load_gives_way(carried, monkeypatch):
    here().write_bytes(b"cut short")
    monkeypatch.setattr(built, "_has_avx2", lambda: True)
    assert machine._loaded()._name == str(machine._compiled())
    assert here().is_file()


def test_compiling_is_announced(tmp_path, capsys):
    compiler = tmp_path / "zig"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; echo > "$2"\n')
    compiler.chmod(0o755)
    machine._compile(compiler, tmp_path / "machine.so", ())
    said = capsys.readouterr().err.splitlines()
    assert "once (about 20 s)" in said[0] and "is ready after" in said[1]
