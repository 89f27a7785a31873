"""What NVIDIA's compiler makes of a kernel, to be read: PTX and machine code, line by line, without a GPU.

In: a `Kernel`. Out: `MachineCode`, its instructions with the lines of CUDA C that they come from. Compiling
is `nvrtc`'s; NVIDIA's nvdisasm writes the machine code out; `tilewise.outputs` shows listings.
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
    """One instruction of machine code."""

    address: int
    """Where it stands, in bytes from the kernel's first."""
    predicate: str
    """Such as @P0 or @!P0: the lanes for which it does something; empty for all."""
    name: str
    """What it does, with its modifiers, such as LDG.E.128."""
    operands: str
    """Registers and constants, the destination first."""
    line: int = 0
    """The line of the kernel's source that it comes from; 0 in subroutines of the compiler's own."""
    labels: tuple[str, ...] = ()
    """The labels before it."""

    @property
    def target(self) -> str:
        """The label that it jumps to; empty where it does not."""
        found = _TARGET.search(self.operands) if self.name.split(".")[0] == "BRA" else None
        return found[1] if found else ""

    def registers(self) -> tuple[str, ...]:
        """The 32-bit registers among its operands, in order, such as R0, without those of addresses."""
        return tuple(re.findall(r"\bR\d+\b", re.sub(r"\[[^\]]*\]", "", self.operands)))

    def __str__(self) -> str:
        return " ".join(part for part in (self.predicate, self.name, self.operands) if part)


@dataclass(frozen=True)
class PtxLine:
    """One instruction of PTX."""

    text: str
    """As the compiler wrote it."""
    line: int
    """The line of the kernel's source that it comes from; 0 where none is named."""


@dataclass(frozen=True)
class MachineCode:
    """A kernel as the compiler made it for one architecture."""

    kernel: Kernel
    """The kernel."""
    resources: Resources
    """Registers, spills and shared memory."""
    ptx: tuple[PtxLine, ...]
    """Its PTX."""
    instructions: tuple[Instruction, ...]
    """Its machine code, without what stands behind the last instruction that can be reached."""

    def loop(self) -> tuple[Instruction, ...]:
        """The longest loop that holds no other: from the target of a jump back to the jump.

        Raises:
            CompileGateError: there is none.
        """
        at = {label: place for place, one in enumerate(self.instructions) for label in one.labels}
        jumps = [(at.get(one.target, len(at)), place) for place, one in enumerate(self.instructions)]
        found = [(first, last) for first, last in jumps if self.instructions[last].target and first <= last]
        inner = [
            (first, last)
            for first, last in found
            if not any((a, b) != (first, last) and first <= a and b <= last for a, b in found)
        ]
        if not inner:
            raise CompileGateError(f'kernel "{self.kernel.name}" has no loop in its machine code.')
        first, last = max(inner, key=lambda ends: ends[1] - ends[0])
        return self.instructions[first : last + 1]

    def beside(self, region: str = "") -> Beside:
        """CUDA C, PTX and machine code side by side, one row for each line of CUDA C that became something.

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
                tuple(one.text for one in self.ptx if one.line == number),
                tuple(map(str, self.from_line(number))),
            )
            for number in range(first, last + 1)
        ]
        return Beside(tuple(row for row in rows if row.ptx or row.machine_code), self.resources.architecture)

    def from_line(self, number: int) -> tuple[Instruction, ...]:
        """The instructions that come from a line of the source, counted from 1."""
        return tuple(one for one in self.instructions if one.line == number)

    def text(self) -> str:
        """All its machine code as lines, with labels on lines of their own."""
        return self.as_output().content

    def as_output(self) -> Listing:
        """All its machine code."""
        return listing(self.instructions, f"{self.kernel.name}, {self.resources.architecture}")


def listing(instructions: Iterable[Instruction], title: str = "") -> Listing:
    """Instructions as a page shows them.

    Args:
        instructions: what to show.
        title: what stands above.
    """
    lines = []
    for one in instructions:
        lines += [f"{label}:" for label in one.labels]
        lines.append(f"{one.predicate:<5}{one.name} {one.operands}".rstrip())
    return Listing("\n".join(lines), title)


def side_by_side(left: Iterable[Instruction], right: Iterable[Instruction], titles: tuple[str, str]) -> Pair:
    """Two stretches of machine code beside each other.

    Args:
        left: what stands on the left.
        right: what stands on the right.
        titles: what stands above each.
    """
    return Pair(listing(left, titles[0]), listing(right, titles[1]))


def available() -> str | None:
    """Why machine code cannot be shown here, one sentence; None where it can."""
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
    """The version that nvdisasm says, such as 13.5; empty where it says none."""
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"release (\d+\.\d+)", done.stdout)
    return found[1] if found else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if version else ()


def nvdisasm() -> Path | None:
    """NVIDIA's program that writes machine code out: the wheel's, or the one on the path."""
    folder = nvrtc.wheel()
    own = folder / "bin" / ("nvdisasm.exe" if os.name == "nt" else "nvdisasm") if folder else None
    if own is not None and own.is_file():
        return own
    found = shutil.which("nvdisasm")
    return Path(found) if found else None


def machine_code(kernel: Kernel, target: str = "sm_90") -> MachineCode:
    """Compile a kernel as a GPU's machine would, and read what came of it.

    Args:
        kernel: the kernel.
        target: an architecture; one that the kernel's own `-arch=` names goes before it.

    Raises:
        CompileGateError: NVRTC or nvdisasm is missing, or one of them refuses the kernel.
    """
    tool = nvdisasm()
    if tool is None:
        raise CompileGateError(str(available()))
    made = nvrtc.compile_whole(kernel, architecture(kernel.options) or target)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(made.cubin)
        done = subprocess.run([tool, "-g", "-c", "-ndf", file], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileGateError(f'kernel "{kernel.name}": nvdisasm fails: {done.stderr.strip()[:200]}')
    name = Path(kernel.origin[0]).name
    instructions = _read(done.stdout, kernel.name, name)
    if not instructions:
        raise CompileGateError(f'kernel "{kernel.name}": nvdisasm shows no instruction of it.')
    return MachineCode(kernel, made.resources, _ptx(made.ptx, kernel.name, name), instructions)


def machine_codes(kernels: Iterable[Kernel], target: str = "sm_90") -> tuple[MachineCode, ...]:
    """As `machine_code`, for several kernels at the same time, in their order.

    Args:
        kernels: the kernels.
        target: as there.

    Raises:
        CompileGateError: as there.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return tuple(pool.map(lambda kernel: machine_code(kernel, target), kernels))


