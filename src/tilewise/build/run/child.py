"""Executes the cells of one lesson in a separate process and sends back their outputs.

In: a ``Job``. Out: lines of JSON: the start and the outputs of each cell, then the end, or the error with
its line in the lesson.
"""

from __future__ import annotations

import ast
import io
import json
import linecache
import os
import pickle
import random
import re
import signal
import sys
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.machinery import FileFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tilewise.build.run.faults import out_of_time, told
from tilewise.build.run.inputs import PACKAGE, Watch, relative
from tilewise.build.run.job import GPU, TOOLS, CellResult, CodeCell, Job, error_to_dict
from tilewise.build.run.machines import OtherMachine, records_of
from tilewise.build.run.printed import Printed, PrintedSink
from tilewise.build.run.snapshots import Snapshots
from tilewise.errors import LessonError
from tilewise.frameworks import stand_ins
from tilewise.kernel.launches import logging_launches
from tilewise.kernel.saved_launches import encode as encode_launches
from tilewise.outputs import KernelOutput, Output, Text, as_output, encode, installed, name_machine
from tilewise.outputs.kinds import NOT_CURRENT, PENDING

LARGEST_OUTPUT = 4_000_000
"""Bytes of one table or figure."""
_ADDRESS = re.compile(r"<[^<>\n]{1,200} at 0x[0-9a-f]{6,16}>")


