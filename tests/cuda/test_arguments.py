"""What a launch may be given: every check and its one line, the same before both backends."""

import re

import numpy as np
import pytest

from tilewise.cuda.arguments import check_arguments, check_launch
from tilewise.cuda.kernel_source import KernelError, global_functions

(FUNCTION,) = global_functions(
    'extern "C" __global__ void __launch_bounds__(512) __cluster_dims__(2) f('
    "const float* x, float* y, int n, unsigned long long big, float scale, half small, bool flag, "
    "const float4* wide, Pair pair, float2 two) {}"
)
PARAMETERS = {one.name: one for one in FUNCTION.parameters}


def passed(name, value):
    return check_arguments("f", [PARAMETERS[name]], [value])[0]


def refused(name, value):
    with pytest.raises(KernelError) as caught:
        passed(name, value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("n", 7, np.int32(7)),
        ("n", -(2**31), np.int32(-(2**31))),
        ("n", True, np.int32(1)),
        ("n", np.int32(5), np.int32(5)),
        ("big", 2**64 - 1, np.uint64(2**64 - 1)),
        ("scale", 0.1, np.float32(0.1)),
        ("scale", 3, np.float32(3)),
        ("scale", float("inf"), np.float32("inf")),
        ("small", 1.5, np.float16(1.5)),
        ("flag", True, np.bool_(True)),
        ("flag", 0, np.bool_(False)),
    ],
)
def test_numbers_become_the_declared_type(name, value, expected):
    found = passed(name, value)
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n", 2**31, "is 2147483648, outside -2147483648 to 2147483647 of int. "
         "Pass a smaller number or declare a wider type."),
        ("n", 3.0, "is 3.0, and int is whole. Pass an int."),
        ("n", np.int64(3), "is a NumPy int64, and int is int32. "
         "Pass np.int32(...) or a Python number."),
        ("n", "3", "is of type str, and int is a number. Pass a number."),
        ("n", None, "is of type NoneType, and int is a number. Pass a number."),
        ("n", np.zeros(1, np.int32), "is an array, and int is one value. Pass a number, such as x.item()."),
        ("big", -1, "is -1, outside 0 to 18446744073709551615 of unsigned long long. "
         "Pass a smaller number or declare a wider type."),
        ("scale", 1e39, "is 1e+39, which does not fit float. Pass a smaller number."),
        ("scale", 10**400, f"is {10**400}, which does not fit float. Pass a smaller number."),
        ("scale", 2**24 + 1, "is 16777217, which float cannot hold exactly. "
         "Pass float(...) of it to round, or declare an integer type."),
        ("scale", np.float64(1), "is a NumPy float64, and float is float32. "
         "Pass np.float32(...) or a Python number."),
        ("small", 65536.0, "is 65536.0, which does not fit half. Pass a smaller number."),
        ("flag", 2, "is 2, outside 0 to 1 of bool. Pass a smaller number or declare a wider type."),
        ("x", 3, "is of type int, and const float* is a pointer. "
         "Pass an array, or None for a null pointer."),
        ("x", [1.0], "is of type list, and const float* is a pointer. "
         "Pass an array, or None for a null pointer."),
        ("x", np.zeros(3), "has dtype float64, and const float* takes float32. "
         'Make the array with dtype="float32" or convert it with .astype.'),
        ("x", np.zeros(3, ">f4"), "has dtype >f4, and const float* takes float32. "
         'Make the array with dtype="float32" or convert it with .astype.'),
        ("x", np.zeros((3, 4), np.float32).T, "is not C-contiguous. Pass np.ascontiguousarray(...) of it."),
        ("x", np.zeros(8, np.float32)[::2], "is not C-contiguous. Pass np.ascontiguousarray(...) of it."),
        ("y", np.broadcast_to(np.float32(0), (1,)), "is read-only, and the parameter is not const. "
         "Pass a copy or declare it const."),
        ("pair", 3, "is of type int. Pass a structured NumPy array of size 1 with its fields."),
        ("two", 3.0, "is of type float. Pass a structured NumPy array of size 1 with its fields."),
        ("pair", np.zeros(2, [("a", "i4")]), "holds 2 structures. "
         "Pass a structured array of size 1 by value."),
        ("two", np.zeros(1, [("x", "f4")]), "is a structure of 4 bytes, and float2 has 8. "
         "Pass a value of the declared type."),
        ("n", np.zeros(1, [("x", "i4")]), "is a structure of 4 bytes, and int has 4. "
         "Pass a value of the declared type."),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_repair(name, value, message):
    assert refused(name, value) == f'kernel "f": "{name}" {message}'


