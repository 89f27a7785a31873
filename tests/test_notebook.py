"""Notebooks: valid, the same bytes every time, and they run."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient

from tilewise.build.installation import NOTEBOOKS, Package
from tilewise.build.notebook import to_notebook
from tilewise.course.lesson import parse

TEXT = """# ---
# title: One
# summary: "How many?"
# ---

# %% [markdown]
# Threads form a warp.
#
# ??? definition "Warp | warps"
#     Thirty-two threads.
#
#     In step.

# %%
from tilewise import Table, show

show(Table(["threads"], [[32]], caption="One warp."))

# %% tab="A"
x = 1

# %% tab="B" needs="gpu"
y = 1
"""


@pytest.mark.filterwarnings("ignore")  # the kernel's own libraries warn
def test_a_notebook_runs_and_prints_the_pages_tables():
    notebook = nbformat.reads(to_notebook(parse(TEXT, "a.py", "a")).decode(), as_version=4)
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    printed = "".join(output.text for output in notebook.cells[2].outputs if output.output_type == "stream")
    assert printed == "threads\n-------\n     32\nOne warp.\n"


SHOWING = """
# %%
%load_ext tilewise.cli.notebook

# %%
from tilewise import Table, show
from tilewise.figures import bars

show(Table(["threads"], [[32]]))
show(bars({"a": 1.0, "b": 2.0}, title="Two", caption="Two bars.", x="bars"))
"""


@pytest.mark.filterwarnings("ignore")  # the kernel's own libraries warn
def test_with_the_extension_a_notebook_has_charts_and_texts_in_their_order():
    cells = [nbformat.v4.new_code_cell(one) for one in SHOWING.split("# %%\n")[1:]]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    table, chart = notebook.cells[1].outputs
    assert table.data == {"text/plain": "threads\n-------\n     32"}
    assert chart.data["application/vnd.plotly.v1+json"]["data"][0]["type"] == "bar"
    assert chart.data["text/plain"].startswith("Figure: Two")


PACKAGE = Package("https://host.example/owner/name", "v1.2.0")


def test_the_first_cell_installs_the_package_at_its_revision():
    notebook = nbformat.reads(to_notebook(parse(TEXT, "a.py", "a"), package=PACKAGE).decode(), as_version=4)
    nbformat.validate(notebook)
    first = notebook.cells[0]
    assert first.cell_type == "code"
    assert "git clone --quiet --filter=blob:none https://host.example/owner/name tilewise" in first.source
    assert "git -C tilewise checkout --quiet v1.2.0" in first.source
    assert "%pip install" in first.source and "[cuda12,simulator,node]" in first.source
    plain = nbformat.reads(to_notebook(parse(TEXT, "a.py", "a")).decode(), as_version=4)
    assert [cell.source for cell in notebook.cells[1:]] == [cell.source for cell in plain.cells]


def test_the_first_cell_installs_once_and_again_after_a_broken_try(tmp_path):
    """Run with a stand-in for git, pip and cd."""
    cell = PACKAGE.installation()
    for magic in ("!", "%"):
        cell = re.sub(rf"^( *){magic}(.*)$", r"\1run('\2')", cell, flags=re.M)
    done: list[str] = []

    def run(command: str) -> None:
        done.append(" ".join(command.split()[:2]))
        if command.startswith("git clone"):
            (tmp_path / "tilewise" / "lessons").mkdir(parents=True)

    def executed(installed: bool) -> list[str]:
        done.clear()
        find = SimpleNamespace(origin="there" if installed else None)
        exec(
            cell.replace("from importlib.util import find_spec", ""),
            {"run": run, "find_spec": lambda _: find},
        )
        return list(done)

    shows = "load_ext tilewise.cli.notebook"
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert executed(False) == ["git clone", "git -C", "pip install", "cd -q", shows]
        assert executed(False) == ["git -C", "pip install", "cd -q", shows], "a clone without its package"
        assert executed(True) == ["cd -q", shows], "after a restart"
        os.chdir("tilewise")
        assert executed(True) == [shows]
    finally:
        os.chdir(here)


def test_colab_opens_notebooks_of_repositories_on_github_only():
    for repository in ("https://github.com/owner/a.name", "https://github.com/owner/a.name.git"):
        address = Package(repository, "v1").colab("part/one")
        assert (
            address
            == f"https://colab.research.google.com/github/owner/a.name/blob/{NOTEBOOKS}/part/one.ipynb"
        )
    assert (
        PACKAGE.colab("part/one") == Package("https://github.com.example/a/b", "v1").colab("part/one") == ""
    )
    workflow = (Path(__file__).parents[1] / ".github/workflows/pages.yml").read_text()
    assert f"--initial-branch={NOTEBOOKS}" in workflow and f'$GITHUB_REPOSITORY" {NOTEBOOKS}\n' in workflow


@pytest.mark.parametrize(
    ("repository", "revision"),
    [
        ("https://host.example/a; rm -rf ~", "v1"),
        ("git@host.example:owner/name", "v1"),
        ("https://host.example/a", "--upload-pack=x"),
        ("https://host.example/a", "v1; true"),
    ],
)
def test_a_repository_or_revision_that_a_shell_could_misread_is_refused(repository, revision):
    with pytest.raises(ValueError, match="is no"):
        Package(repository, revision)
