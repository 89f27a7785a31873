"""What is wrong with a lesson is said once, with its place, and the last good site stays."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sites import edit, link_assets

LESSON = "lessons/part_1/lesson_02.py"
MkDocs = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def mkdocs(project: Path, tmp_path: Path, web_cache: Path) -> MkDocs:
    """Runs mkdocs in the project as an author would."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        link_assets(web_cache, tmp_path / "cache")
        return subprocess.run(
            [str(Path(sys.executable).with_name("mkdocs")), *arguments],
            cwd=project,
            env={**os.environ, "TILEWISE_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def append(project: Path, code: str) -> None:
    path = project / LESSON
    path.write_text(path.read_text(encoding="utf-8") + f"\n\n# %%\n{code}\n", encoding="utf-8")


def last_line(project: Path) -> int:
    return (project / LESSON).read_text(encoding="utf-8").rstrip("\n").count("\n") + 1


def test_a_strict_build_of_a_good_project_says_nothing_and_a_later_one_that_fails_leaves_its_site(
    mkdocs, project
):
    done = mkdocs("build", "--strict")
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert "Material for MkDocs" not in done.stderr
    for name in ("lesson_01/index.html", "lesson_01/lesson_01.py", "lesson_01/lesson_01.ipynb"):
        assert (project / "site" / "lessons" / "part_1" / name).is_file()
    page = project / "site/lessons/part_1/lesson_02/index.html"
    before = page.read_bytes()
    append(project, "1 / 0")
    assert mkdocs("build").returncode != 0
    assert page.read_bytes() == before


def test_a_link_to_no_anchor_fails_a_strict_build_that_is_quiet_too(mkdocs, project):
    path = project / LESSON
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text}\n\n# %% [markdown]\n# Read [on](lesson_01.py#nowhere).\n", encoding="utf-8")
    done = mkdocs("build", "--strict", "--quiet")
    assert done.returncode != 0
    assert f"'{LESSON}' contains a link 'lesson_01.py#nowhere'" in done.stderr
    assert "Aborted with 1 warning" in done.stdout


def test_every_broken_lesson_is_named_at_its_own_line_without_a_traceback(mkdocs, project):
    other = project / "lessons/part_1/lesson_03.py"
    append(project, "raise ValueError('wrong on purpose')")
    other.write_text(other.read_text(encoding="utf-8") + "\n\n# %%\nunknown_name\n", encoding="utf-8")
    done = mkdocs("build")
    assert done.returncode != 0
    assert f"{LESSON}:{last_line(project)}: ValueError: wrong on purpose" in done.stderr
    assert "lessons/part_1/lesson_03.py:" in done.stderr and "NameError" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("docs/index.md", "course.map", "course.mpa", 'docs/index.md:3: there is no "course.mpa".'),
        (
            "docs/index.md",
            "{{ course.map }}",
            '??? note "The lessons"\n\n    {{ course.map }}\n\nAfter the fold.',
            "docs/index.md:5: {{ course.map }} is more than one line, and indented",
        ),
        (LESSON, "$n = 2$", r"$n = \unheard$", rf"{LESSON}:8: the formula $n = \unheard$ cannot be read"),
    ],
    ids=["an unknown fragment", "an indented fragment", "a formula"],
)
def test_what_cannot_be_read_is_named_with_its_line(mkdocs, project, file, old, new, said):
    edit(project / file, old, new)
    done = mkdocs("build")
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def broken_yaml(path: Path) -> None:
    edit(path, "# needs: [", "# needs: [[")


def syntax_error(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + "\n\n# %%\ndef broken(:\n", encoding="utf-8")


def endless_loop(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + "\n\n# %%\nwhile True:\n    pass\n", encoding="utf-8")


def leaves_python(path: Path) -> None:
    path.write_text(
        path.read_text(encoding="utf-8") + "\n\n# %%\nimport sys\n\nsys.exit(3)\n", encoding="utf-8"
    )


def deleted(path: Path) -> None:
    path.unlink()


def renamed(path: Path) -> None:
    path.rename(path.with_name("another.py"))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (broken_yaml, f"{LESSON}:"),
        (syntax_error, f"{LESSON}:"),
        (endless_loop, f"{LESSON}:"),
        (leaves_python, f"{LESSON}:"),
        (deleted, "mkdocs.yml:"),
        (renamed, "mkdocs.yml:"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_serving_outlives_bad_input(serving, project, spoil, said):
    edit(project / "mkdocs.yml", "  - tilewise\n", "  - tilewise:\n      time_limit_s: 3\n")
    path = project / LESSON
    good = serving.show()
    assert good.problems == {}
    content = path.read_bytes()
    spoil(path)
    bad = serving.show()
    assert set(bad.problems) >= {"", "glossary/", "lessons/part_1/lesson_01/"}
    assert all(text.startswith(said) for text in bad.problems.values()), bad.problems
    own = [name for name in good.files if "lesson_02" in name or "lesson" not in name]
    others = good.files.keys() - set(own)
    if spoil not in (deleted, renamed):  # then other pages name the lesson otherwise
        assert {name: bad.files[name] for name in others} == {name: good.files[name] for name in others}
    path.with_name("another.py").unlink(missing_ok=True)
    path.write_bytes(content)
    repaired = serving.show()
    assert repaired.problems == {}
    assert repaired.files.keys() == good.files.keys()
    assert [name for name in good.files if repaired.files[name] != good.files[name]] == []


@pytest.mark.parametrize("spoil", [broken_yaml, leaves_python])
def test_a_lesson_that_is_broken_from_the_start_keeps_no_other_page_away(serving, project, spoil):
    spoil(project / LESSON)
    shown = serving.show()
    assert all(text.startswith(f"{LESSON}:") for text in shown.problems.values()), shown.problems
    assert shown.problems
    assert b"Squares, section 1" in shown.files["lessons/part_1/lesson_01/index.html"]
    assert b"<h1" in shown.files["lessons/part_1/lesson_02/index.html"]


def test_what_a_failing_lesson_showed_before_its_fault_is_shown(serving, project):
    append(project, "print('before the fault')")
    append(project, "1 / 0")
    append(project, "print('behind the fault')")
    page = serving.show().files["lessons/part_1/lesson_02/index.html"].decode()
    assert "before the fault" in page.partition("1 / 0")[0].partition("tw-output")[2]
    assert "This lesson stopped with an error." in page
    assert page.count('<div class="tw-pending">No output</div>') == 2
