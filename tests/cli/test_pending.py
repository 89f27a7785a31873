"""What has no current record: refused unless it is listed, marked where it is, and never in a release."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WHOLE
from tilewise.__main__ import main
from tilewise.build.pipeline import BuiltCourse, Lessons, PageRenderer
from tilewise.build.playback import find_lesson, play
from tilewise.build.progress import Progress
from tilewise.build.run.runner import LessonRun, Runner
from tilewise.build.sources import LessonSources
from tilewise.course.order import Navigation
from tilewise.errors import LessonError
from tilewise.measurements.archive import Archive
from tilewise.measurements.experiment import handled_by
from tilewise.measurements.key import text_key
from tilewise.measurements.pending import Entry, pending_path, read_pending, write_pending
from tilewise.measurements.record import Record, Row, TextRecord, checksum, write_record
from tilewise.outputs import Context, Text

LESSON = '''# ---
# title: Twice
# needs: []
# summary: "Twice as much: how long?"
# ---

# %%
from tilewise import Kernel, case, measure, normal, output

TWICE = Kernel(r"""
extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
""")
SUM = Kernel(r"""
extern "C" __global__ void sum(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + x[i];
}
""")


def on(kernel):
    return lambda n: kernel.on(case(x=normal(n), y=output(n), n=n), grid=1, block=n)


# %% needs="gpu" record="raw"
print("on", "a GPU")

# %%
measure(
    "twice", {"product": on(TWICE), "sum": on(SUM)}, [{"n": 64}], bytes=lambda n: 8 * n,
    reference=lambda x: 2 * x, within=100,
)

# %% [markdown]
# It takes {{ twice.product.median | us }}, or {{ twice.sum.median | us }}.
''' + WHOLE  # fmt: skip
QUOTING = (
    """# ---
# title: Quoting
# needs: [kernels/twice]
# summary: "What did the other lesson measure?"
# ---

# %% [markdown]
# {{ twice.product.median | us }}, {{ twice.sum.median | us }}, {{ twice.sum.times_first | .2f }}.
"""
    + WHOLE
)
H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
BORN = {
    "device": H100, "date": "2026-11-21", "versions": {},
    "ceilings": {"memory_gb_per_s": 3000.0, "tflop_per_s": {"fp32": 60.0}, "launch_us": 3.0, "probes": {}},
}  # fmt: skip
EDIT = ("2.0f * x[i]", "(x[i] * 2.0f)")


def record_on(device: str) -> None:
    """Write records of the lesson as it is now, as that machine would."""
    made: list[Any] = []
    with handled_by(made.append):  # type: ignore[arg-type]
        play(find_lesson("kernels/twice", Path("lessons")))
    rows = tuple(
        Row(
            label, "variant", {"n": 64}, (at,), at, at, at, None, 512, tokens=made[0].tokens(label, {"n": 64})
        )
        for label, at in (("product", 4.5), ("sum", 6.5))
    )
    write_record(
        Record("twice", "kernels/twice", "fp32", {**BORN, "device": device}, rows),
        Archive(Path("lessons")).path("twice", device),
    )


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """A course of one lesson in a git checkout, recorded on an H100, without a GPU here."""
    file = tmp_path / "lessons" / "kernels" / "twice.py"
    file.parent.mkdir(parents=True)
    file.write_text(LESSON, encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text("nav:\n  - Twice: lessons/kernels/twice.py\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWISE_BACKEND", "simulator")
    monkeypatch.setenv("TILEWISE_STALE", "error")
    record_on(H100)
    archive = Archive(Path("lessons"))
    text = TextRecord("kernels/twice", "raw", text_key('print("on", "a GPU")'), BORN, "on a GPU")
    write_record(text, archive.text_path("kernels/twice", "raw", H100))
    assert main(["record", "--pending"]) == 0
    return archive


def edit(old: str, new: str) -> None:
    file = Path("lessons/kernels/twice.py")
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def commit() -> str:
    """Commit all; the abbreviated hash."""
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "All"]):
        subprocess.run([*git, *command], check=True)
    done = subprocess.run(
        [*git, "rev-parse", "--short=10", "HEAD"], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def build(runner: Runner, *names: str) -> BuiltCourse:
    """A build of the course; its warnings fail a strict one."""
    root, cache = Path().resolve(), Path(".cache").resolve()
    lessons = Lessons(root, LessonSources(root, cache, ""), PageRenderer(cache, ""), runner, 1)
    lines = {name: at for at, name in enumerate(names, start=1)}
    return lessons.load(Navigation(names, "mkdocs.yml", lines), Progress(print))


def strict(runner: Runner | None = None) -> tuple[LessonRun, list[str]]:
    """The lesson's run in a build, and what a strict build refuses."""
    runner = runner or Runner(Path(), Path(".cache"))
    built = build(runner, "kernels/twice")
    run = runner.run(built.view.course.lessons[0])
    return replace(run, executed=bool(built.executed)), [str(fault) for fault in built.warnings]


