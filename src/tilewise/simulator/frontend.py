"""A kernel's text as a module that can be launched.

In: CUDA C with its options and its place in a lesson. Out: the PTX module, parsed, with its entry points.
``compiler`` runs clang and caches its output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from tilewise.cuda.headers import OWN_FILE, as_written, names
from tilewise.cuda.kernel_source import GlobalFunction, global_functions
from tilewise.cuda.variables import reachable
from tilewise.errors import LessonError
from tilewise.simulator.compile import whole_file
from tilewise.simulator.compile.compiler import CompileError, place, ptx_text
from tilewise.simulator.compile.toolchain import clang
from tilewise.simulator.compile.whole_file import DevicePart
from tilewise.simulator.decode.operands import UnknownInstructionError
from tilewise.simulator.decode.program import Program, decode
from tilewise.simulator.engine.state import State, state_of
from tilewise.simulator.ptx.blocks import in_order
from tilewise.simulator.ptx.ptx import Ptx, PtxError, Variable
from tilewise.simulator.ptx.ptx_parser import parse

_TAKEN = {"--use_fast_math", "-use_fast_math"}


@dataclass(frozen=True, eq=False)
class Module:
    """A compiled source."""

    ptx: Ptx
    """The parsed module."""
    ftz: bool
    """Whether subnormal floats are flushed, as CuPy compiles by default."""
    origin: tuple[str, int] | None
    """The lesson's file and the line of the source's first line."""
    source: str = ""
    """The source as written."""
    compiled: str = ""
    """The source to compile, with defines and inserted headers."""
    options: tuple[str, ...] = ()
    """The kernel's options."""

    def program(self, name: str, function: GlobalFunction | None = None) -> Program:
        """Return an entry point, ready to run, given its declaration in the source if known.

        Raises:
            LessonError: it uses an unsupported instruction, or the compiler removed all of its code.
        """
        self._check_not_empty(name, function)
        try:
            return _decoded(self, name)
        except UnknownInstructionError as error:
            path, line = self.place(error.line)
            raise LessonError(
                path,
                line,
                error.what,
                error.repair,
            ) from None
        except (ValueError, LookupError, StopIteration, TypeError) as error:
            raise LessonError(
                *self.place(1),
                f'the simulator cannot read the compiled kernel "{name}": {error!r}.',
                "Report it with the kernel.",
            ) from None

    def _check_not_empty(self, name: str, function: GlobalFunction | None) -> None:
        """Raise if an entry point has no instructions: then its whole behaviour is undefined."""
        if self.ptx.functions[name].instructions:
            return
        known = [function] if function else [fn for fn in global_functions(self.source) if fn.name == name]
        path, line = self.place(known[0].line if known else 1)
        shown = known[0].name if known else name
        raise LessonError(
            path,
            line,
            f'the compiler left nothing of the kernel "{shown}", not even its end.',
            "All that it can do is undefined in C++: look for a loop that cannot end, as its condition never "
            "changes, and for a variable that is used before it has a value.",
        )

    @property
    def kernels(self) -> dict[str, Entry]:
        """The entry points by name."""
        return {name: Entry(self, name) for name, function in self.ptx.functions.items() if function.is_entry}

    def entry(self, name: str) -> Entry:
        """Return an entry point by name.

        Raises:
            CompileError: the compiled source has none of that name.
        """
        kernels = self.kernels
        if name not in kernels:
            have = ", ".join(kernels) or "none"
            raise CompileError(
                *self.place(1),
                f'the compiler made no kernel "{name}" of this source, but {have}.',
                "Write the kernel's own name, not a macro for it, and keep it out of #if.",
            )
        return kernels[name]

    @cached_property
    def watched(self) -> tuple[Module, tuple[str, ...]]:
        """The source compiled with its ``// watch: a, b`` variables kept alive, and their names."""
        text, names = watching(self.compiled)
        if not names:
            return self, ()
        return compile_kernel(text, options=self.options, origin=self.origin, shown=self.source), names

    @property
    def state(self) -> State:
        """The values of its variables between launches."""
        return state_of(self.source, self.compiled, self.options)

    def header_line(self, place: str) -> str:
        """The text of a line of an inserted header, by its place, ``helper.cuh:12``."""
        at, header_text = ("", 0), ""
        for text in self.compiled.splitlines():
            if marker := re.match(r'#line (\d+) "([^"]+)"', text):
                at = (marker[2], int(marker[1]))
                continue
            header_text = text if f"{at[0]}:{at[1]}" == place and text.strip() else header_text
            at = (at[0], at[1] + 1)
        return header_text

    def place(self, line: int) -> tuple[str, int]:
        """The lesson's file and line for a line of the source."""
        return place(self.origin, line)


