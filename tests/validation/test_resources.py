"""What NVRTC reports for the kernels of the course: the record, when it is current, and its page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WHOLE, Project
from tests.validation.samples import sample
from tilewise.__main__ import main
from tilewise.build.pipeline import Lessons, PageRenderer
from tilewise.build.progress import Progress
from tilewise.build.sources import LessonSources
from tilewise.course.order import Navigation
from tilewise.errors import LessonError
from tilewise.kernel import nvrtc as compile_gate
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.nvrtc import ARCHITECTURES
from tilewise.measurements import compiled_kernels as resources
from tilewise.measurements.compiled_kernels import (
    ResourceRecord,
    ResourceRow,
    kernel_faults,
    kernel_key,
    load_resources,
    spill_fault,
)
from tilewise.measurements.validation_file import FOLDER
from validation.collection import COURSE, lesson_kernels
from validation.kernels import OWN
from validation.record import PROJECT
from validation.resources import examine, save_resources

nvrtc = pytest.mark.skipif(compile_gate.available() is not None, reason=str(compile_gate.available()))

SPILLING = """\
extern "C" __global__ void spilling(float* y) {
    float kept[64];
    for (int i = 0; i < 64; ++i) kept[i] = y[i];
    __syncthreads();
    for (int i = 0; i < 64; ++i) for (int j = 0; j < 64; ++j) y[i] += kept[(i + j) & 63] * kept[j];
}
"""
LEAN = ("--maxrregcount=24",)
DECLARED = SPILLING.replace("[64];", "[64];  // spills: that is the point", 1)
FIXED = "kernels/first_kernel"
"""The lesson whose kernels are all compiled in each run of the tests."""
SAMPLED = 8
"""How many other kernels are, each for up to six architectures."""


def of_course() -> dict[str, list[Kernel]]:
    """The kernels of the lessons by the lesson's id."""
    return {lesson: [one.kernel for one in made] for lesson, made in lesson_kernels(COURSE).items()}


def by_key(kernels: Sequence[Kernel]) -> dict[str, Kernel]:
    return {kernel_key(one.source, one.name, one.defines, one.options): one for one in kernels}


def differing(record: ResourceRecord, kernels: Mapping[str, Kernel]) -> list[str]:
    """The titles of rows of kernels that are not what the compiler reports now."""
    rows = {row.key: row for found in record.lessons.values() for row in found}
    return [rows[key].title for key, kernel in kernels.items() if examine(kernel) != rows[key]]


def test_the_record_has_every_kernel_of_the_lessons_as_it_is_now():
    made = {
        lesson: [{**vars(one), "line": one.origin[1]} for one in kernels]
        for lesson, kernels in of_course().items()
    }
    assert sum(map(len, made.values())) > 15
    assert [str(fault) for fault in kernel_faults(COURSE, made)] == []


@nvrtc
def test_the_record_is_what_the_compiler_reports_for_a_sample():
    record = load_resources(PROJECT)
    assert record.nvrtc == compile_gate.nvrtc_version(), "the compiler has another version: make records"
    kernels = by_key([one for made in of_course().values() for one in made])
    picked = {key: kernels[key] for key in sample(kernels, SAMPLED)}
    assert differing(record, by_key(of_course()[FIXED]) | picked) == [], "make records"


@nvrtc
def test_specimens_compile_for_what_has_their_instructions():
    titles = ("Arithmetic", "Warps and asynchronous copies", "Tensor cores")
    kernels = by_key([one.launch.kernel for title in titles for one in OWN[title]])
    stores = [key for key, kernel in kernels.items() if kernel.name == "store_matrices"]
    for key in {stores[0], *sample(kernels, SAMPLED)}:
        found = examine(kernels[key])
        assert found.needs in (("sm_90",) if key in stores else ("", "sm_80")), found.title
        least = found.needs or ARCHITECTURES[0]
        assert list(found.taken) == list(ARCHITECTURES[ARCHITECTURES.index(least) :]), found.title


@nvrtc
def test_a_spill_must_be_declared_and_a_declared_one_must_be():
    message, repair = spill_fault(examine(Kernel(SPILLING, options=LEAN))) or ("", "")
    assert 'kernel "spilling" spills registers on sm_75, sm_80' in message and "// spills: why" in repair
    assert spill_fault(examine(Kernel(DECLARED, options=LEAN))) is None
    message, _ = spill_fault(examine(Kernel(DECLARED.replace("64", "4")))) or ("", "")
    assert message == 'kernel "spilling" declares "// spills: that is the point" and spills nothing.'


def test_a_declared_spill_holds_for_all_sizes_of_a_text_but_not_for_another_kernel(course):
    first, _ = load_resources(course.root).lessons["part/one"]
    spilled = {"sm_80": replace(first.taken["sm_80"], spill_load_bytes=8)}
    large = replace(first, title="f with N=9", spills="why", taken=spilled)
    small = replace(large, title="f with N=1", taken=first.taken)
    assert spill_fault(small, [large, small]) is None
    message, _ = spill_fault(small, [replace(large, title="g"), small]) or ("", "")
    assert message == 'kernel "f with N=1" declares "// spills: why" and spills nothing.'
    message, _ = spill_fault(replace(large, spills=""), [small]) or ("", "")
    assert 'kernel "f with N=9" spills registers on sm_80' in message


