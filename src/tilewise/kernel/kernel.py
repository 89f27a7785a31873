"""`Kernel`: one CUDA C string that runs on a GPU through CuPy and, without one, on the simulator.

In: source, defines, options, then arguments. Out: arrays written in place, a `Launch` for a case, a `Run`
of the simulator. `kernel_source` parses the source, `arguments` checks, the backends run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilewise.cuda.arguments import (
    Argument,
    check_arguments,
    check_launch,
    check_shared,
    is_device_array,
)
from tilewise.cuda.cases import Case, Dim3, Extent
from tilewise.cuda.headers import names as header_names
from tilewise.cuda.headers import with_headers
from tilewise.cuda.kernel_source import (
    GlobalFunction,
    KernelError,
    Parameter,
    check_includes,
    define_lines,
    define_text,
    global_functions,
    known_types,
    tokens,
    without_comments,
)
from tilewise.cuda.options import architecture, check_options
from tilewise.cuda.regions import region_of, regions
from tilewise.cuda.variables import shown_name
from tilewise.errors import LessonError
from tilewise.gpu import cupy_backend
from tilewise.gpu.quick_arguments import QuickLaunch
from tilewise.kernel.backend import backend
from tilewise.kernel.launch import Hazards, Launch
from tilewise.kernel.launches import copied, launch_log
from tilewise.kernel.origin import origin_of
from tilewise.kernel.variables import Variables

if TYPE_CHECKING:
    import numpy as np

    from tilewise.outputs.kernel import KernelOutput
    from tilewise.simulator import DevicePart, Entry, LeftOut, Module, Run, State, Trace

MOST_SHAPES = 256
"""Checked launch shapes that a kernel caches."""
OF_ONE_NAME = ("tokens", "variables", "_quick_launch", "_shapes", "_ready")
"""Cached attributes that other kernels of the same text do not share."""


class Kernel:
    """A kernel in CUDA C.

    Args:
        source: CUDA C with one or more `__global__` functions, or a whole CUDA file, whose host code is
            skipped. `#include "hopper.cuh"` works.
        name: one of them, such as `add`, `ns::add` or `sgemm<32, 64>`; required if there are several.
        defines: names and values for `#define` lines before the source.
        options: compiler options: `-std=`, `-fmad=`, `--use_fast_math`, `--maxrregcount=`, `-arch=sm_90a`.
        folder: the folder of the headers that a whole file includes; the source then keeps the file's line
            numbers.
        origin: the source's file, and the line of its first line there; by default the caller's.
        part: the result of `device_part` for a whole file, if known.

    Attributes:
        source: the text without leading and trailing blank lines (a file keeps the leading ones); its first
            line is line 1 everywhere.
        name: the kernel's name.
        defines: as given.
        options: as given.
        parameters: its parameters.
        origin: the file that created it and the line of the source's first line there.
        whole: the source with its headers inserted.
        left_out: the parts of a whole file that do not compile and are not needed.

    Raises:
        KernelError: there is no such kernel, or an option is unknown.
        CompileError: clang rejects the kernel of a whole file.
    """

    source: str
    name: str
    defines: Mapping[str, int | float | str]
    options: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    origin: tuple[str, int]
    whole: str
    _ready: tuple[int, Any]
    _quick_launch: QuickLaunch

    def __init__(
        self,
        source: str,
        name: str | None = None,
        defines: Mapping[str, int | float | str] | None = None,
        options: Iterable[str] = (),
        folder: Path | None = None,
        origin: tuple[str, int] | None = None,
        part: DevicePart | None = None,
    ) -> None:
        self.source = _trimmed(source) if folder is None else source.rstrip() + "\n"
        self.defines = MappingProxyType(dict(defines or {}))
        self.options = check_options(options)
        self.origin = origin or origin_of(self.source)
        self._has_own_options = origin is None  # a file's options are unknown here
        texts = {key: define_text(key, value) for key, value in self.defines.items()}
        self._define_lines = define_lines(self.defines)
        self._part = part
        try:
            if part is not None or is_whole_file(self.source):
                raise KernelError("the source is a whole file.")
            check_includes(self.source, header_names())
            self.whole = with_headers(self.source)
            known = known_types(self.whole) | texts if self.whole != self.source else texts
            self._functions = {function.name: function for function in global_functions(self.source, known)}
        except KernelError as error:
            self._part = part or self._read_file(name, folder, error)
            self.whole = self._part.text
            self._functions = {key: entry.function for key, entry in self._part.kernels.items()}
        regions(self.source)
        self._choose(name)

    def _read_file(self, name: str | None, folder: Path | None, error: KernelError) -> DevicePart:
        """Let clang find the kernels if the text alone is not enough."""
        from tilewise.simulator import ToolchainError, device_part

        prelude = self._define_lines.removesuffix("#line 1\n")
        try:
            return device_part(
                self.source, name, options=self.options, prelude=prelude, folder=folder, origin=self.origin
            )
        except ToolchainError:
            raise error from None

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The parts of a whole file that do not compile and are not needed."""
        return self._part.left_out if self._part else ()

    @property
    def templates(self) -> Mapping[str, tuple[str, ...]]:
        """Template kernels of a whole file, with their instances in the file's own launches."""
        return self._part.templates if self._part else {}

    @property
    def symbol(self) -> str:
        """The kernel's symbol name."""
        return self._part.kernels[self.name].symbol if self._part else self.name

    def _choose(self, name: str | None) -> None:
        functions, templates = self._functions, self.templates
        every = ", ".join([*functions, *templates])
        if not every:
            raise KernelError("the source has no kernel. Write: __global__ void name(...) { ... }")
        if name is None and functions and len(functions) + len(templates) > 1:
            raise KernelError(f"the source has several kernels: {every}. Say which: Kernel(..., name=...).")
        if name is None and templates:
            launched = [*chain.from_iterable(templates.values())] or [f"{next(iter(templates))}<...>"]
            raise KernelError(
                f'the kernel is a template. Say which: Kernel(..., name="{launched[0]}").'
                + (f" The file launches {', '.join(launched)}." if len(launched) > 1 else "")
            )
        self.name = next(iter(functions)) if name is None else name
        template = self.name.partition("<")[0].strip()
        if self.name not in functions and template in templates:
            raise KernelError(
                f'kernel "{name}" is a template. Say with which arguments, as in '
                f'name="{next(iter(templates[template]), f"{template}<...>")}". One that takes a lambda '
                "has no name: make the lambda a struct with operator() and name that."
            )
        if self.name not in functions:
            names = ", ".join(functions)
            raise KernelError(f'the source has no kernel "{name}"; it has {names}. Correct the name.')
        self.parameters = self.function.parameters
        if (log := launch_log()) is not None:
            log.add(self)

    @property
    def function(self) -> GlobalFunction:
        """The kernel's declaration: line, parameters, launch bounds, cluster."""
        return self._functions[self.name]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all kernels of the source."""
        return tuple(self._functions)

    @property
    def preprocessed(self) -> str:
        """The text for a compiler: `#define` lines, `#line 1` and the source with its headers."""
        return self._define_lines + self.whole

    @cached_property
    def gpu_source(self) -> str:
        """The text for NVRTC: two constants that it lacks, then `preprocessed`."""
        own = self.whole if self._part else with_headers(self.source, Path(self.origin[0]).name)
        return cupy_backend.PRELUDE + (self._define_lines or "#line 1\n") + own

    @cached_property
    def wants_module(self) -> bool:
        """Whether it needs `cupy.RawModule` instead of `cupy.RawKernel`."""
        return (
            architecture(self.options) is not None
            or len(self._functions) > 1
            or self._part is not None
            or bool(self.variables)
        )

    @cached_property
    def variables(self) -> Variables:
        """Its source's `__device__` and `__constant__` variables; they keep their values between launches."""
        return Variables(self, self.state.declared)

    @cached_property
    def state(self) -> State:
        """The variables' values on the simulator, shared by all kernels of one text."""
        from tilewise.simulator import state_of

        return state_of(self._define_lines + self.source, self._define_lines + self.whole, self.options)

    def simulated_variable(self, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes of a variable on the simulator.

        Raises:
            KernelError: no kernel uses it, so the compiler has removed it.
        """
        from tilewise.simulator.engine.memory import initial_bytes

        for variable in self._module.ptx.variables:
            if shown_name(variable.name) == name:
                return self.state.begin(variable, initial_bytes(variable))
        raise KernelError(
            f'kernel "{self.name}": {name} is not in the compiled source, since no kernel uses it. '
            "Use it, or leave it alone."
        )

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of `whole`, without comments, white space, regions and `#line`."""
        return tokens(self.whole)

    def fingerprint(self) -> str:
        """Return a text that is equal for kernels with equal tokens, defines, options and name."""
        defines = " ".join(f"{key}={define_text(key, self.defines[key])}" for key in sorted(self.defines))
        return "\n".join([self.name, defines, " ".join(self.options), "\0".join(self.tokens)])

    def region(self, name: str) -> KernelOutput:
        """Return the part of the source between `// [name` and `// name]`, with its line numbers.

        Raises:
            KernelError: there is no such region.
        """
        part = region_of(self.source, name, f'kernel "{self.name}"')
        return replace(self.as_output(), source=part.source, first_line=part.first_line, region=name)

    def as_output(self) -> KernelOutput:
        """Return the kernel as a page shows it."""
        from tilewise.outputs.kernel import KernelOutput

        defines = tuple((name, str(value)) for name, value in self.defines.items())
        return KernelOutput(name=self.name, source=self.source, defines=defines, options=self.options)

    def named(self, name: str) -> Kernel:
        """Return another kernel of the same source, which shares the compilation."""
        kernel = object.__new__(Kernel)
        kernel.__dict__.update({key: value for key, value in self.__dict__.items() if key not in OF_ONE_NAME})
        kernel._choose(name)
        return kernel

    def on(
        self,
        case: Case,
        grid: Extent | None = None,
        block: Extent | None = None,
        shared_bytes: int | None = None,
    ) -> Launch:
        """Return a launch with a case's inputs; grid, block and shared bytes default to the case's.

        Raises:
            KernelError: the case lacks one of the kernel's parameters, or grid or block is invalid.
        """
        missing = [parameter.name for parameter in self.parameters if parameter.name not in case.values]
        if missing:
            raise KernelError(
                f'kernel "{self.name}": the case has no {", ".join(missing)}; it has '
                f"{', '.join(case.values) or 'nothing'}. Name the case's values like the kernel's parameters."
            )
        checked = check_launch(
            self.name,
            self.function,
            case.grid if grid is None else grid,
            case.block if block is None else block,
            case.shared_bytes if shared_bytes is None else shared_bytes,
        )
        return Launch(self, case, *checked)

    def __call__(self, *args: Any, grid: Extent, block: Extent, shared_bytes: int = 0) -> None:
        """Launch on the GPU or, without one, on the simulator; outputs are written in place.

        Args:
            *args: one for each parameter. Arrays are C-contiguous NumPy arrays or have
                `__cuda_array_interface__`; numbers become the declared type.
            grid: blocks, an int or up to three of them in x, y, z.
            block: threads per block, likewise.
            shared_bytes: dynamic shared memory per block.

        Raises:
            KernelError: an argument or the launch does not fit; nothing ran.
        """
        if backend() == "gpu":
            if self._launch_quick(args, grid, block, shared_bytes):
                return
            arguments = check_arguments(self.name, self.parameters, args)
            blocks, threads, size = self.checked_shape(grid, block, shared_bytes)
            cupy_backend.launch(
                self.compiled(),
                self.parameters,
                arguments,
                kernel=self.name,
                origin=self.origin,
                grid=blocks,
                block=threads,
                shared_bytes=size,
                cluster=self.function.cluster,
            )
            return
        arguments = check_arguments(self.name, self.parameters, args)
        self._simulate(arguments, *self.checked_shape(grid, block, shared_bytes), "raise", None, None)

    def compiled(self) -> Any:
        """Return CuPy's function, compiled on first use and after a reset of variables."""
        times = cupy_backend.times_forgotten()
        ready = self.__dict__.get("_ready")
        if ready is None or ready[0] != times:
            function = cupy_backend.compiled(self.gpu_source, self.symbol, self.options, self.wants_module)
            ready = self._ready = (times, function)
        return ready[1]

    def _launch_quick(self, args: tuple[Any, ...], grid: Extent, block: Extent, shared_bytes: int) -> bool:
        """Launch without copies if every argument is of a plain kind; return whether it did."""
        quick = self.__dict__.get("_quick_launch")
        if quick is None or quick.times != cupy_backend.times_forgotten():
            quick = self._quick_launch = QuickLaunch(self.parameters, cupy_backend.times_forgotten())
        try:
            with quick.lock:
                if not quick.write(args):
                    return False
                key = (quick.device(), grid, block, shared_bytes)
                try:
                    head = quick.heads.get(key)
                except TypeError:  # a list
                    return False
                if head is None:
                    if len(quick.heads) == MOST_SHAPES:
                        quick.heads.clear()
                    head = quick.heads[key] = self._head(*self.checked_shape(grid, block, shared_bytes))
                quick.launch(*head, quick.stream().ptr, quick.address, 0)
        except Exception as error:
            cupy_backend.explain(error, self.name, self.origin)
            raise
        return True

    def _head(self, grid: Dim3, block: Dim3, shared_bytes: int) -> tuple[int, ...]:
        """The arguments of the driver's launch before the stream."""
        function = self.compiled()
        cupy_backend.allow(function, self.name, shared_bytes, self.function.cluster)
        return (cupy_backend.handle(function), *grid, *block, shared_bytes)

    @cached_property
    def _shapes(self) -> dict[tuple[Any, ...], tuple[Dim3, Dim3, int]]:
        """The cached results of `checked_shape`."""
        return {}

    def checked_shape(self, grid: Extent, block: Extent, shared_bytes: int) -> tuple[Dim3, Dim3, int]:
        """Return grid and block as three extents each, checked once per launch shape."""
        shape = (grid, block, shared_bytes)
        try:
            checked = self._shapes.get(shape)
        except TypeError:  # a list
            return check_launch(self.name, self.function, *shape)
        if checked is None:
            checked = check_launch(self.name, self.function, *shape)
            if len(self._shapes) < MOST_SHAPES:
                self._shapes[shape] = checked
        return checked

    def simulate(
        self,
        *args: Any,
        grid: Extent,
        block: Extent,
        shared_bytes: int = 0,
        hazards: Hazards = "raise",
        trace: Trace | None = None,
        max_steps: int | None = None,
        ignore: Sequence[str] = (),
    ) -> Run:
        """Run on the simulator, even with a GPU; outputs are written in place.

        Args:
            *args: as for a launch.
            grid: as for a launch.
            block: as for a launch.
            shared_bytes: as for a launch.
            hazards: "raise" stops with `HazardError` and leaves the arrays unchanged; "collect" continues.
            trace: what to record of each access; by default only counts.
            max_steps: warp instructions after which the kernel counts as endless; by default the
                simulator's own limit, some ten seconds.
            ignore: kinds of hazards to ignore, such as `("uninitialised",)`: also `race`,
                `shuffle`, `undelivered`, `overwritten` and `proxy`.

        Returns:
            Counts, hazards and accesses.
        """
        arguments = check_arguments(self.name, self.parameters, args)
        blocks, threads, size = check_launch(self.name, self.function, grid, block, shared_bytes)
        return self._simulate(arguments, blocks, threads, size, hazards, trace, max_steps, ignore)

    @property
    def _module(self) -> Module:
        from tilewise import simulator

        header = self._part.header if self._part else None
        origin, shown = ((header[0], 1), header[1]) if header else (self.origin, self.source)
        return simulator.compile_kernel(self.preprocessed, options=self.options, origin=origin, shown=shown)

    @property
    def entry(self) -> Entry:
        """The kernel as the simulator compiled it."""
        return replace(self._module.entry(self.symbol), function=self.function)

    def _simulate(
        self,
        arguments: list[Argument],
        grid: Dim3,
        block: Dim3,
        shared_bytes: int,
        hazards: Hazards,
        trace: Trace | None,
        max_steps: int | None,
        ignore: Sequence[str] = (),
    ) -> Run:
        from tilewise import simulator

        entry = self.entry
        check_shared(self.name, entry.program.shared_bytes, shared_bytes)
        needs_option = self._has_own_options and architecture(self.options) is None
        if needs_option and entry.program.is_architecture_specific:
            raise KernelError(
                f"{self.name} has wgmma or setmaxnreg, which sm_90a has and sm_90 lacks. "
                'Compile it for sm_90a: Kernel(..., options=("-arch=sm_90a",)).'
            )
        host = [
            cupy_backend.to_host(value) if parameter.is_pointer and is_device_array(value) else value
            for parameter, value in zip(self.parameters, arguments, strict=True)
        ]
        log = launch_log()
        logged = copied(self, host, grid, block, shared_bytes) if log and log.wants(self, host) else None
        try:
            run = simulator.launch(
                entry,
                host,
                grid=grid,
                block=block,
                shared_bytes=shared_bytes,
                hazards=hazards,
                trace=trace,
                max_steps=simulator.MAX_STEPS if max_steps is None else max_steps,
                ignore=ignore,
                state=self.state,
            )
        except LessonError:
            if log is not None:
                log.faulted(self)
            raise
        if log is not None and run.hazards:
            log.faulted(self)
        elif log is not None and logged is not None:
            log.launched(logged, from_case=False)
        for parameter, value, copy in zip(self.parameters, arguments, host, strict=True):
            if parameter.is_pointer and not parameter.is_const and is_device_array(value):
                cupy_backend.write_back(value, copy)
        return run

    def __repr__(self) -> str:
        return f"Kernel({self.name}, {self.origin[0]}:{self.origin[1]})"


_HOST = re.compile(r'\bmain\s*\(|<<<|\bcuda[A-Z]\w*\s*\(|\bstd::|\bnamespace\b|\bextern\s+"C"\w')


def is_whole_file(source: str) -> bool:
    """Whether a text has host code, or `extern "C"` glued to a word, so that clang has to parse it."""
    return bool(_HOST.search(without_comments(source)))


def _trimmed(source: str) -> str:
    """A text without leading and trailing blank lines, so that line 1 is not blank."""
    lines = source.split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines).rstrip() + "\n"