def _read(text: str, kernel: str, file: str) -> tuple[Instruction, ...]:
    """The instructions of one kernel in what nvdisasm wrote."""
    parts = _SECTION.split(text)
    body = dict(zip(parts[1::2], parts[2::2], strict=True)).get(kernel, "")
    found: list[Instruction] = []
    line, labels = 0, list[str]()
    for each in body.splitlines():
        if each.lstrip().startswith("//##"):
            places = [int(number) for path, number in _PLACE.findall(each) if Path(path).name == file]
            line = places[0] if places else line
        elif mark := _LABEL.match(each):
            labels.append(mark[1])
        elif _SUBROUTINE.match(each):
            line = 0
        elif code := _CODE.match(each):
            name, _, operands = code["rest"].partition(" ")
            address = int(code["address"], 16)
            one = Instruction(address, code["predicate"] or "", name, operands.strip(), line, tuple(labels))
            found.append(one)
            labels.clear()
    while found and (found[-1].name == "NOP" or found[-1].target in found[-1].labels):
        found.pop()
    return tuple(found)


def _ptx(text: str, kernel: str, file: str) -> tuple[PtxLine, ...]:
    """The instructions of one kernel in what NVRTC wrote."""
    numbers = {
        number for number, path in re.findall(r'\.file\s+(\d+)\s+"([^"]*)"', text) if Path(path).name == file
    }
    body = re.search(rf"\.entry {kernel}\b.*?(?=^\.\w+ \.(?:entry|func)|\Z)", text, re.DOTALL | re.MULTILINE)
    found: list[PtxLine] = []
    line = 0
    for each in (body[0] if body else "").splitlines():
        words = each.split()
        if words[:1] == [".loc"]:
            line = int(words[2]) if words[1] in numbers else line
        elif words and each.rstrip().endswith(";") and not words[0].startswith("."):
            found.append(PtxLine(" ".join(words), line))
    return tuple(found)
