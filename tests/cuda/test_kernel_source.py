"""Reading CUDA C: kernels, parameters, regions, tokens, defines."""

import pytest

from tilewise.cuda.c_types import c_type
from tilewise.cuda.kernel_source import KernelError, check_includes, define_lines, global_functions, tokens
from tilewise.cuda.regions import is_marker, regions

SEVERAL = r"""
// extern "C" __global__ void commented(int n) {}
#define WRAP \
    __global__ void in_a_macro(int n)
#define WIDTH 8
typedef unsigned int u32;
using real = float;
struct Pair { int a; float b; };
template <int T> __device__ float helper(float x) { return x * T; }
extern "C" __global__ void __launch_bounds__(128, 2) first(
    const float* __restrict__ a,   // a comment, with a comma
    float const *b, float* const c, u32 count, /* two */ real scale, unsigned long long big,
    const float4* wide, __half2* pairs, int rows[], void* any)
{ const char* text = "extern \"C\" __global__ void quoted(int n)"; }
extern "C" {
__device__ int twice(int x) { return 2 * x; }
__global__ __cluster_dims__(2, 1, 1) void second(const __grid_constant__ Pair pair, bool flag) {}
}
extern "C" __global__ void __launch_bounds__(WIDTH) third() {}
extern "C" __global__ void fourth(void) {}
"""


def declared(function):
    return [(one.name, one.ctype, one.base, one.is_pointer, one.is_const) for one in function.parameters]


def test_every_launchable_function_is_found_with_its_line_and_attributes():
    found = global_functions(SEVERAL)
    assert [(one.name, one.line, one.max_threads, one.cluster) for one in found] == [
        ("first", 10, 128, None),
        ("second", 17, None, (2, 1, 1)),
        ("third", 19, 8, None),
        ("fourth", 20, None, None),
    ]


def test_parameters_are_read_with_pointers_constness_and_aliases():
    first, second, third, fourth = global_functions(SEVERAL)
    assert declared(first) == [
        ("a", "const float*", "float", True, True),
        ("b", "float const*", "float", True, True),
        ("c", "float* const", "float", True, False),
        ("count", "u32", "unsigned int", False, False),
        ("scale", "real", "float", False, False),
        ("big", "unsigned long long", "unsigned long long", False, False),
        ("wide", "const float4*", "float4", True, True),
        ("pairs", "__half2*", "__half2", True, False),
        ("rows", "int*", "int", True, False),
        ("any", "void*", "void", True, False),
    ]
    assert declared(second) == [
        ("pair", "const Pair", "Pair", False, False),
        ("flag", "bool", "bool", False, False),
    ]
    assert (declared(third), declared(fourth)) == ([], [])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("float", ("float32", 1)),
        ("__half", ("float16", 1)),
        ("half2", ("float16", 2)),
        ("__nv_bfloat16", ("uint16", 1)),
        ("nv_bfloat162", ("uint16", 2)),
        ("float4", ("float32", 4)),
        ("ulonglong2", ("uint64", 2)),
        ("unsigned", ("uint32", 1)),
        ("long unsigned int", ("uint64", 1)),
        ("long long", ("int64", 1)),
        ("unsigned char", ("uint8", 1)),
        ("signed char", ("int8", 1)),
        ("short int", ("int16", 1)),
        ("size_t", ("uint64", 1)),
        ("std::uint8_t", ("uint8", 1)),
        ("bool", ("bool", 1)),
    ],
)
def test_types_are_numpys(name, expected):
    found = c_type(name)
    assert found is not None
    assert (str(found.dtype), found.width) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "__global__ void f(int n) {}",
            'kernel "f" is not extern "C", so its name is mangled. Write: extern "C" __global__ void f(...)',
        ),
        (
            "template <int T>\n__global__ void f(int n) {}",
            'kernel "f" is a template, which has no plain name to launch by. '
            'Make it extern "C" __global__ and put the template on a __device__ function that it calls.',
        ),
        (
            'extern "C" __global__ void f(float** x) {}',
            'kernel "f": cannot read the parameter "float** x". '
            "Write a type and a name, such as const float* x or int n.",
        ),
        (
            'extern "C" __global__ void f(int) {}',
            'kernel "f": cannot read the parameter "int". '
            "Write a type and a name, such as const float* x or int n.",
        ),
    ],
)
def test_a_source_that_cannot_be_launched_says_why(source, message):
    with pytest.raises(KernelError) as caught:
        global_functions(source)
    assert str(caught.value) == message


