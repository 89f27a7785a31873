"""Launches for ``test_replay.py``: arithmetic that platforms have in different ways, at awkward values.

Rounding toward zero, down and up, of single and double precision; functions of single precision; ``printf``.
"""

import numpy as np

from tilewise import Kernel

OPERATIONS = ("add", "sub", "mul", "div", "fma", "sqrt", "rcp")
TAKES = {"fma": 3, "sqrt": 1, "rcp": 1}
FUNCTIONS = (
    *("exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "sinh", "cosh", "tanh", "erf", "erfc", "cbrt", "rsqrt", "lgamma", "tgamma"),
)
PRINT = r"""
extern "C" __global__ void say(const float* x) {
    unsigned long long big = 0x123456789abcdefULL;
    printf("%d %5u %lld %llx %zu %p %p|", -7, 42u, -(long long)big, big, sizeof(big), (void*)0, (void*)x);
    printf("%f %.3e %g %a %-8d|%+d %05d %s %c%%\n", x[0], x[1], x[2], x[0], 12, 5, 42, "text", 'c');
}
"""


def awkward(kind: str) -> np.ndarray:
    """Zeros, ones, subnormals, the largest, infinities and what is not a number, and neighbours of some."""
    info = np.finfo(kind)
    base = [
        0,
        1,
        3,
        1 / 3,
        info.eps,
        1 + info.eps,
        info.tiny,
        info.smallest_subnormal,
        1e-20,
        info.max,
        np.inf,
    ]
    found = np.array(base, kind)
    return np.concatenate([found, -found, [np.nan]]).astype(kind)


def rounding() -> None:
    """Every operation in every direction."""
    random = np.random.default_rng(0)
    for kind, letter in (("float32", "f"), ("float64", "d")):
        edge = awkward(kind)
        x, y = (one.ravel() for one in np.meshgrid(edge, edge))
        spread = random.normal(size=(2, 2000)) * 2.0 ** random.integers(-60, 60, (2, 2000))
        x, y = np.concatenate([x, spread[0]]).astype(kind), np.concatenate([y, spread[1]]).astype(kind)
        with np.errstate(all="ignore"):
            product = -(x * y)
            lost = product * random.choice(np.array([0, 1, 1, 2, 1e-9], kind), len(x))
        z = lost.astype(kind)
        for way in ("rz", "rm", "rp"):
            out = np.zeros(7 * len(x), kind)
            kernel = Kernel(directed(letter, way))
            kernel.simulate(x, y, z, out, len(x), grid=-(-len(x) // 128), block=128)


def directed(letter: str, way: str) -> str:
    """A kernel that does every operation in one direction, by the instructions of PTX."""
    lines = []
    for at, name in enumerate(OPERATIONS):
        many = TAKES.get(name, 2)
        operands = ", ".join(f"%{1 + k}" for k in range(many))
        given = ", ".join(f'"{letter}"({value}[i])' for value in "xyz"[:many])
        code = f"{name}.{way}.f{32 if letter == 'f' else 64} %0, {operands};"
        lines.append(f'asm("{code}" : "={letter}"(r) : {given}); out[7 * i + {at}] = r;')
    number = "float" if letter == "f" else "double"
    return f"""
extern "C" __global__
void directed(const {number}* x, const {number}* y, const {number}* z, {number}* out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    {number} r;
    {" ".join(lines)}
}}"""


def functions() -> None:
    """Every function of single precision at random values."""
    lines = [f"to[{at}] = {name}f(x[i]);" for at, name in enumerate(FUNCTIONS)]
    lines += [
        f"to[{len(FUNCTIONS) + at}] = {call};"
        for at, call in enumerate(
            ["powf(fabsf(x[i]), y)", "atan2f(x[i], y)", "hypotf(x[i], y)", "fmodf(x[i], y)", "__expf(x[i])"]
        )
    ]
    source = f"""
extern "C" __global__ void functions(const float* x, float* out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float y = x[(i + 7) % n];
    float* to = out + {len(lines)} * i;
    {" ".join(lines)}
}}"""
    random = np.random.default_rng(1)
    x = np.concatenate([random.normal(0, 4, 3000), random.uniform(-1, 1, 1000), awkward("float32")])
    out = np.zeros(len(lines) * len(x), np.float32)
    Kernel(source).simulate(x.astype(np.float32), out, len(x), grid=-(-len(x) // 128), block=128)


if __name__ == "__main__":
    rounding()
    functions()
    Kernel(PRINT).simulate(np.array([1 / 3, 12345.678, 1e-7], np.float32), grid=1, block=1)
