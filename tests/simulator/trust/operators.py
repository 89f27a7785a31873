"""Operators that plant one bug into a kernel's text, without moving a line.

In: a source. Out: mutants, each with the line it changed, the names that a hazard may have, and where.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

HELPERS = """\
#define TW_WIDE(type, load) \\
__device__ __attribute__((always_inline, nodebug)) inline type tw_wide(const type* p) { \\
    type##4 v = *(const type##4*)p; return v.x + load; } \\
__device__ __attribute__((always_inline, nodebug)) inline void tw_wide_store(type* p, type v) { \\
    *(type##4*)p = make_##type##4(v, v, v, v); }
TW_WIDE(float, 0.0f * (v.y + v.z + v.w))
TW_WIDE(int, ((v.y ^ v.z ^ v.w) == 0x7eadbeef))
#line 1
"""
SHARED = re.compile(r"__shared__ (?:__align__\(\d+\) )?(?:unsigned )?\w+ (?P<all>[^;]+);")
POINTED = re.compile(r"(?:\*\([\w ]+\*\) ?\(?|\([\w ]+\*\)(?=\w+\)\[)|_cast<[\w ]+\*>\((?=\w+\)\[))(\w+)")
"""An array accessed by another type: `*(float4*)(x + i)`, `((float4*)x)[i]`."""


@dataclass(frozen=True)
class Mutant:
    """A source with one bug."""

    operator: str
    """What was done."""
    line: int
    """Where, from 1."""
    was: str
    """The line as it was, and what of it was changed."""
    source: str
    """The whole."""
    kinds: frozenset[str]
    """Names that a hazard of this bug may have."""
    lines: frozenset[int]
    """Lines at which it may be reported: the one changed, and the accesses that it endangers."""
    without: str = ""
    """An array of the launch that lacks its last element."""

    @property
    def name(self) -> str:
        """Operator, line and text."""
        return f"{self.operator}: {self.was}"


WAITED = frozenset(
    ("undelivered", "overwritten", "mbarrier", "deadlock", "cluster", "proxy", "accumulator", "tensor map")
)
"""What goes wrong in a kernel of asynchronous copies: a place read before, or filled after, its time."""
MEMORY = frozenset(("out of bounds", "misaligned", "race", "uninitialised")) | WAITED
ORDER = frozenset(("race", "uninitialised")) | WAITED


def shared_names(source: str) -> set[str]:
    """The shared arrays of a source, and what else is declared beside them, such as a single mbarrier."""
    declared = (re.sub(r"\[[^\[\]]*\]", "", found["all"]) for found in SHARED.finditer(source))
    return {name for names in declared for name in re.findall(r"[A-Za-z_]\w*", names)}


def _accessing(lines: list[str], names: set[str] | None = None) -> set[int]:
    """Lines that access one of these arrays, or any."""
    found = set()
    for number, line in enumerate(lines, 1):
        if "__shared__" in line:
            continue
        arrays = re.findall(r"\b([A-Za-z_]\w*)\s*\[", line) + POINTED.findall(line)
        if "atomic" in line:
            arrays += re.findall(r"atomic\w+\(&?(\w+)", line)
        arrays += re.findall(r"&(\w+)\b(?!\[)", line)
        if arrays and (names is None or names & set(arrays)):
            found.add(number)
    return found


TYPE = r"(?!(?:return|else|case|goto|do|[A-Z_]{2,})\b)[A-Za-z_]\w*[*&]* "
TYPED = re.compile(rf"(?<![\w.>]){TYPE}(?:(?:const|__restrict__) )*[(*&]*[A-Za-z_]\w*\)?(?=\[)")
STATEMENT = re.compile(
    rf"\s*(?:(?:extern|static|const|__\w+__(?:\([^()]*\))?) )*{TYPE}(?=[*&]*[A-Za-z_]\w*\s*[=,\[])"
)


def declared(line: str) -> set[int]:
    """Where a line begins to say how long an array is, as `[4]` in `float4 v[4] = {x[i]};`."""
    found = {match.end() for match in TYPED.finditer(line)}
    statement = STATEMENT.match(line)
    depth, named = 0, True  # of brackets; whether a name stands here, not what it begins with
    for at in range(statement.end() if statement else len(line), len(line)):
        found |= {at} if line[at] == "[" and depth == 0 and named else set()
        depth += (line[at] in "([{") - (line[at] in ")]}")
        named = named if depth or line[at] not in ",=" else line[at] == ","
        if depth < 0 or (depth == 0 and line[at] == ";"):
            break
    return found


Edit = tuple[str, str]


def _replaced(line: str, found: re.Match[str], text: str) -> Edit:
    return line[: found.start()] + text + line[found.end() :], found[0].strip()


def _drop(pattern: str) -> Callable[[str], Iterator[Edit]]:
    def edits(line: str) -> Iterator[Edit]:
        for found in re.finditer(pattern, line):
            yield _replaced(line, found, ";")

    return edits


def _drop_guard(line: str) -> Iterator[Edit]:
    for found in re.finditer(r"\bif \(((?:[^()]|\([^()]*\))*[<>=][^()]*)\) (return;)?", line):
        yield _replaced(line, found, "")
    for found in re.finditer(r"(?<== )([^=;]+?) \? ([^:;]+) : 0\.0f", line):
        yield _replaced(line, found, found[2])


def _off_by_one(line: str) -> Iterator[Edit]:
    lengths = declared(line)
    for found in re.finditer(r"(?<=[\w\])])\[((?:[^\[\]]|\[[^\[\]]*\])+)\]", line):
        if found.start() in lengths:
            lengths.add(found.end())  # and a further dimension
            continue
        for by in (" + 1", " - 1"):
            new, _ = _replaced(line, found, f"[{found[1]}{by}]")
            yield new, f"{found[0]}{by}"


def _wrong_mask(line: str) -> Iterator[Edit]:
    for found in re.finditer("0xffffffff", line):
        yield _replaced(line, found, "0xffff")


def _swapped_stride(line: str) -> Iterator[Edit]:
    place = r"(?:\w+(?:\.\w+)?)"
    for found in re.finditer(rf"({place}) \* ({place}) \+ ({place})(?=\]| \+|\)|;)", line):
        if "blockIdx" in found[1] or found[1] == found[3]:
            continue
        yield _replaced(line, found, f"{found[3]} * {found[2]} + {found[1]}")


def _early_return(line: str) -> Iterator[Edit]:
    for found in re.finditer(r"__syncthreads\(\);|__syncwarp\(\);", line):
        yield _replaced(line, found, f"if (threadIdx.x % 8 == 5) return; {found[0]}")


def _too_small(line: str) -> Iterator[Edit]:
    if "__shared__" not in line:
        return
    for found in re.finditer(r"(\w+)\[(\w+)\]", line):
        new, _ = _replaced(line, found, f"{found[1]}[{found[2]} - 1]")
        yield new, found[0]


def _widened(line: str) -> Iterator[Edit]:
    if "__shared__" in line or "float4" in line:
        return
    subscript = r"\[((?:[^\[\]]|\[[^\[\]]*\])+)\]"
    for found in re.finditer(rf"(?<![\w&\]])([A-Za-z_]\w*){subscript}(?!\s*(?:=[^=]|\+=|\[))", line):
        yield _replaced(line, found, f"tw_wide(&{found[1]}[{found[2]}])")
    for found in re.finditer(rf"(?<![\w&\]])([A-Za-z_]\w*){subscript} = ([^;]+);", line):
        yield _replaced(line, found, f"tw_wide_store(&{found[1]}[{found[2]}], {found[3]});")


def _comparison(line: str) -> Iterator[Edit]:
    for found in re.finditer(r" (<|>=|>|<=) ", line):
        other = {"<": "<=", ">=": ">", ">": ">=", "<=": "<"}[found[1]]
        new, _ = _replaced(line, found, f" {other} ")
        yield new, f"{line[max(0, found.start() - 12) : found.end() + 6].strip()} -> {other}"


WAITS = r'asm volatile\("bar\.sync[^;]*;[^;]*;|WAIT\(\d\);|COMMIT\(\);'
ANY = MEMORY | {"barrier", "shuffle"}
OPERATORS: dict[str, tuple[Callable[[str], Iterator[Edit]], frozenset[str], str]] = {
    "drop a barrier": (_drop(r"__syncthreads\(\);"), ORDER, "shared"),
    "drop a __syncwarp": (_drop(r"__syncwarp\(\);"), ORDER, "shared"),
    "drop a wait": (_drop(WAITS), ORDER | {"barrier"}, "wait"),
    "drop a guard": (_drop_guard, ANY, "behind"),
    "index off by one": (_off_by_one, MEMORY, "array"),
    "wrong shuffle mask": (_wrong_mask, frozenset(("shuffle",)), "changed"),
    "swapped stride": (_swapped_stride, MEMORY, "array"),
    "early return before a barrier": (_early_return, ANY, "barrier"),
    "array too small": (_too_small, frozenset(("out of bounds",)), "array"),
    "widened access": (
        _widened,
        frozenset(("misaligned", "out of bounds", "race", "uninitialised")),
        "array",
    ),
    "comparison": (_comparison, ANY | {"steps"}, "behind"),
}
"""Of each: how it edits a line, what its hazards are called, and at which lines they may be reported."""


def _lines(rule: str, lines: list[str], number: int, shared: set[str]) -> frozenset[int]:
    if rule == "shared":
        return frozenset(_accessing(lines, shared))
    if rule == "behind":
        waiting = {at for at, line in enumerate(lines, 1) if "sync" in line}
        return frozenset(
            at for at in _accessing(lines) | waiting | {number} if at >= number or _loops(lines, at, number)
        )
    if rule == "barrier":
        return frozenset(
            {number} | {at for at, line in enumerate(lines, 1) if "sync" in line and at > number}
        )
    if rule == "array":
        arrays = set(re.findall(r"\b([A-Za-z_]\w*)\s*\[", lines[number - 1]))
        made = re.findall(r"\b(?:int|float) (\w+) = ", lines[number - 1])  # an index, used further down
        used = {
            at
            for at in _accessing(lines)
            if any(re.search(rf"\b{name}\b", lines[at - 1]) for name in made) and not arrays
        }
        return frozenset({number} | used | _accessing(lines, arrays & shared))
    if rule == "wait":
        return frozenset(
            _accessing(lines, shared) | {at for at, line in enumerate(lines, 1) if "bar." in line}
        )
    return frozenset((number,))


def _loops(lines: list[str], before: int, number: int) -> bool:
    """Whether a line before another is met again behind it, in a loop around both."""
    depth = lambda line: len(line) - len(line.lstrip())  # noqa: E731
    opened = [
        at for at, line in enumerate(lines[:before], 1) if "for (" in line and line.rstrip().endswith("{")
    ]
    return any(
        all(depth(line) > depth(lines[at - 1]) for line in lines[at:number] if line.strip()) for at in opened
    )


def mutants(
    source: str, arrays: tuple[str, ...] = (), shared_bytes: int = 0, entry: str | None = None
) -> list[Mutant]:
    """Every operator everywhere it applies.

    Args:
        source: a kernel, or several of which one is launched.
        arrays: parameters that the launch may give one element too little.
        shared_bytes: of the launch; if any, four too few is one more bug.
        entry: the kernel that is launched; nothing is planted into what it does not come to.
    """
    head, mark, body = source.rpartition("#line 1\n")
    lines = body.split("\n")
    idle = _left_out(head, lines) | (_unreached(lines, entry) if entry else frozenset())
    shared = shared_names(body)
    made = []
    for operator, (edits, kinds, rule) in OPERATORS.items():
        seen: dict[str, int] = {}
        for number, line in enumerate(lines, 1):
            if number in idle:
                continue
            if line.startswith(("extern", "void", "        ")) and "__global__" in line:
                continue
            code, comment = _code_of(line)
            for new, what in edits(code):
                text = "\n".join([*lines[: number - 1], new + comment, *lines[number:]])
                was = f"{what} in `{line.strip()}`"
                seen[was] = seen.get(was, 0) + 1
                if seen[was] > 1:
                    was += f" ({seen[was]})"
                whole = head + mark + text if mark else text
                if operator == "widened access":
                    whole = head + HELPERS + text
                made.append(Mutant(operator, number, was, whole, kinds, _lines(rule, lines, number, shared)))
    for array in (*arrays, *(["shared_bytes"] if shared_bytes else [])):
        names = shared if array == "shared_bytes" else _aliases(lines, array)
        made.append(
            Mutant(
                "array too small",
                1,
                f"{array} of the launch",
                source,
                frozenset(("out of bounds",)),
                frozenset(_accessing(lines, names) | _pointing(lines, array)),
                array,
            )
        )
    return made


def _code_of(line: str) -> tuple[str, str]:
    """A line in two: what is compiled, and a comment behind it, with the blanks before that."""
    found = re.match(r'((?:[^"/]|"(?:[^"\\]|\\.)*"|/(?!/))*?)(\s*//.*)?$', line)
    return (found[1], found[2] or "") if found else (line, "")


DIRECTIVE = re.compile(r"\s*#\s*(define|undef|ifdef|ifndef|if|elif|else|endif)\b\s*(.*)")


def _left_out(head: str, lines: list[str]) -> frozenset[int]:
    """Lines that the preprocessor drops or obeys, by what `head` and the text define: no place for bugs."""
    defined: dict[str, str] = {}
    found: set[int] = set()
    stack: list[tuple[bool, bool]] = []  # of each open #if: whether a branch was taken, whether this one is
    for number, line in enumerate([*head.split("\n"), *lines], 1 - len(head.split("\n"))):
        live = all(here for _, here in stack)
        directive = DIRECTIVE.match(line)
        if directive is None:
            found |= set() if live or number < 1 else {number}
            continue
        word, rest = directive[1], directive[2].split("//")[0].strip()
        found |= set() if word == "define" and live else {number}
        if word in ("if", "ifdef", "ifndef"):
            text = {"if": rest, "ifdef": f"defined({rest})", "ifndef": f"!defined({rest})"}[word]
            holds = live and _holds(text, defined)
            stack.append((holds, holds))
        elif word in ("elif", "else"):
            taken, _ = stack.pop()
            outside = all(here for _, here in stack)
            holds = outside and not taken and (word == "else" or _holds(rest, defined))
            stack.append((taken or holds, holds))
        elif word == "endif":
            stack.pop()
        elif live and word == "define" and "(" not in rest.partition(" ")[0]:
            name, _, value = rest.partition(" ")
            defined[name] = value.strip()
        elif live and word == "undef":
            defined.pop(rest, None)
    return frozenset(found)


def _holds(text: str, defined: dict[str, str]) -> bool:
    """What an #if makes of whole numbers, comparisons and names; a name that nothing defines is 0."""
    text = re.sub(r"\bdefined\s*\(?\s*(\w+)\s*\)?", lambda found: str(int(found[1] in defined)), text)
    for _ in range(8):  # a name may stand for another
        text = re.sub(r"\b[A-Za-z_]\w*\b", lambda found: f"({defined.get(found[0]) or 0})", text)
    text = text.replace("&&", " and ").replace("||", " or ")
    return bool(eval(re.sub(r"!(?!=)", " not ", text).replace("/", "//"), {"__builtins__": {}}))


def _end_of_body(lines: list[str], number: int) -> int:
    """The line that closes the function that begins in a line; the last one where none does."""
    depth = 0
    for at, text in enumerate(lines[number - 1 :], number):
        depth += text.count("{") - text.count("}")
        if depth == 0 and "}" in text:
            return at
    return len(lines)


def _unreached(lines: list[str], entry: str) -> frozenset[int]:
    """Lines of kernels, helpers and macros that the launched kernel does not come to, so that none runs."""
    spans: list[tuple[str, range]] = []
    last = 0
    for number, line in enumerate(lines, 1):
        if number <= last:
            continue
        if macro := re.match(r"\s*#\s*define\s+(\w+)", line):
            last = number
            while lines[last - 1].endswith("\\") and last < len(lines):
                last += 1
            spans.append((macro[1], range(number, last + 1)))
        elif "__global__" in line or re.search(r"\b__device__\b[^;=]*\(", line):
            last = _end_of_body(lines, number)
            text = re.sub(r"__\w+__(\s*\([^)]*\))?", "", " ".join(lines[number - 1 : last]))  # launch bounds
            named = re.search(r"(\w+)\s*\(", text.partition("void")[2] if "__global__" in line else text)
            spans.append((named[1] if named else entry, range(number, last + 1)))
    inside = {number for _, span in spans for number in span}
    reached = {number for number in range(1, len(lines) + 1) if number not in inside}
    kernels = {name for name, span in spans if any("__global__" in lines[number - 1] for number in span)}
    rest = [one for one in spans if one[0] not in kernels]
    wanted = {number for name, span in spans if name == entry for number in span}
    while wanted:
        reached |= wanted
        code = "\n".join(_code_of(lines[number - 1])[0] for number in reached)
        words = set(re.findall(r"[A-Za-z_]\w*", code))
        wanted = {number for name, span in rest if name in words for number in span}
        rest = [one for one in rest if one[0] not in words]
    found = any(name == entry for name, _ in spans)
    return frozenset(range(1, len(lines) + 1)) - reached if found else frozenset()


def _pointing(lines: list[str], array: str) -> set[int]:
    """Lines that go to an array by its address: `x + i`."""
    return {
        number
        for number, line in enumerate(lines, 1)
        if re.search(rf"\b{array} \+ ", line) or array in POINTED.findall(line)
    }


def _aliases(lines: list[str], array: str) -> set[str]:
    """An array and pointers made from it."""
    made = rf"\* (\w+) = (?:\([\w ]+\*\))?\(?{array}\b(?! ?\[)"
    return {array} | set(re.findall(made, "\n".join(lines)))