def test_tokens_ignore_comments_white_space_regions_and_line_directives():
    written = (
        '#line 7\n#define T 16 // tile\n// [body\nfloat x = 1.5e-3f; /* y */\nx >>= T;\n// body]\nf("a b");\n'
    )
    packed = '#define T 16\nfloat\nx=1.5e-3f;x>>=T;f("a b");'
    expected = (
        "#", "define", "T", "16", "\n", "float", "x", "=", "1.5e-3f", ";", "x", ">>=", "T", ";",
        "f", "(", '"a b"', ")", ";",
    )  # fmt: skip
    assert tokens(written) == expected
    assert tokens(packed) == expected


@pytest.mark.parametrize(
    ("left", "right"),
    [("a + +b", "a ++b"), ("a b", "ab"), ('"a b"', '"ab"'), ("#define A 1\nB", "#define A 1 B"), ("x", "y")],
)
def test_tokens_differ_where_the_meaning_does(left, right):
    assert tokens(left) != tokens(right)


def test_regions_have_their_true_lines_and_may_nest():
    source = "one\n// [outer\ntwo\n    // [inner\nthree\n    // inner]\nfour\n// outer]\nfive"
    found = regions(source)
    assert {name: (one.first_line, one.last_line, one.source) for name, one in found.items()} == {
        "inner": (5, 5, "three\n"),
        "outer": (3, 7, "two\n    // [inner\nthree\n    // inner]\nfour\n"),
    }
    assert [line for line in source.split("\n") if is_marker(line)] == [
        "// [outer", "    // [inner", "    // inner]", "// outer]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "// [a\nx\n// a]\n// [a\ny\n// a]",
            'line 4: region "a" is opened twice. Give each region its own name.',
        ),
        ("x\n// a]", 'line 2: region "a" is closed but not open. Put "// [a" before it.'),
        ("// [a\nx", 'line 1: region "a" is never closed. Put "// a]" after its last line.'),
        ("// [a\n\n// a]", 'line 3: region "a" is empty. Put its lines between the markers.'),
    ],
)
def test_regions_that_do_not_match_are_errors(source, message):
    with pytest.raises(KernelError) as caught:
        regions(source)
    assert str(caught.value) == message


@pytest.mark.parametrize("defines", [{"a b": 1}, {"": 1}, {"T": None}, {"T": "a\nb"}, {"T": [1]}])
def test_a_define_that_is_no_define_is_refused(defines):
    with pytest.raises(KernelError, match=r"^defines: .* (Rename it|one-line text)\.$"):
        define_lines(defines)


@pytest.mark.parametrize(
    "line",
    [
        '#include "/etc/hostname"',
        "#include <stdio.h>",
        " # include FILE",
        "%:include <math.h>",
        '#embed "x.bin"',
    ],
)
def test_only_the_two_headers_of_both_backends_are_included(line):
    check_includes("// #include <stdio.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h> // halves\n")
    with pytest.raises(KernelError, match="line 2: a kernel may include <cuda_fp16"):
        check_includes(f"\n{line}\n")


def test_a_setting_that_is_given_wins_over_the_texts_own_guarded_one():
    source = (
        "#ifndef Number\n#define Number float\n#endif\n#ifndef THREADS\n#define THREADS 64\n#endif\n"
        'extern "C" __global__ void __launch_bounds__(THREADS) f(const Number* x) {}\n'
    )
    own, given = (
        global_functions(source, defines)[0] for defines in (None, {"Number": "__half", "THREADS": "128"})
    )
    assert (own.max_threads, own.parameters[0].base) == (64, "float")
    assert (given.max_threads, given.parameters[0].base) == (128, "__half")