class Messages:
    """Writes messages for the runner, a line of JSON each, to a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._own = os.getpid()
        # Saved now, because a lesson may replace these functions.
        self._getpid, self._write, self._leave, self._dumps = os.getpid, os.write, os._exit, json.dumps

    def __call__(self, message: Mapping[str, Any]) -> None:
        """Send a message; a fork that the lesson left running exits here instead."""
        if self._getpid() != self._own:
            self._leave(0)
        line = self._dumps({**message, "pid": self._own}, ensure_ascii=False).encode(errors="replace") + b"\n"
        while line:
            line = line[self._write(self.descriptor, line) :]

    def moved(self, descriptor: int) -> None:
        """Continue in this process, a fork that replaces its parent, with a new descriptor."""
        self._own = self._getpid()
        self.descriptor = descriptor


class Execution:
    """Executes the cells of a job, one after the other.

    Args:
        job: what to run; its root becomes the current folder.
        messages: receives ``{"cell": index}`` when a cell starts, ``{"done": index, ...}`` with the fields of
            its ``CellResult`` when it ends, ``{"snapshot": index, "address": ...}`` for each snapshot before
            a cell, and finally ``{"end": ...}`` or ``{"error": ...}``.
        snapshots: takes snapshots between cells; None for no snapshots.
    """

    def __init__(
        self,
        job: Job,
        messages: Messages,
        snapshots: Snapshots | None = None,
    ) -> None:
        self._job = job
        self._messages = messages
        self._snapshots = snapshots
        self._module = types.ModuleType("__main__")
        self._printed = Printed(job.output_limit)
        self._sink = PrintedSink(self._printed)
        self._exported: dict[str, tuple[CodeCell, Any]] = {}
        self._before_set: dict[str, Any] = {}
        self._tab_set = -1
        self._others: list[OtherMachine] = []

    def run(self) -> None:
        """Execute every cell and send its results."""
        root = Path(self._job.root)
        os.chdir(root)
        self._watch = watch = Watch(root)
        _make_deterministic(self._job)
        name_machine(_machine_name)
        self._others = [OtherMachine(name, self._module.__dict__) for name in self._job.machines]
        self._module.__file__ = str(root / self._job.path)
        sys.modules["__main__"] = self._module
        sys.stdout, sys.stderr = self._printed, io.StringIO()
        signal.signal(signal.SIGALRM, out_of_time)
        signal.setitimer(signal.ITIMER_REAL, self._job.time_limit_s)
        try:
            with installed(self._sink), logging_launches() as log:
                self._run_cells()
        except LessonError as error:
            self._messages({"error": error_to_dict(error)})
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        own = str(root.resolve() / self._job.path)
        read = {*watch.stop(), str(Path(__file__).resolve())} - {own}
        launches = [encode_launches(logged) for logged in log.kernels()]
        self._messages({"end": {"launches": launches, "inputs": relative(sorted(read), root)}})

    def _run_cells(self) -> None:
        at = 0
        while at < len(self._job.cells):
            self._snapshot(at)  # may return much later, with a new job
            cell = self._job.cells[at]
            self._messages({"cell": cell.index})
            self._messages({"done": cell.index, **asdict(self._run_cell(cell))})
            at += 1

    def _snapshot(self, at: int) -> None:
        if self._snapshots is None or not self._snapshots.wanted():
            return
        address, later = self._snapshots.take(self._messages.descriptor)
        if later is None:
            self._messages.moved(self._messages.descriptor)
            self._messages({"snapshot": self._job.cells[at].index, "address": str(address)})
        else:
            self._job, descriptor = later
            self._messages.moved(descriptor)
            _show_source(self._job)
            signal.setitimer(signal.ITIMER_REAL, self._job.time_limit_s)

    def _run_cell(self, cell: CodeCell) -> CellResult:
        missing = [name for name in cell.needs if not _is_available(name)]
        names = self._module.__dict__
        if missing:
            return self._stand_in(cell, missing)
        if cell.tab:
            if cell.tab_set != self._tab_set:
                self._tab_set, self._exported, self._before_set = cell.tab_set, {}, dict(names)
            names = dict(self._before_set)
        else:
            for other in self._others:
                other.before(_code(self._job, cell))
        self._watch.begin()
        before, published = dict(names), dict(self._sink.published)
        outputs = self._outputs(cell, names, self._sink)
        new = {name: value for name, value in names.items() if before.get(name, names) is not value}
        fresh = {name: value for name, value in self._sink.published.items() if name not in published}
        result = CellResult(outputs, fresh, kernels=_kernels(new))
        if cell.tab:
            new = _export(self._job, cell, new, self._module.__dict__, self._exported)
            for other in self._others:
                other.share(new)
            return result
        read = any(path.startswith(self._job.records) for path in self._watch.begun)
        for other in self._others:
            if (rerun_names := other.after(before, new, read)) is not None:
                self._run_again(cell, rerun_names, other.machine, result)
                other.ran()
        return result

    def _outputs(self, cell: CodeCell, names: dict[str, Any], sink: PrintedSink) -> list[dict[str, Any]]:
        """Execute a cell in a namespace and return its encoded outputs."""
        with told(self._job, cell):
            _execute(self._job, cell, names, sink)
        sink.flush()
        _check_repeatable(self._job, cell, sink.outputs)
        outputs = [_encoded(self._job, cell, output) for output in sink.outputs]
        sink.outputs.clear()
        return outputs

    def _run_again(self, cell: CodeCell, names: dict[str, Any], machine: str, result: CellResult) -> None:
        """Execute a cell with another machine's records and add the differences to its result."""
        sink = PrintedSink(self._printed)
        try:
            with records_of(machine), installed(sink), logging_launches():
                outputs = self._outputs(cell, names, sink)
        except LessonError as error:
            if machine not in self._job.course_machines:
                self._printed.take()
                return  # a reader's own machine: where an assertion fails, the page shows the course's output
            message = f"with the records of {machine}: {error.message}"
            raise LessonError(error.path, error.line, message, error.repair, error.details) from None
        published = {
            name: value for name, value in sink.published.items() if result.published.get(name) != value
        }
        if outputs != result.outputs:
            result.others[machine] = outputs
        if published:
            result.published_by[machine] = published

    def _stand_in(self, cell: CodeCell, missing: list[str]) -> CellResult:
        """The page's substitute for a cell whose needs are missing here."""
        if cell.tab:
            absent = stand_ins(cell.source, missing)
            self._module.__dict__.update(absent)
            for other in self._others:
                other.share(absent)
        result = CellResult(_encoded_text(_recorded(self._job, cell)), skipped=missing)
        for other in self._others if cell.record else ():
            with records_of(other.machine):
                outputs = _encoded_text(_recorded(self._job, cell))
            if outputs != result.outputs:
                result.others[other.machine] = outputs
        return result


