"""Sweeps: tests of many long cases, each of which runs only when something that it covers has changed.

A case says what it covers, by markers on the test and on its parameter:

    @pytest.mark.sweep("src/tilewise/simulator", packages=["ziglang"], at_least=0.9)
    @pytest.mark.parametrize("lesson", [pytest.param(one, marks=pytest.mark.sweep(one)) for one in LESSONS])

The hash of all of that and of the test's own file is the case's *key*. `tests/swept.txt` holds the key under
which each case last passed; a case with the same key is deselected, the others are *due*. Of a test with many
due cases a run takes a sample, another for each change. `pytest --due` runs each that is due, `pytest --all`
every one, and `pytest --update` writes the keys of the cases that passed.

Arguments of the marker:

- paths: files, folders or globs below the project's root. Of a Python file only its code counts, not
  comments, docstrings and blank lines: a lesson's prose is comments.
- `text`: the same, but every character counts.
- `packages`: those whose pinned version counts.
- `sample`: how many of the test's due cases a plain run takes, where not `SAMPLE`.
- `at_least`: what fraction must be good of all that the test's cases tally, with
  `record_property("tally", "79/81")`: those that run now, and the others as they were recorded.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

RECORDED = "tests/swept.txt"
"""The keys under which cases last passed: committed, a line for each case."""
KEPT = ".cache/tilewise/swept.txt"
"""The same of this working tree, so that a case that has passed need not run again to be recorded."""
SAMPLE = 5
"""How many due cases of one test a plain run takes."""
_KERNEL = ("kernel", "launch", "launches")
_CUDA = (
    "include",
    *(f"{name}.py" for name in ("arguments", "c_types", "capability", "cases", "headers", "kernel_source")),
    *(f"{name}.py" for name in ("options", "regions", "shared_arrays", "tensor_map", "variables")),
)
SIMULATOR = (
    "src/tilewise/simulator/[!c]*",
    "src/tilewise/simulator/compile/[!w]*",
    *(f"src/tilewise/cuda/{name}" for name in _CUDA),
    *(f"src/tilewise/kernel/{name}.py" for name in _KERNEL),
)
"""What decides how the kernel of a lesson compiles, is launched and runs; files with main() have more."""
LINE = re.compile(r"(?P<case>\S.*) (?P<key>[0-9a-f]{16})(?: (?P<good>\d+)/(?P<of>\d+))?")


@dataclass(frozen=True)
class Pass:
    """That a case passed."""

    key: str
    """The hash of what it covered."""
    tally: tuple[int, int] | None = None
    """How many of how many were good, where it counts them."""

    def __str__(self) -> str:
        return self.key if self.tally is None else f"{self.key} {self.tally[0]}/{self.tally[1]}"


class DamagedError(ValueError):
    """A file of keys that cannot be read."""


def read(file: Path) -> dict[str, Pass]:
    """The passes in a file, by case. Of two lines for one case, as a merge may leave, the last counts."""
    if not file.is_file():
        raise DamagedError(f"{file.name} is missing")
    found = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        match = LINE.fullmatch(line)
        if match is None:
            raise DamagedError(f"line {number} of {file.name} cannot be read: {line[:60]!r}")
        tally = (int(match["good"]), int(match["of"])) if match["of"] else None
        found[match["case"]] = Pass(match["key"], tally)
    return found


def write(file: Path, passes: Mapping[str, Pass]) -> None:
    """Write passes, sorted by case."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{case} {passes[case]}\n" for case in sorted(passes))
    file.write_text(text, encoding="utf-8", newline="\n")


TOKEN = re.compile(
    r"""
    (?P<idle>^[ \t]*(?:\#(?!\ %%(?!.*\[markdown\])).*)?\n)  # a blank or comment line, but no code cell's head
    | (?P<alone>^[ \t]*[rR]?LONG[ \t]*\n)  # a string in lines of its own
    | (?P<open>[(\[{]) | (?P<close>[)\]}])
    | LONG | "(?:\\.|[^"\\\n])*+" | '(?:\\.|[^'\\\n])*+' | \#.*
    """.replace("LONG", r"""(?>"{3}(?:\\[\s\S]|[^\\])*?"{3}|'{3}(?:\\[\s\S]|[^\\])*?'{3})"""),
    re.MULTILINE | re.VERBOSE,
)


