"""The PTX and machine code that NVIDIA's compiler generates for a kernel, line by line, without a GPU.

In: a `Kernel`. Out: `MachineCode`, its instructions with the lines of CUDA C that they come from. `nvrtc`
compiles, NVIDIA's nvdisasm disassembles, and `tilewise.outputs` shows listings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewise.cuda.options import architecture
from tilewise.cuda.regions import region_of
from tilewise.kernel import nvrtc
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.nvrtc import CompileGateError, Resources
from tilewise.outputs.listing import Beside, Listing, Pair, Row

_SECTION = re.compile(r"^//-+ \.text\.(\S+)\s+-+$", re.MULTILINE)
_PLACE = re.compile(r'"([^"]*)", line (\d+)')
_CODE = re.compile(r"^\s*/\*(?P<address>[0-9a-f]+)\*/\s+(?:(?P<predicate>@!?U?P\w+)\s+)?(?P<rest>[^;]*?)\s*;")
_LABEL = re.compile(r"^\s*(\.L_\w+):")
_SUBROUTINE = re.compile(r"^\$\S+:")
_TARGET = re.compile(r"\(?(\.L_\w+)\)?$")


@dataclass(frozen=True)
class Instruction:
    """A machine instruction."""

    address: int
    """Its offset in bytes from the start of the kernel."""
    predicate: str
    """The lanes that execute it, such as @P0 or @!P0; empty for all."""
    name: str
    """Its opcode with modifiers, such as LDG.E.128."""
    operands: str
    """Registers and constants, the destination first."""
    line: int = 0
    """Its line in the kernel's source; 0 in subroutines that the compiler added."""
    labels: tuple[str, ...] = ()
    """The labels right before it."""

    @property
    def target(self) -> str:
        """The label that it branches to; empty if it is no branch."""
        match = _TARGET.search(self.operands) if self.name.split(".")[0] == "BRA" else None
        return match[1] if match else ""

    def registers(self) -> tuple[str, ...]:
        """The 32-bit registers among its operands, such as R0, in order, without those in addresses."""
        return tuple(re.findall(r"\bR\d+\b", re.sub(r"\[[^\]]*\]", "", self.operands)))

    def __str__(self) -> str:
        return " ".join(part for part in (self.predicate, self.name, self.operands) if part)


@dataclass(frozen=True)
class PtxLine:
    """A PTX instruction."""

    text: str
    """As the compiler wrote it."""
    line: int
    """Its line in the kernel's source; 0 if unknown."""


@dataclass(frozen=True)
class MachineCode:
    """A kernel compiled for one architecture."""

    kernel: Kernel
    """The kernel."""
    resources: Resources
    """Registers, spills and shared memory."""
    ptx: tuple[PtxLine, ...]
    """Its PTX."""
    instructions: tuple[Instruction, ...]
    """Its machine code, without the padding after the last reachable instruction."""

    def loop(self) -> tuple[Instruction, ...]:
        """The longest innermost loop: from the target of a backward branch to the branch.

        Raises:
            CompileGateError: there is none.
        """
        at = {label: index for index, code in enumerate(self.instructions) for label in code.labels}
        jumps = [(at.get(code.target, len(at)), index) for index, code in enumerate(self.instructions)]
        loops = [(first, last) for first, last in jumps if self.instructions[last].target and first <= last]
        inner = [
            (first, last)
            for first, last in loops
            if not any((a, b) != (first, last) and first <= a and b <= last for a, b in loops)
        ]
        if not inner:
            raise CompileGateError(f'kernel "{self.kernel.name}" has no loop in its machine code.')
        first, last = max(inner, key=lambda ends: ends[1] - ends[0])
        return self.instructions[first : last + 1]

    def beside(self, region: str = "") -> Beside:
        """CUDA C, PTX and machine code side by side, one row per line of CUDA C that has any instructions.

        Args:
            region: a region of the kernel; empty for all of it.

        Raises:
            KernelError: the kernel has no such region.
        """
        lines = self.kernel.source.splitlines()
        first, last = 1, len(lines)
        if region:
            part = region_of(self.kernel.source, region, f'kernel "{self.kernel.name}"')
            first, last = part.first_line, part.last_line
        rows = [
            Row(
                number,
                lines[number - 1].strip(),
                tuple(instruction.text for instruction in self.ptx if instruction.line == number),
                tuple(map(str, self.from_line(number))),
            )
            for number in range(first, last + 1)
        ]
        return Beside(tuple(row for row in rows if row.ptx or row.machine_code), self.resources.architecture)

    def from_line(self, number: int) -> tuple[Instruction, ...]:
        """The instructions that come from a line of the source, counted from 1."""
        return tuple(instruction for instruction in self.instructions if instruction.line == number)

    def text(self) -> str:
        """All its machine code as text, with each label on its own line."""
        return self.as_output().content

    def as_output(self) -> Listing:
        """All its machine code."""
        return listing(self.instructions, f"{self.kernel.name}, {self.resources.architecture}")


def listing(instructions: Iterable[Instruction], title: str = "") -> Listing:
    """A listing of instructions for a page.

    Args:
        instructions: the instructions to show.
        title: the title above them.
    """
    lines = []
    for instruction in instructions:
        lines += [f"{label}:" for label in instruction.labels]
        lines.append(f"{instruction.predicate:<5}{instruction.name} {instruction.operands}".rstrip())
    return Listing("\n".join(lines), title)


