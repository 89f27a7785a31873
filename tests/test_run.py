"""Running: order of outputs, namespaces of tabs, what is kept, what is said when a lesson goes wrong."""

import os
from typing import Any

import pytest

from tilewise.build.run.runner import LessonRun
from tilewise.errors import LessonError
from tilewise.outputs import Text


def texts(run: LessonRun) -> list[list[str]]:
    return [[output.text() for output in outputs] for outputs in run.outputs]


COUNTING = """# %%
from pathlib import Path

runs = Path(__file__).parents[2] / ".cache" / "count"  # no input: caches never are
runs.parent.mkdir(exist_ok=True)
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
print("ran")

# %% [markdown]
# Prose.
"""


def count(project: Any) -> int:
    file = project.root / ".cache" / "count"
    return len(file.read_text()) if file.exists() else 0


def test_a_tab_sees_what_came_before_and_exports_what_it_defines(project):
    run = project.run(
        project.lesson(
            "# %%\nscale = 2\n\n# %% tab='A'\n".replace("'", '"')
            + 'def double(x):\n    return scale * x\n\n\nscale_of_a = scale\n\n# %% tab="B"\n'
            "print('double' in globals())\ntriple = 3\n\n# %%\nprint(double(4), triple, scale_of_a)\n"
        )
    )
    assert texts(run)[2:] == [["False"], ["8 3 2"]]


def test_a_cell_whose_packages_are_absent_is_skipped(project):
    run = project.run(project.lesson('# %% needs="gpu"\nraise ValueError\n\n# %% needs="numba jax"\nx = 1\n'))
    assert run.skipped == {0: ("gpu",), 1: ("jax",)}
    assert run.outputs == ((), ())


def test_a_skipped_tab_leaves_stand_ins_for_its_functions_to_the_cells_below(project):
    run = project.run(
        project.lesson(
            '# %% tab="JAX" needs="jax"\nimport jax\n\n\ndef double(x):\n    return jax.double(x)\n\n'
            '# %% tab="NumPy"\ntriple = 3\n\n# %%\nprint(double, triple, "jax" in globals())\n'
        )
    )
    assert run.skipped == {0: ("jax",)}
    assert texts(run)[2] == ["needs jax 3 False"]


def test_prose_and_the_place_of_code_execute_nothing(project):
    runner = project.runner()
    lesson = project.lesson(COUNTING)
    first = runner.run(lesson)
    moved = project.lesson(
        "# %% [markdown]\n# A new first cell.\n\n" + COUNTING.replace("Prose", "Other prose")
    )
    second = runner.run(moved)
    again = project.runner().run(moved)
    assert count(project) == 1
    assert [first.executed, second.executed, again.executed] == [True, False, False]
    assert texts(second) == [[], ["ran"], []]
    assert first.digest == second.digest == again.digest


def test_code_executes_again(project):
    runner = project.runner()
    runner.run(project.lesson(COUNTING))
    runner.run(project.lesson(COUNTING.replace("'ran'", "'RAN'").replace('"ran"', '"RAN"')))
    assert count(project) == 2


def test_an_imported_module_executes_again(project):
    project.write("lessons/part/sizes.py", "N = 1\n")
    lesson = project.lesson("# %%\nfrom sizes import N\nprint(N)\n")
    runner = project.runner()
    assert texts(runner.run(lesson)) == [["1"]]
    project.write("lessons/part/sizes.py", "N = 2\n")
    assert texts(runner.run(lesson)) == [["2"]]
    assert not (project.root / "lessons/part/__pycache__").exists()


def test_a_file_that_was_read_or_looked_for_executes_again(project):
    lesson = project.lesson(
        "# %%\ntry:\n    print(open('data.txt').read())\nexcept FileNotFoundError:\n    print('absent')\n"
    )
    runner = project.runner()
    assert texts(runner.run(lesson)) == [["absent"]]
    project.write("data.txt", "here")
    assert texts(runner.run(lesson)) == [["here"]]
    assert project.root / "data.txt" in runner.run(lesson).inputs
    assert texts(project.runner().run(lesson)) == [["here"]]
    project.write("data.txt", "there")
    assert texts(project.runner().run(lesson)) == [["there"]]


def test_a_broken_cache_is_as_good_as_none(project):
    lesson = project.lesson("# %%\nprint(1)\n")
    project.run(lesson)
    (kept,) = (project.root / ".cache/runs").iterdir()
    kept.write_text("{")
    assert texts(project.run(lesson)) == [["1"]]