def code_of(text: str) -> str:
    """A Python file without comment lines, strings that stand alone, such as docstrings, and blank lines.

    Only the lines that open a lesson's code cells stay: their tabs and needs decide what runs.
    """
    kept, end, depth = [], 0, 0
    for token in TOKEN.finditer(text):
        depth += (token["open"] is not None) - (token["close"] is not None)
        if token["idle"] or (token["alone"] and depth == 0):
            kept.append(text[end : token.start()])
            end = token.end()
    return "".join([*kept, text[end:]])


class Keys:
    """The keys of a project's cases: what they cover is read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._hash = cache(self._hash_of)

    def key(self, file: Path, marks: Iterable[pytest.Mark]) -> str:
        """The key of a case: of the test's file and of what its markers name.

        Raises:
            pytest.UsageError: a path or package that is covered is not there.
        """
        parts = {self._hash(file.relative_to(self.root).as_posix(), False)}
        for mark in marks:
            parts |= {self._hash(path, False) for path in mark.args}
            parts |= {self._hash(path, True) for path in mark.kwargs.get("text", ())}
            parts |= {self._pin(package) for package in mark.kwargs.get("packages", ())}
        return _hash("\n".join(sorted(parts)))

    def _hash_of(self, path: str, whole: bool) -> str:
        files = [file for found in self.root.glob(path) for file in _below(found)]
        if not files:
            raise pytest.UsageError(f"a sweep covers {path}, which is not there")
        made = hashlib.sha256()
        for file in sorted(files):
            content = file.read_bytes().replace(b"\r\n", b"\n")
            if file.suffix == ".py" and not whole:
                content = code_of(content.decode()).encode()
            name = file.relative_to(self.root).as_posix()
            made.update(f"{name} {len(content)}\n".encode() + content)
        return f"{path} {whole} {made.hexdigest()}"

    def _pin(self, package: str) -> str:
        for line in (self.root / "constraints.txt").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{package}=="):
                return line
        raise pytest.UsageError(f"a sweep covers {package}, which constraints.txt does not pin")


def _below(path: Path) -> list[Path]:
    """A file, or the files of a folder, without what tools leave there."""
    if path.is_file():
        return [path]
    left = {"__pycache__", "node_modules"}
    return [file for file in path.rglob("*") if file.is_file() and left.isdisjoint(file.parts)]


@dataclass
class Collection:
    """What was collected; of several processes, each collects the same."""

    keys: dict[str, str] = field(default_factory=dict)
    """The present key of each case."""
    files: list[str] = field(default_factory=list)
    """The files of which every test was collected."""
    unchanged: list[str] = field(default_factory=list)
    """The cases that are not due."""
    waiting: list[str] = field(default_factory=list)
    """Those that are due, but not in the sample."""


class Sweeps:
    """The plugin: runs a sample of the cases that are due, and keeps the keys of those that pass."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.root = config.rootpath
        self.collection = Collection()
        self.passed: dict[str, Pass] = {}
        self.failed: set[str] = set()
        self.at_least: dict[str, float] = {}
        self.damage = ""
        self.recorded: dict[str, Pass] = {}
        self.kept: dict[str, Pass] = {}
        try:
            self.recorded = read(self.root / RECORDED)
            with suppress(DamagedError):
                self.kept = read(self.root / KEPT)
        except DamagedError as error:
            self.damage = str(error)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Deselect cases that are not due or not in the sample, of those that other options leave."""
        keys, here, sample = Keys(self.root), self.collection, dict[str, int]()
        for item in items:
            if marks := list(item.iter_markers("sweep")):
                sizes = [mark.kwargs["sample"] for mark in marks if "sample" in mark.kwargs]
                sample[_test(item.nodeid)] = min(sizes, default=SAMPLE)
                here.keys[item.nodeid] = keys.key(item.path, marks)
                item.user_properties.append(("key", here.keys[item.nodeid]))
                least = [mark.kwargs["at_least"] for mark in marks if "at_least" in mark.kwargs]
                item.user_properties += [("at_least", one) for one in least]
        whole = not any("::" in argument for argument in self.config.args)
        if whole and not self.config.getoption("lf", False):
            here.files = sorted({item.nodeid.partition("::")[0] for item in items})
        yield
        if not self.config.getoption("all"):
            here.unchanged = [item.nodeid for item in items if self._pass(item.nodeid)]
            due = [item.nodeid for item in items if item.nodeid in here.keys and not self._pass(item.nodeid)]
            if whole and not self.damage and not self.config.getoption("due"):
                here.waiting = self._beyond_the_sample(due, sample)
            out = {*here.unchanged, *here.waiting}
            self.config.hook.pytest_deselected(items=[item for item in items if item.nodeid in out])
            items[:] = [item for item in items if item.nodeid not in out]
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["sweeps"] = asdict(here)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Of several processes, one hears what the others collected."""
        if sent := getattr(node, "workeroutput", {}).get("sweeps"):
            self.collection = Collection(**sent)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a case ends."""
        said = dict(report.user_properties)
        if "key" not in said:
            return
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            good, _, of = said.get("tally", "").partition("/")
            self.passed[report.nodeid] = Pass(said["key"], (int(good), int(of)) if of else None)
        if "at_least" in said:
            self.at_least[_test(report.nodeid)] = said["at_least"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep what passed; fail where too little was good in all."""
        if hasattr(self.config, "workerinput"):
            return
        for case in self.failed:
            self.passed.pop(case, None)
        if any(good < least * of for good, of, least in self._totals().values()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.passed or self.failed:
            with suppress(DamagedError):  # another session may have written it meanwhile
                self.kept = read(self.root / KEPT)
            write(self.root / KEPT, self._without_failed({**self.kept, **self.passed}))
        if self.config.getoption("update"):
            current = {case: found for case in self.collection.keys if (found := self._pass(case))}
            passes = self._without_failed({**self.recorded, **current, **self.passed})
            write(self.root / RECORDED, {case: one for case, one in passes.items() if self._exists(case)})

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what did not run, and what to do about it."""
        say = terminalreporter.write_line
        if self.damage and self.collection.keys:
            say(f"Sweeps: all run, because {self.damage}. pytest --all --update writes it anew.", red=True)
        for test, (good, of, least) in self._totals().items():
            say(f"Sweeps: in {test} {good / of:.1%} of {of:,} are good; {least:.0%} must be.")
        if unchanged := len(self.collection.unchanged):
            say(
                f"Sweeps: {unchanged} left out: nothing that they cover has changed since they passed. "
                "pytest --all runs them too."
            )
        new = [case for case, one in self.passed.items() if self.recorded.get(case) != one]
        if waiting := len(self.collection.waiting):
            say(f"Sweeps: {waiting} more are due, beside the sample that ran. pytest --due runs each.")
        if new and not self.config.getoption("update"):
            say(f"Sweeps: {len(new)} passed anew. pytest --update --collect-only records them in {RECORDED}.")

    def _pass(self, case: str) -> Pass | None:
        """The pass with a case's present key."""
        known = (self.recorded.get(case), self.kept.get(case))
        return next((one for one in known if one and one.key == self.collection.keys.get(case)), None)

    def _beyond_the_sample(self, due: list[str], sample: Mapping[str, int]) -> list[str]:
        """Those of the due cases that wait: picked by their keys, so that each change has its own sample."""
        tests: dict[str, list[str]] = {}
        for case in sorted(due, key=lambda case: _hash(case + self.collection.keys[case])):
            tests.setdefault(_test(case), []).append(case)
        return [case for test, cases in tests.items() for case in cases[sample[test] :]]

    def _totals(self) -> dict[str, tuple[int, int, float]]:
        """How many of how many are good, and the least fraction: of the tests whose every case is known.

        A case that waits counts as it was recorded before.
        """
        totals = {}
        for test, least in self.at_least.items():
            cases = [case for case in self.collection.keys if _test(case) == test]
            before = {case: self.recorded.get(case) for case in self.collection.waiting}
            known = [self.passed.get(case) or self._pass(case) or before.get(case) for case in cases]
            tallies = [one.tally for one in known if one and one.tally]
            if test.partition("::")[0] in self.collection.files and len(tallies) == len(cases):
                totals[test] = (sum(good for good, _ in tallies), sum(of for _, of in tallies), least)
        return totals

    def _without_failed(self, passes: Mapping[str, Pass]) -> dict[str, Pass]:
        return {case: one for case, one in passes.items() if case not in self.failed}

    def _exists(self, case: str) -> bool:
        """Whether a case is there, as far as this session has looked."""
        file = case.partition("::")[0]
        return (self.root / file).exists() and (
            case in self.collection.keys or file not in self.collection.files
        )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _test(case: str) -> str:
    """The test that a case is one of."""
    return case.partition("[")[0]