def side_by_side(left: Iterable[Instruction], right: Iterable[Instruction], titles: tuple[str, str]) -> Pair:
    """Two listings of machine code side by side.

    Args:
        left: the instructions on the left.
        right: the instructions on the right.
        titles: the title above each.
    """
    return Pair(listing(left, titles[0]), listing(right, titles[1]))


def available() -> str | None:
    """Why machine code cannot be shown here, in one sentence; None if it can."""
    tool = nvdisasm()
    if tool is None:
        return "nvdisasm is not here. Install it: pip install nvidia-cuda-nvdisasm."
    if missing := nvrtc.available():
        return missing
    newest, own = nvrtc.nvrtc_version(), _version(tool)
    if _numbers(own) < _numbers(newest):
        return (
            f"nvdisasm {own or 'of no known version'} is older than NVRTC {newest}, whose machine code it "
            "may not know. Install a newer one: pip install nvidia-cuda-nvdisasm."
        )
    return None


@cache
def _version(tool: Path) -> str:
    """The version that nvdisasm reports, such as 13.5; empty if it reports none."""
    process = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"release (\d+\.\d+)", process.stdout)
    return match[1] if match else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if version else ()


def nvdisasm() -> Path | None:
    """Return the path of NVIDIA's disassembler: the wheel's, or the one on the PATH."""
    folder = nvrtc.wheel()
    own = folder / "bin" / ("nvdisasm.exe" if os.name == "nt" else "nvdisasm") if folder else None
    if own is not None and own.is_file():
        return own
    path = shutil.which("nvdisasm")
    return Path(path) if path else None


def machine_code(kernel: Kernel, target: str = "sm_90") -> MachineCode:
    """Compile a kernel as on a machine with a GPU, and parse its PTX and machine code.

    Args:
        kernel: the kernel.
        target: an architecture; the kernel's own `-arch=` takes precedence.

    Raises:
        CompileGateError: NVRTC or nvdisasm is missing, or one of them rejects the kernel.
    """
    tool = nvdisasm()
    if tool is None:
        raise CompileGateError(str(available()))
    compiled = nvrtc.compile_whole(kernel, architecture(kernel.options) or target)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(compiled.cubin)
        process = subprocess.run(
            [tool, "-g", "-c", "-ndf", file], capture_output=True, text=True, check=False
        )
    if process.returncode:
        raise CompileGateError(f'kernel "{kernel.name}": nvdisasm fails: {process.stderr.strip()[:200]}')
    file_name = Path(kernel.origin[0]).name
    instructions = _parsed_instructions(process.stdout, kernel.name, file_name)
    if not instructions:
        raise CompileGateError(f'kernel "{kernel.name}": nvdisasm shows no instruction of it.')
    return MachineCode(
        kernel, compiled.resources, _parsed_ptx(compiled.ptx, kernel.name, file_name), instructions
    )


def machine_codes(kernels: Iterable[Kernel], target: str = "sm_90") -> tuple[MachineCode, ...]:
    """Like `machine_code`, for several kernels in parallel; the order is kept.

    Args:
        kernels: the kernels.
        target: as for `machine_code`.

    Raises:
        CompileGateError: as for `machine_code`.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return tuple(pool.map(lambda kernel: machine_code(kernel, target), kernels))


def _parsed_instructions(text: str, kernel: str, file: str) -> tuple[Instruction, ...]:
    """The instructions of one kernel in nvdisasm's output."""
    parts = _SECTION.split(text)
    body = dict(zip(parts[1::2], parts[2::2], strict=True)).get(kernel, "")
    instructions: list[Instruction] = []
    line, labels = 0, list[str]()
    for row in body.splitlines():
        if row.lstrip().startswith("//##"):
            places = [int(number) for path, number in _PLACE.findall(row) if Path(path).name == file]
            line = places[0] if places else line
        elif label := _LABEL.match(row):
            labels.append(label[1])
        elif _SUBROUTINE.match(row):
            line = 0
        elif code := _CODE.match(row):
            name, _, operands = code["rest"].partition(" ")
            address = int(code["address"], 16)
            predicate = code["predicate"] or ""
            instructions.append(Instruction(address, predicate, name, operands.strip(), line, tuple(labels)))
            labels.clear()
    while instructions and (
        instructions[-1].name == "NOP" or instructions[-1].target in instructions[-1].labels
    ):
        instructions.pop()
    return tuple(instructions)


def _parsed_ptx(text: str, kernel: str, file: str) -> tuple[PtxLine, ...]:
    """The instructions of one kernel in NVRTC's PTX."""
    numbers = {
        number for number, path in re.findall(r'\.file\s+(\d+)\s+"([^"]*)"', text) if Path(path).name == file
    }
    body = re.search(rf"\.entry {kernel}\b.*?(?=^\.\w+ \.(?:entry|func)|\Z)", text, re.DOTALL | re.MULTILINE)
    instructions: list[PtxLine] = []
    line = 0
    for row in (body[0] if body else "").splitlines():
        words = row.split()
        if words[:1] == [".loc"]:
            line = int(words[2]) if words[1] in numbers else line
        elif words and row.rstrip().endswith(";") and not words[0].startswith("."):
            instructions.append(PtxLine(" ".join(words), line))
    return tuple(instructions)