def test_arrays_pass_as_they_are():
    flat = np.zeros(4, np.float32)
    assert passed("x", flat) is flat
    assert passed("y", flat) is flat
    assert passed("wide", flat) is flat
    read_only = np.zeros(4, np.float32)
    read_only.flags.writeable = False
    assert passed("x", read_only) is read_only
    assert passed("x", np.zeros((0, 3), np.float32)).shape == (0, 3)


class Elsewhere:
    """An array of another package, in a GPU's memory."""

    def __init__(self, dtype="<f4", shape=(2, 3), strides=None, read_only=False):
        self.__cuda_array_interface__ = {
            "typestr": dtype, "shape": shape, "strides": strides, "data": (4096, read_only), "version": 3,
        }  # fmt: skip


def test_other_packages_arrays_are_checked_through_their_interface():
    fits = Elsewhere(strides=(12, 4))
    assert passed("y", fits) is fits
    assert refused("y", Elsewhere("<f8")).startswith(
        'kernel "f": "y" has dtype float64, and float* takes float32'
    )
    assert refused("y", Elsewhere(strides=(4, 8))).startswith('kernel "f": "y" is not C-contiguous')
    assert refused("y", Elsewhere(read_only=True)).startswith('kernel "f": "y" is read-only')
    assert passed("x", Elsewhere(shape=(1, 3), strides=(999, 4))) is not None


def test_views_that_overlap_in_part_are_refused_where_one_is_written():
    whole = np.zeros(8, np.float32)
    both = [PARAMETERS["x"], PARAMETERS["y"]]
    with pytest.raises(
        KernelError, match=r'^kernel "f": "x" and "y" share part of their memory\. Pass the same'
    ):
        check_arguments("f", both, [whole[:5], whole[3:]])
    assert all(one is whole for one in check_arguments("f", both, [whole, whole]))
    assert len(check_arguments("f", both, [whole[:4], whole[4:]])) == 2
    assert len(check_arguments("f", [PARAMETERS["x"]] * 2, [whole[:5], whole[3:]])) == 2


def test_grid_and_block_become_three_extents():
    assert check_launch("f", FUNCTION, 4, (8, 8), 1024) == ((4, 1, 1), (8, 8, 1), 1024)
    assert check_launch("f", FUNCTION, (2, 65_535, 65_535), (np.int64(2), 2, 64), 0) == (
        (2, 65_535, 65_535),
        (2, 2, 64),
        0,
    )


@pytest.mark.parametrize(
    ("grid", "block", "shared", "message"),
    [
        (None, 1, 0, "no grid was given. Pass grid=, an int or up to three of them."),
        (2, None, 0, "no block was given. Pass block=, an int or up to three of them."),
        (0, 1, 0, "grid=0 has 0 in x; it must lie between 1 and 2147483647."),
        ((2, 0), 1, 0, "grid=(2, 0) has 0 in y; it must lie between 1 and 65535."),
        (2**31, 1, 0, "grid=2147483648 has 2147483648 in x; it must lie between 1 and 2147483647."),
        ((2, 1, 65_536), 1, 0, "grid=(2, 1, 65536) has 65536 in z; it must lie between 1 and 65535."),
        (2, -1, 0, "block=-1 has -1 in x; it must lie between 1 and 1024."),
        (2, 1025, 0, "block=1025 has 1025 in x; it must lie between 1 and 1024."),
        (2, (1, 1, 65), 0, "block=(1, 1, 65) has 65 in z; it must lie between 1 and 64."),
        (2, (33, 32), 0, "block=(33, 32) has 1056 threads; a block holds at most 1024. "
         "Make the block smaller and the grid larger."),
        (2, 513, 0, "block=513 has 513 threads, and the kernel promises at most 512 by __launch_bounds__. "
         "Launch fewer or change the promise."),
        (3, 1, 0, "grid=3 is not a whole number of clusters of 2 blocks. Round the grid up."),
        (2, 2.5, 0, "block is 2.5. Give a whole number or a tuple of one to three of them, in x, y, z."),
        (2, 1, -4, "shared_bytes=-4 is outside 0 to 232448, the most that a block can have. "
         "Use a smaller tile."),
        (2, 1, 232_449, "shared_bytes=232449 is outside 0 to 232448, the most that a block can have. "
         "Use a smaller tile."),
        (2, 1, 1.5, "shared_bytes=1.5 is not a whole number. Pass bytes as an int."),
    ],
)  # fmt: skip
def test_a_launch_beyond_the_limits_says_which(grid, block, shared, message):
    with pytest.raises(KernelError, match="^" + re.escape(f'kernel "f": {message}') + "$"):
        check_launch("f", FUNCTION, grid, block, shared)