def page(run: LessonRun) -> str:
    context = Context("kernels/twice", 1, lambda suffix, content: "", lambda wanted: wanted)
    return run.measurements[0].markdown(context)


def test_a_changed_kernel_is_refused_until_it_is_listed_and_then_marked_with_its_commit(
    archive, capsys, monkeypatch
):
    version = commit()
    edit(*EDIT)
    with pytest.raises(LessonError, match="The record of twice from 2026-11-21 is stale for product"):
        strict()
    assert main(["check"]) == 1
    assert main(["record", "--pending"]) == 0
    assert "pending now: twice" in capsys.readouterr().out
    assert read_pending(archive) == {"twice": Entry("kernels/twice", "2026-11-21", version)}
    before = pending_path(archive).read_bytes()
    commit()
    assert main(["record", "--pending", "kernels/twice"]) == 0
    assert pending_path(archive).read_bytes() == before

    run, faults = strict()
    assert faults == []
    said = f"The times of product were measured on an earlier version of the code (commit {version})."
    assert f'<p class="tw-stale">{said} A new measurement is pending.</p>' in page(run)
    assert run.stale == {"twice.product"}
    assert [bool(row["stale"]) for row in run.measurements[0].rows] == [True, False]
    assert page(run).count('data-mark="stale"') == 1
    quoting = Path("lessons/kernels/quoting.py")
    quoting.write_text(QUOTING, encoding="utf-8")
    built = build(Runner(Path(), Path(".cache")), "kernels/twice", "kernels/quoting")
    marks = [page.markdown.count('class="tw-number tw-stale"') for page in built.view.pages.values()]
    assert marks == [1, 2], "the numbers of the sibling stand unmarked; one that is compared with it does not"
    quoting.unlink()
    capsys.readouterr()
    assert main(["check"]) == 0
    assert "It is listed as pending." in capsys.readouterr().out

    monkeypatch.setenv("TILEWISE_RELEASE", "1")
    refused = "lessons/measurements/pending.json: twice is pending, and a release may have no pending"
    assert strict()[1][0].startswith(refused)
    assert main(["check"]) == 1
    assert refused in capsys.readouterr().err


def test_what_is_listed_and_current_is_refused_until_it_is_taken_out(archive, capsys):
    edit(*EDIT)
    assert main(["record", "--pending"]) == 0
    assert read_pending(archive)["twice"].commit == "", "this is no git checkout"
    edit(*reversed(EDIT))
    said = (
        "lessons/measurements/pending.json: twice is listed, but it has a current record. "
        "Take it out: tilewise record --pending"
    )
    assert strict()[1] == [said]
    assert main(["check"]) == 1
    assert said in capsys.readouterr().err
    assert main(["record", "--pending"]) == 0
    assert "no longer pending: twice" in capsys.readouterr().out
    assert strict()[1] == []
    assert main(["check"]) == 0


def test_the_list_counts_among_what_a_lesson_has_read_also_where_there_is_none(archive, monkeypatch):
    monkeypatch.delenv("TILEWISE_STALE")
    edit(*EDIT)
    runner = Runner(Path(), Path(".cache"))

    def pending() -> tuple[bool, bool]:
        run = strict(runner)[0]
        return run.executed, bool(run.measurements[0].pending)

    assert [pending(), pending()] == [(True, False), (False, False)]
    assert main(["record", "--pending"]) == 0
    assert [pending(), pending()] == [(True, True), (False, True)]
    write_pending({}, archive)
    assert [pending(), pending()] == [(True, False), (False, False)]
    pending_path(archive).unlink()
    assert [pending(), pending()] == [(True, False), (False, False)]


