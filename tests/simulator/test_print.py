"""printf and assert in a kernel."""

import numpy as np
import pytest

from tests.simulator.kernels import ORIGIN, meets, on_threads, simulate
from tilewise.simulator import HazardError


def _said(body: str, capsys: pytest.CaptureFixture[str], *, grid: int = 1, block: int = 1) -> str:
    run = simulate(on_threads(body, "int* y"), np.arange(64, dtype=np.int32), grid=grid, block=block)
    assert capsys.readouterr().out == run.printed
    return run.printed


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ('"hello\\n"', "hello\n"),
        ('"%d %i %u %x %X %o %c|", -5, 7, 4000000000u, 255, 255, 8, 65', "-5 7 4000000000 ff FF 10 A|"),
        ('"%5d|%-5d|%05d|%+d", 42, 42, 42, 42', "   42|42   |00042|+42"),
        (
            '"%f %.2f %e %g %8.3f", 1.5f, 2.345, 1e10, 0.5f, 3.14159',
            "1.500000 2.35 1.000000e+10 0.5    3.142",
        ),
        ('"%lld %llu %ld %zu %d", -1ll, ~0ull, 1l << 40, sizeof(int), 3', f"-1 {2**64 - 1} {2**40} 4 3"),
        ('"%d %f %d %lld", 1, 2.0, 3, 4ll', "1 2.000000 3 4"),
        ('"%s and %10s|%%", "one", "two"', "one and        two|%"),
        ('"%*d|%.*f", 6, 42, 2, 1.0', "    42|1.00"),
        ('"%p", (void*)0', "(nil)"),
        ('"%hd %hhd", (short)-3, (char)-4', "-3 -4"),
    ],
)
def test_formats(call, text, capsys):
    assert _said(f"printf({call});", capsys) == text


def test_what_was_printed_before_a_fault_is_shown(capsys):
    source = on_threads('printf("at %d\\n", i); y[1 << 20] = 1;', "int* y")
    with pytest.raises(HazardError) as caught:
        simulate(source, np.zeros(1, np.int32), block=1)
    assert capsys.readouterr().out == caught.value.run.printed == "at 0\n"


def test_endless_printing_is_cut_off(capsys):
    text = _said('for (int k = 0; k < 300000; ++k) printf("%d\\n", k);', capsys)
    assert text.startswith("0\n1\n")
    assert 2**20 - 10 < len(text) <= 2**20


def test_assert_names_condition_thread_and_line():
    source = on_threads("int v = y[i];\nassert(v < 40);\ny[i] = v;", "int* y")
    y = np.arange(64, dtype=np.int32)
    with meets("assert", 4, r"`v < 40` does not hold for thread 8 of block 1") as caught:
        simulate(source, y, grid=2)
    assert (caught.value.path, caught.value.line) == (ORIGIN[0], ORIGIN[1] + 3)
    simulate(source.replace("40", "64"), y, grid=2)
