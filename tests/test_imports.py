"""Modules that the architecture page names are there, and none imports itself on a way round."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


FILES = {name_of(file): file for file in (SOURCE / "tilewise").rglob("*.py")}


def imported(tree: ast.AST) -> set[str]:
    """Modules of the package that a file imports anywhere, but for what only a type checker reads."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {entry.name for entry in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{entry.name}" for entry in node.names}
            found |= names & FILES.keys() or {node.module}
        else:
            found |= imported(node)
    return found & FILES.keys()


def test_no_circle_of_imports() -> None:
    graph = {name: imported(ast.parse(file.read_text(encoding="utf-8"))) for name, file in FILES.items()}
    assert "tilewise.gpu.launch" in graph["tilewise.gpu.kernel"], "imports are found"
    assert "tilewise.simulator" in graph["tilewise.gpu.kernel"], "also inside functions"
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_the_architecture_page_names_modules_that_are_there_and_every_package() -> None:
    page = (SOURCE.parent / "docs/reference/architecture.md").read_text(encoding="utf-8")
    paths = re.findall(r"`([a-z_/0-9]+(?:\.py|\.c|/))`", page)
    assert len(paths) > 30
    here = [SOURCE / "tilewise", SOURCE.parent]
    assert [path for path in paths if not any((root / path).exists() for root in here)] == []
    packages = {name for name, file in FILES.items() if file.name == "__init__.py" and name.count(".") == 1}
    assert set(re.findall(r"^::: (\S+)$", page, re.M)) == packages