def _machine_name() -> str:
    from tilewise.measurements.machines import recorded_device, short_name

    return short_name(recorded_device())


def _make_deterministic(job: Job) -> None:
    import numpy as np

    random.seed(0)
    np.random.seed(0)
    sys.argv = [str(Path(job.root) / job.path)]
    sys.path.insert(0, str((Path(job.root) / job.path).parent))
    sys.path_hooks.insert(0, _finder(str(Path(job.root).resolve())))
    _show_source(job)


def _show_source(job: Job) -> None:
    """Make the lesson's text available to tracebacks and ``inspect.getsource``."""
    text = [line + "\n" for line in job.lines]
    linecache.cache[job.path] = (sum(map(len, text)), None, text, job.path)


class _Fresh(SourceFileLoader):
    """Loads a module from its source, never from bytecode, whose timestamp has a resolution of one second."""

    def path_stats(self, path: Any) -> Mapping[str, Any]:
        """Raise, so that no bytecode is read or written."""
        raise OSError(path)


def _finder(root: str) -> Callable[[str], FileFinder]:
    """A path hook for the project's folders, except those of installed packages."""

    def hook(path: str) -> FileFinder:
        if not path.startswith(root) or "site-packages" in path or path.startswith(str(PACKAGE.parent)):
            raise ImportError
        return FileFinder(path, (_Fresh, [".py"]))

    return hook


def _code(job: Job, cell: CodeCell) -> types.CodeType:
    """The compiled code of a cell; empty if it does not compile, which fails when the cell runs."""
    try:
        return compile(cell.source, job.path, "exec")
    except (SyntaxError, ValueError):
        return compile("", job.path, "exec")


def _encoded_text(text: Text | None) -> list[dict[str, Any]]:
    return [] if text is None else [encode(text)]


def _execute(job: Job, cell: CodeCell, names: dict[str, Any], collecting: PrintedSink) -> None:
    tree = ast.parse(cell.source, filename=job.path)
    ast.increment_lineno(tree, cell.source_line - 1)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, job.path, "exec"), names)
        return
    tree.body.pop()
    exec(compile(tree, job.path, "exec"), names)
    value = eval(compile(ast.Expression(last.value), job.path, "eval"), names)
    output = as_output(value) if value is not None else None
    if output is not None and not any(output is known for known in collecting.outputs):
        collecting.add(output)


def _check_repeatable(job: Job, cell: CodeCell, outputs: Sequence[Output]) -> None:
    """Reject text that changes from run to run: the address in an object's default ``repr``."""
    for output in outputs:
        match = _ADDRESS.search(output.content) if isinstance(output, Text) else None
        if match is not None:
            name = re.sub(r"0x[0-9a-f]+", "0x…", match[0])
            message = f"the cell prints {name}, an address that changes with every run."
            raise LessonError(job.path, cell.line, message, "Print what a reader should see of it.")


def _encoded(job: Job, cell: CodeCell, output: Output) -> dict[str, Any]:
    """Encode an output as JSON; raises ``LessonError`` if it is too large for a browser."""
    with told(job, cell):
        if type(output).__module__.split(".")[0] != PACKAGE.name:
            raise TypeError(
                f"{type(output).__name__} is an output of the lesson's own; show a Table or print it"
            )
        encoded = encode(output)
        size = len(json.dumps(encoded))
    if size > LARGEST_OUTPUT:
        limit = f"{LARGEST_OUTPUT // 10**6} MB"
        message = f"a {output.kind} of this cell takes {size / 1e6:.0f} MB; a page takes up to {limit}."
        raise LessonError(job.path, cell.line, message, "Show a part of it, or a smaller size.")
    return encoded