def test_a_failure_is_not_kept(project):
    project.write("lessons/part/sizes.py", "N = 0\n")
    lesson = project.lesson("# %%\nfrom sizes import N\nassert N\n")
    runner = project.runner()
    with pytest.raises(LessonError):
        runner.run(lesson)
    project.write("lessons/part/sizes.py", "N = 1\n")
    assert runner.run(lesson).executed


def test_a_long_output_is_cut_and_said(project):
    run = project.run(project.lesson("# %%\nprint('x' * 10_000_000)\n"), output_limit=1000)
    (output,) = run.outputs[0]
    assert isinstance(output, Text)
    first, said = output.content.split("\n")
    assert first == "x" * 1000
    assert said == "[cut here: 9,999,001 characters more than the 1,000 that a page keeps]"


def test_the_runner_goes_on_after_every_kind_of_failure(project):
    runner = project.runner(time_limit_s=1)
    for code in ("1 / 0", "import sys; sys.exit(1)", "import os; os._exit(3)", "while True: pass"):
        with pytest.raises(LessonError):
            runner.run(project.lesson(f"# %%\n{code}\n"))
    assert texts(runner.run(project.lesson("# %%\nprint(1)\n"))) == [["1"]]


def test_an_environment_tells_lessons_that_they_are_built(project):
    lesson = project.lesson(
        "# %%\nfrom os import environ, getcwd\n"
        "print(environ['TILEWISE_BUILD'], environ['TILEWISE_BACKEND'], getcwd())\n"
    )
    assert texts(project.run(lesson)) == [[f"1 simulator {os.path.realpath(project.root)}"]]


@pytest.mark.parametrize(
    ("module", "code", "said"),
    [
        (
            "x = 1\n1 / 0\n",
            "import broken",
            "ZeroDivisionError: division by zero, in lessons/part/broken.py:2",
        ),
        ("x = 1\nif:\n", "import broken", "SyntaxError: invalid syntax, in lessons/part/broken.py:2"),
        (
            "def go():\n    return {}['k']\n",
            "import broken\n\nbroken.go()",
            "KeyError: 'k', in lessons/part/broken.py:2",
        ),
    ],
    ids=["while it loads", "in its syntax", "in its function"],
)
def test_a_fault_in_a_module_of_the_project_is_said_with_its_line(project, module, code, said):
    project.write("lessons/part/broken.py", module)
    lesson = project.lesson(f"# %%\n{code}\n")
    last = len(lesson.text.rstrip("\n").split("\n"))
    with pytest.raises(LessonError) as caught:
        project.run(lesson)
    assert str(caught.value) == f"lessons/part/one.py:{last}: {said}"


def test_what_a_lesson_does_to_its_process_does_no_harm(project):
    project.write("lessons/part/speaking.py", "print('loaded')\n")
    lesson = project.lesson(
        "# %%\nimport os, socket, sys, threading, time\n\nimport speaking\n\n"
        "os.chdir('/')\nsys.path[:] = []\nsys.stdout.write('no line end')\nprint('err', file=sys.stderr)\n\n"
        "# %%\nthreading.Thread(target=time.sleep, args=(1000,)).start()\nsocket.socket().close()\n"
        "if os.fork() == 0:\n    print('never seen')\nelse:\n    os.wait()\n    print('parent')\n\n"
        "# %%\nprint('\\ud800')\n"
    )
    assert texts(project.run(lesson)) == [["loaded\nno line end"], ["parent"], ["\ufffd"]]


def test_two_runs_of_a_lesson_are_equal_bytes(project):
    from tilewise.build.page import render
    from tilewise.course.order import Course

    lesson = project.lesson(
        "# %%\nimport random\n\nimport numpy as np\n\nfrom tilewise import Kernel, publish\n\n"
        "print({'a', 'b', 'c'}, hash('x'), random.random(), np.random.rand())\n"
        "publish(**{name: 1 for name in {'x', 'y', 'z'}})\n"
    )
    made = []
    for _ in range(2):
        for kept in (project.root / ".cache").glob("runs/*"):
            kept.unlink()
        run = project.run(lesson)
        assert run.executed
        made.append(render(lesson, run, Course.of([lesson])))
    assert made[0] == made[1]


def test_printed_text_is_what_a_terminal_would_leave(project):
    lesson = project.lesson(
        "# %%\nprint('10%\\r20%\\n\\x1b[31mred\\x1b[0m \\x00\\x07\\tend\\x1b]0;title\\x07')\n"
    )
    assert texts(project.run(lesson)) == [["20%\nred \ufffd\ufffd\tend"]]