@dataclass(frozen=True, eq=False)
class Entry:
    """A kernel of a compiled source."""

    module: Module
    """Its source."""
    name: str
    """Its name in the PTX."""
    function: GlobalFunction | None = None
    """Its declaration in the source, if known from elsewhere."""

    @property
    def title(self) -> str:
        """Its name in the source."""
        return self.function.name if self.function else self.name

    @property
    def parameters(self) -> tuple[Variable, ...]:
        """Its parameters, as the PTX declares them."""
        return self.module.ptx.functions[self.name].parameters

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names of its parameters in the source; empty if the source hides them in a macro."""
        return tuple(name for name, _ in self._declared)

    @property
    def read_only(self) -> tuple[bool, ...]:
        """For each parameter whether it points to const; empty if ``parameter_names`` is."""
        return tuple(is_const for _, is_const in self._declared)

    @property
    def _declared(self) -> tuple[tuple[str, bool], ...]:
        return _parameters(self.function) if self.function else _declared(self.module, self.name)

    @property
    def cluster(self) -> tuple[int, int, int]:
        """Blocks per cluster in x, y, z, from ``__cluster_dims__``, which the PTX lacks."""
        if self.function:
            return self.function.cluster or (1, 1, 1)
        return _cluster(self.module, self.name)

    @property
    def program(self) -> Program:
        """The kernel, ready to run; as ``Module.program``."""
        return self.module.program(self.name, self.function)


@cache
def _decoded(module: Module, name: str) -> Program:
    entries = len(module.ptx.functions[name].parameters)
    return decode(module.ptx, name, ftz=module.ftz, first_module_buffer=entries)


@cache
def _declared(module: Module, name: str) -> tuple[tuple[str, bool], ...]:
    for function in global_functions(module.source):
        if function.name == name:
            return _parameters(function)
    return ()


def _parameters(function: GlobalFunction) -> tuple[tuple[str, bool], ...]:
    return tuple((param.name, param.is_pointer and param.is_const) for param in function.parameters)


@cache
def _cluster(module: Module, name: str) -> tuple[int, int, int]:
    if "__cluster_dims__" not in module.compiled:
        return (1, 1, 1)
    functions = {function.name: function for function in global_functions(module.compiled)}
    return (functions[name].cluster if name in functions else None) or (1, 1, 1)


def compile_kernel(
    source: str,
    *,
    options: tuple[str, ...] = (),
    origin: tuple[str, int] | None = None,
    shown: str = "",
) -> Module:
    """Compile CUDA C for the simulator.

    Args:
        source: CUDA C, preceded by ``#define`` lines and ``#line 1`` if it has defines.
        options: as ``Kernel`` takes them; ``-std`` and ``-fmad`` and ``--use_fast_math`` reach clang.
        origin: the lesson's file and the line of the first source line, for messages.
        shown: the source as written, if headers were inserted or host code left out.

    Raises:
        CompileError: clang rejects the source.
        ToolchainError: clang is missing or broken, and the source is not cached.
    """
    return _module(source, options, origin, shown, clang())


def device_part(
    source: str,
    name: str | None,
    *,
    options: tuple[str, ...] = (),
    prelude: str = "",
    folder: Path | None = None,
    origin: tuple[str, int] | None = None,
) -> DevicePart:
    """The device code of a CUDA file; as ``whole_file.device_part``, with a kernel's options."""
    flags = clang_flags(options)
    return whole_file.device_part(source, name, flags=flags, prelude=prelude, folder=folder, origin=origin)


@cache
def _module(
    source: str, options: tuple[str, ...], origin: tuple[str, int] | None, shown: str, compiler: str
) -> Module:
    flags = clang_flags(options)
    text = ptx_text(reachable(source), flags, origin, compiler)
    file_number = _file_number(text)
    try:
        module = _in_order(parse(text, file_number, _own_headers(source)))
    except (PtxError, ValueError, LookupError) as error:
        path, line = place(origin, 1)
        raise LessonError(
            path,
            line,
            f"the simulator cannot read the compiled kernel: {error}.",
            "Report it with the kernel.",
        ) from None
    return Module(
        module,
        not any(flag.endswith("-fno-cuda-flush-denormals-to-zero") for flag in flags),
        origin,
        shown or as_written(source),
        source,
        options,
    )


_WATCH = re.compile(r"^(?P<code>[^\n]*?)(?P<comment>//\s*watch:(?P<names>[^\n]*))$", re.M)


def watching(source: str) -> tuple[str, tuple[str, ...]]:
    """The source with its ``// watch: a, b`` lines reporting variables to a trace, and the variables.

    A line must end a statement; the variables are read after it.
    """
    names: list[str] = []

    def reporting(match: re.Match[str]) -> str:
        calls = ""
        for name in (part.strip() for part in match["names"].split(",")):
            if name not in names:
                names.append(name)
            calls += f" tw_watch<{names.index(name)}>({name});"
        return f"{match['code']}{calls} {match['comment']}"

    return _WATCH.sub(reporting, source), tuple(names)


def _in_order(module: Ptx) -> Ptx:
    return replace(module, functions={name: in_order(part) for name, part in module.functions.items()})


def clang_flags(options: tuple[str, ...]) -> tuple[str, ...]:
    """The options for clang; the others concern SASS, which the simulator does not produce."""
    # honor-pragmas: the headers forbid contraction between operators of halves, as NVIDIA's do
    flags = ["-fcuda-flush-denormals-to-zero", "-ffp-contract=fast-honor-pragmas"]
    for option in options:
        if option in _TAKEN:
            flags += ["-ffast-math", "-fno-finite-math-only", flags[1], "-DTW_FAST_MATH"]
        elif option in ("-fmad=false", "--fmad=false"):
            flags[1] = "-ffp-contract=off"
        elif option in ("-ftz=false", "--ftz=false"):
            flags[0] = "-fno-cuda-flush-denormals-to-zero"
        elif option.startswith(("-std=", "--std=")):
            flags.append("-std=" + option.split("=", 1)[1].replace("c++", "gnu++"))
        elif option.endswith("=sm_90a"):
            flags.append("-D__CUDA_ARCH_FEAT_SM90_ALL")
    return tuple(flags)


def _own_headers(source: str) -> set[str]:
    """Names of the headers inserted into a source, without the package's own."""
    return set(re.findall(r'^#line \d+ "([^"\s:]+)"', source, re.M)) - {OWN_FILE, *names()}


def _file_number(ptx: str) -> int:
    match = re.search(r'\.file\s+(\d+)\s+"[^"]*kernel\.cu"', ptx)
    return int(match[1]) if match else 1