def _export(
    job: Job,
    cell: CodeCell,
    new: Mapping[str, Any],
    into: dict[str, Any],
    exported: dict[str, tuple[CodeCell, Any]],
) -> dict[str, Any]:
    """Export a tab's definitions to the cells below, and return them.

    Raises:
        LessonError: two tabs of a set define a name differently.
    """
    exports = {}
    for name, value in new.items():
        if name.startswith("__"):
            continue
        if name in exported and exported[name][1] is not value:
            first_tab = exported[name][0]
            raise LessonError(
                job.path,
                cell.line,
                f'the tabs "{first_tab.tab}" and "{cell.tab}" both define {name}.',
                "Call one of them by another name, so that the cells below know which is meant.",
            )
        exported[name] = (cell, value)
        into[name] = exports[name] = value
    return exports


def _kernels(new: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The kernels that a cell bound to names, encoded."""
    outputs = {name: as_output(value) for name, value in new.items() if _is_kernel(value)}
    return {name: encode(output) for name, output in outputs.items() if isinstance(output, KernelOutput)}


def _is_kernel(value: Any) -> bool:
    return type(value).__name__ == "Kernel" and type(value).__module__.startswith("tilewise.")


def _is_available(name: str) -> bool:
    """Whether a package or a tool is available; a build never uses a GPU, even if there is one."""
    if name in TOOLS:
        from tilewise.kernel import machine_code, nvrtc

        return (machine_code.nvdisasm() is not None) if name == "nvdisasm" else nvrtc.available() is None
    try:
        return name != GPU and find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _recorded(job: Job, cell: CodeCell) -> Text | None:
    """The recorded text that replaces a skipped cell's output."""
    if not cell.record:
        return None
    from tilewise.kernels.from_lesson import with_taken_over
    from tilewise.measurements import Archive, RecordError
    from tilewise.measurements.archive import lesson_root
    from tilewise.measurements.pending import read_pending, text_name

    archive = Archive(lesson_root())
    try:
        before = [with_taken_over(each.source) for each in job.cells if each.index < cell.index]
        record = archive.text_record(job.lesson_id, cell.record, cell.source, before=before)
        current = record is not None and not record.stale
        pending = None if current else read_pending(archive).get(text_name(job.lesson_id, cell.record))
    except RecordError as error:
        raise LessonError(job.path, cell.line, f'the text record "{cell.record}": {error}') from None
    repair = f"tilewise record {job.lesson_id}"
    where = ", ".join(str(record.provenance[key]) for key in ("device", "date")) if record else ""
    if record is not None and not record.stale:
        return Text(record.text.rstrip("\n"), source=f"recorded on {where}")
    if pending is not None:
        if record is None:
            return Text("This output is not recorded yet.", source=PENDING)
        return Text(record.text.rstrip("\n"), source=f"recorded on {where}, on {pending.version}; {PENDING}")
    what = "is not recorded yet" if record is None else "was recorded for other code"
    if os.environ.get("TILEWISE_STALE") == "error":
        message = f'the output "{cell.record}" {what}.'
        raise LessonError(job.path, cell.line, message, f"Run {repair} on a machine with a GPU.")
    content = f"This output {what}; {repair} on a machine with a GPU makes it."
    return Text(content if record is None else f"{record.text.rstrip()}\n\n{content}", source=NOT_CURRENT)


def main() -> None:
    """Run the job from standard input; the arguments say where messages and snapshots go."""
    descriptor, *rest = sys.argv[1:]
    job: Job = pickle.load(sys.stdin.buffer)
    os.nice(5)  # the server that a reader is using comes first
    quiet = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(quiet, standard)
    messages = Messages(int(descriptor))
    snapshots = Snapshots(Path(rest[0]), int(rest[1])) if rest else None
    try:
        Execution(job, messages, snapshots).run()
    except BaseException:  # our bug, not the lesson's: the runner raises it with this traceback
        messages({"crash": traceback.format_exc()})
    os._exit(0)  # skips the lesson's threads and exit handlers, so that the runner need not wait


if __name__ == "__main__":
    main()