def test_the_key_is_of_what_the_compiler_is_given():
    def key(source: str = SPILLING, options: Sequence[str] = (), **defines: int) -> str:
        return kernel_key(source, "spilling", defines, options)

    assert key(f"// a comment\n{SPILLING.replace('; ++', ';   ++')}") == key(DECLARED) == key()
    assert key(options=["--carveout=50"]) == key(), "the driver is asked for it, not the compiler"
    others = [
        key(SPILLING.replace("64", "65")),
        key(options=LEAN),
        key(N=1),
        key(N=2),
        key(options=["-arch=sm_90a"]),
    ]
    assert len({key(), *others}) == 1 + len(others)


# The record of a small course


LESSON = """\
# %%
from tilewise import Kernel

SCALE = Kernel('extern "C" __global__ void scale(float* x) { x[threadIdx.x] *= BY; }', defines={"BY": 2})
COPIES = Kernel(
    'extern "C" __global__ void copies(int* x) { asm volatile("cp.async.wait_all;"); x[0] = 1; }'
)
"""


@pytest.fixture
def course(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A course of one lesson, whose record is current."""
    project.lesson(LESSON)
    monkeypatch.setattr(compile_gate, "available", lambda: None)
    rows = tuple(_row(one) for one in launches_of(project))
    save_resources(ResourceRecord("13.5", {"part/one": rows}), project.root)
    return project


def file_of(course: Project) -> Path:
    return course.root / FOLDER / resources.FILE


def _row(encoded: Mapping[str, Any]) -> ResourceRow:
    key = resources.encoded_key(encoded)
    taken = {"sm_80": compile_gate.Resources(encoded["name"], "sm_80", 16, 0, 0, 0, 0)}
    return ResourceRow(resources.title(encoded["name"], encoded["defines"]), key, "", "", taken)


def launches_of(course: Project, lesson: str = "part/one") -> Sequence[Mapping[str, Any]]:
    return course.run(course.lessons()[lesson]).launches


def faults_of(course: Project) -> list[str]:
    made = {name: launches_of(course, name) for name in course.lessons()}
    return [str(fault) for fault in kernel_faults(course.root / "lessons", made)]


def test_a_record_that_is_current_has_no_fault(course):
    assert faults_of(course) == []
    course.lesson(LESSON.replace("# %%\n", "# %% [markdown]\n# A sentence.\n\n# %%\n"))
    course.lesson(LESSON.replace("x[threadIdx.x] *=", "/* in place */ x[threadIdx.x]  *="))
    assert faults_of(course) == []


def test_a_changed_kernel_is_named_with_its_line_and_the_repair(course):
    course.lesson(LESSON.replace('"BY": 2', '"BY": 3').replace("x[0] = 1", "x[0] = 2"))
    assert faults_of(course) == [
        'lessons/part/one.py:9: the record of compiled kernels is older than "scale with BY=3". '
        "Run make records."
    ]


def test_a_lesson_that_is_new_or_gone_is_named(course):
    course.lesson(LESSON + 'for n in (5, 6, 7): Kernel(SCALE.source, defines={"BY": n})\n', "part/two")
    (fault,) = faults_of(course)
    assert fault == (
        'lessons/part/two.py:9: the record of compiled kernels is older than "scale with BY=2". '
        "Run make records."
    )
    (course.root / "lessons" / "part" / "one.py").unlink()
    assert any(
        'resources.json: it lists kernels of "part/one", which is no lesson.' in one
        for one in faults_of(course)
    )


def test_an_undeclared_spill_is_a_fault_at_the_kernels_line(course):
    first, second = load_resources(course.root).lessons["part/one"]
    spilled = {"sm_80": replace(first.taken["sm_80"], spill_load_bytes=8)}
    save_resources(ResourceRecord("13.5", {"part/one": (replace(first, taken=spilled), second)}), course.root)
    (fault,) = faults_of(course)
    assert fault.startswith(
        'lessons/part/one.py:9: kernel "scale with BY=2" spills registers on sm_80, up to 8'
    )


def test_a_build_warns_and_the_check_fails(course, monkeypatch, capsys):
    course.lesson(LESSON.replace('"BY": 2', '"BY": 3') + WHOLE)
    said = 'lessons/part/one.py:9: the record of compiled kernels is older than "scale with BY=3".'
    cache = course.root / ".cache"
    lessons = Lessons(
        course.root, LessonSources(course.root, cache, ""), PageRenderer(cache, ""), course.runner(), 1
    )
    built = lessons.load(Navigation(["part/one"], "mkdocs.yml", {"part/one": 1}), Progress(print))
    assert [str(one) for one in built.warnings] == [f"{said} Run make records."]
    monkeypatch.setenv("TILEWISE_LESSONS", str(course.root / "lessons"))
    assert main(["check", "part/one"]) == 1
    assert said in capsys.readouterr().err
    file_of(course).write_text("{", encoding="utf-8")
    assert main(["check", "part/one"]) == 1
    assert "resources.json: the record cannot be read: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"schema": 1', '"schema": 2'),
        lambda text: text.replace('"key"', '"kye"'),
        lambda text: text.replace("[16, ", '["many", '),
        lambda text: text.replace("[16, ", "["),
    ],
)
def test_a_malformed_record_is_one_error_with_the_repair(course, spoil):
    text = file_of(course).read_text(encoding="utf-8")
    assert spoil(text) != text
    file_of(course).write_text(spoil(text), encoding="utf-8")
    with pytest.raises(
        LessonError,
        match=r"^validation/records/resources\.json: the record cannot be read: .*\. Run make records\.$",
    ):
        faults_of(course)


# The page