def test_another_machines_current_record_stands_in_and_its_stale_one_stops_nothing(
    archive, capsys, monkeypatch
):
    edit(*EDIT)
    record_on(H200)
    run, faults = strict()
    assert faults == []
    assert (run.machine, run.measurements[0].elsewhere) == ("nvidia-h200", ""), "the page speaks of the H200"
    made = run.on("nvidia-h100-80gb-hbm3").measurements[0]
    assert (made.stale, made.outdated, run.stale) == ("", ((H100, "product"),), frozenset())
    note = "There are no current measurements from the H100: these times are from the H200."
    shown = page(run.on("nvidia-h100-80gb-hbm3"))
    assert "<summary>Recorded on NVIDIA H200, 2026-11-21</summary>" in shown
    assert f">{escape(note)}</p>" in shown
    assert note in made.text()
    assert run.records["twice"]["device"] == H200, "the prose quotes what the table shows"
    capsys.readouterr()
    assert main(["check"]) == 0
    assert f"is stale for product: the code has changed since then. Record it on a GPU: tilewise record " \
        f"kernels/twice ({H100})" in capsys.readouterr().out  # fmt: skip
    assert main(["record", "--pending"]) == 0
    assert read_pending(archive) == {}
    monkeypatch.setenv("TILEWISE_RECORDED_ON", "nvidia-h200")
    assert strict()[0].measurements[0].elsewhere == ""


def test_what_was_never_measured_and_what_was_printed_may_be_listed_too(archive, capsys):
    archive.path("twice", H100).unlink()
    edit("It takes {{ twice.product.median | us }}, or {{ twice.sum.median | us }}.", "Nobody knows.")
    edit('print("on"', 'print("at"')
    with pytest.raises(LessonError, match='the output "raw" was recorded for other code'):
        strict()
    version = commit()
    assert main(["record", "--pending"]) == 0
    assert read_pending(archive) == {
        "kernels.twice.raw": Entry("kernels/twice", "2026-11-21", version),
        "twice": Entry("kernels/twice", "", ""),
    }
    run, faults = strict()
    assert faults == []
    assert '<p class="tw-stale">Not measured yet.</p>' in page(run)
    assert "recorded" not in [column.name for column in run.measurements[0].table().columns]
    (text,) = (output for outputs in run.outputs for output in outputs if isinstance(output, Text))
    assert text.content == "on a GPU"
    assert text.source == (
        f"recorded on {H100}, 2026-11-21, on an earlier version of the code (commit {version}); "
        "a new recording is pending"
    )
    assert main(["check"]) == 0, capsys.readouterr()


def sealed(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def of(text: str) -> str:
        body = json.loads(text)
        change(body)
        return json.dumps({**body, "checksum": checksum(body)})

    return of


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: f"<<<<<<< HEAD\n{text}", "the list is no JSON; it may be truncated"),
        (lambda text: text.replace("2026-11-21", "2026-11-22"), "the list was edited by hand"),
        (sealed(lambda body: body.update(schema=2)), "the list is not of form 1"),
        (sealed(lambda body: body["pending"]["twice"].pop("commit")), "the list is malformed"),
        (
            sealed(lambda body: body["pending"].update(thrice=body["pending"]["twice"])),
            "thrice is listed, but kernels/twice neither measures nor prints it. Take it out",
        ),
    ],
)
def test_a_list_that_cannot_be_believed_is_refused_and_written_anew(archive, capsys, damage, said):
    edit(*EDIT)
    assert main(["record", "--pending"]) == 0
    path = pending_path(archive)
    good = path.read_text(encoding="utf-8")
    path.write_text(damage(good), encoding="utf-8")
    capsys.readouterr()
    assert main(["check"]) == 1
    refused = capsys.readouterr().err
    assert said in refused
    assert "lessons/measurements/pending.json:" in refused
    try:
        assert any(said in fault for fault in strict()[1])
    except LessonError as error:
        assert said in str(error)
    assert main(["record", "--pending"]) == 0
    assert path.read_text(encoding="utf-8") == good


def test_a_lesson_that_fails_keeps_its_entries(archive, capsys):
    edit(*EDIT)
    assert main(["record", "--pending"]) == 0
    before = read_pending(archive)
    edit("return lambda n: kernel", "return 1 / 0 or kernel")
    assert main(["record", "--pending"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out
    assert read_pending(archive) == before
