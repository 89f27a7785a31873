"""Modules that the architecture page names are there, and imports go one way, between files and packages."""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
LAYERS = """
    errors bf16
    models
    figures cuda
    outputs
    simulator gpu
    frameworks
    kernel
    measurements puzzles
    kernels course
    build
    site
    cli
    __main__
"""
"""Each package, or module of none, imports only what stands in a line above its own."""
LEVEL = {name: level for level, line in enumerate(LAYERS.split("\n")) for name in line.split()}
FOR_LESSONS = {
    "kernels",
    "bf16",
    "figures",
    "frameworks",
    "gpu",
    "kernel",
    "measurements",
    "models",
    "outputs",
}
AT_THE_TOP = {"__init__", "__main__", "bf16", "errors", "frameworks"}


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
            assert node.level == 0, f"{ast.unparse(node)}: name the module from tilewise on"
            names = {f"{node.module}.{entry.name}" for entry in node.names}
            found |= names & FILES.keys() or {node.module}
        else:
            found |= imported(node)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module":
                found |= {entry.value for entry in node.args if isinstance(entry, ast.Constant)}
    return found & FILES.keys()


GRAPH = {name: imported(ast.parse(file.read_text(encoding="utf-8"))) for name, file in FILES.items()}


def test_no_circle_of_imports():
    assert "tilewise.kernel.launch" in GRAPH["tilewise.kernel.kernel"], "imports are found"
    assert "tilewise.simulator" in GRAPH["tilewise.kernel.kernel"], "also inside functions"
    TopologicalSorter(GRAPH).prepare()  # raises CycleError, which names the modules


def against_the_order() -> Iterator[str]:
    """What a module imports from a package that is not in a line above its own."""
    for name, imports in GRAPH.items():
        own = name.split(".")[1:2]
        for other in imports - {"tilewise"}:
            theirs = other.split(".")[1:2]
            if own and own != theirs and LEVEL[theirs[0]] >= LEVEL[own[0]]:
                yield f"{name} imports {other}"


def test_no_package_imports_one_that_comes_later():
    assert {name.split(".")[1] for name in FILES if name != "tilewise"} == LEVEL.keys()
    assert sorted(against_the_order()) == []


def test_few_modules_stand_in_no_package():
    assert {file.stem for file in (SOURCE / "tilewise").glob("*.py")} == AT_THE_TOP


def test_lessons_import_public_packages_alone():
    for file in (SOURCE.parent / "lessons").glob("*/*.py"):
        names = re.findall(r"^ *from tilewise\.(\w+)", file.read_text(encoding="utf-8"), re.M)
        assert set(names) <= FOR_LESSONS, file


def test_each_package_says_in_one_sentence_what_it_is():
    for name, file in FILES.items():
        if file.name == "__init__.py" and name.count(".") == 1:
            text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            assert text.split("\n")[0].endswith("."), f"{name}: {text[:80]!r}"


def test_the_architecture_page_names_modules_that_are_there_and_every_package():
    page = (SOURCE.parent / "docs/reference/architecture.md").read_text(encoding="utf-8")
    paths = re.findall(r"`([\w/.]*/[\w.]*|\w+\.(?:py|json|js|c))`", page)
    assert len(paths) > 30
    here = [SOURCE / "tilewise", SOURCE.parent]
    assert [path for path in paths if not any((root / path).exists() for root in here)] == []
    packages = {name for name, file in FILES.items() if file.name == "__init__.py" and name.count(".") == 1}
    assert set(re.findall(r"^::: (\S+)$", page, re.M)) == packages
    shown = page.partition("```text\n")[2].partition("```")[0]
    assert shown.split() == LAYERS.split()
    assert len(shown.splitlines()) == len(LAYERS.split("\n")) - 2
