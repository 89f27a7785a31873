"""Clusters: who is in which, shared memory of other blocks, barriers, multicast, and what goes wrong."""

import numpy as np
import pytest

from tests.simulator.hopper import DEVICE, OPTIONS, line_of
from tests.simulator.kernels import meets
from tilewise.cuda.tensor_map import tensor_map
from tilewise.kernel.kernel import Kernel
from tilewise.simulator import HazardError


def kernel(parameters: str, body: str, dims: str = "4") -> Kernel:
    source = (
        f'{DEVICE}extern "C" __global__ void __cluster_dims__({dims}) kernel({parameters}) {{\n'
        f"int i = threadIdx.x;\n{body}\n}}\n"
    )
    return Kernel(source, options=OPTIONS)


SYNC = "cluster_arrive(); cluster_wait();\n"


def test_the_special_registers():
    names = [
        *(f"cluster_ctaid.{axis}" for axis in "xyz"),
        *(f"cluster_nctaid.{axis}" for axis in "xyz"),
        *(f"clusterid.{axis}" for axis in "xyz"),
        *(f"nclusterid.{axis}" for axis in "xyz"),
        "cluster_ctarank",
        "cluster_nctarank",
    ]
    reads = "\n".join(
        f'{{ unsigned r; asm volatile("mov.u32 %0, %%{name};" : "=r"(r)); mine[{at}] = r; }}'
        for at, name in enumerate(names)
    )
    body = f"int* mine = y + 14 * ((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);\n{reads}"
    y = np.zeros((2, 4, 6, 14), np.int32)
    kernel("int* y", body, "3, 2, 1").simulate(y.reshape(-1), grid=(6, 4, 2), block=1)
    for z, row, x in np.ndindex(2, 4, 6):
        expected = [x % 3, row % 2, 0, 3, 2, 1, x // 3, row // 2, z, 2, 2, 2, x % 3 + 3 * (row % 2), 6]
        assert y[z, row, x].tolist() == expected


RING = (
    "__shared__ int s[32];\ns[i] = 100 * rank() + i;\n" + SYNC + "int other = (rank() + 1) % 4;\n"
    "y[32 * blockIdx.x + i] = remote(mapa(&s[31 - i], other));\n" + SYNC.strip()
)


def test_blocks_read_each_other_s_shared_memory():
    y = np.zeros(8 * 32, np.int32)
    kernel("int* y", RING).simulate(y, grid=8, block=32)
    expected = [100 * ((block + 1) % 4) + 31 - i for block in range(8) for i in range(32)]
    assert y.tolist() == expected


@pytest.mark.parametrize(
    ("first", "second", "kind", "line_with"),
    [
        ("", SYNC.strip(), ("cluster", "uninitialised"), "remote(mapa"),
        (SYNC, "", ("cluster",), "remote(mapa"),
        ("__syncthreads();\n", SYNC.strip(), ("cluster", "uninitialised"), "remote(mapa"),
        ("cluster_arrive();\n", "cluster_wait();", ("cluster", "uninitialised"), "remote(mapa"),
        ("cluster_wait();\n", "", ("cluster",), "cluster_wait();"),
        ("cluster_arrive(); cluster_arrive(); cluster_wait();\n", "", ("cluster",), "cluster_arrive();"),
        ("if (rank() != 2) cluster_arrive();\ncluster_wait();\n", "", ("cluster",), "cluster_wait();"),
        (
            'asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); cluster_wait();\n',
            SYNC.strip(),
            ("race", "cluster"),
            "remote(mapa",
        ),
    ],
)
def test_missing_barriers_of_a_cluster(first, second, kind, line_with):
    body = RING[: -len(SYNC.strip())].replace(SYNC, first) + second
    made = kernel("int* y", body)
    with meets(kind, line_of(made.source, line_with)):
        made.simulate(np.zeros(4 * 32, np.int32), grid=4, block=32)


def test_a_race_between_blocks_of_a_cluster():
    body = (
        "__shared__ int s[32];\ns[i] = 0;\n" + SYNC + "int address = mapa(&s[i], 0);\n"
        'asm volatile("st.shared::cluster.s32 [%0], %1;" :: "r"(address), "r"(i) : "memory");\n'
        + SYNC
        + "y[i] = s[i];"
    )
    with meets("race", match=r"of block"):
        kernel("int* y", body, "2").simulate(np.zeros(32, np.int32), grid=2, block=32)
    one = body.replace("int address", "if (rank() == 1) {\nint address").replace(
        '"memory");\n', '"memory"); }\n'
    )
    y = np.zeros(32, np.int32)
    kernel("int* y", one.replace("y[i] = s[i]", "if (rank() == 0) y[i] = s[i]"), "2").simulate(
        y, grid=2, block=32
    )
    assert y.tolist() == list(range(32))


def test_a_rank_that_is_not_there_and_memory_beyond_a_variable():
    with pytest.raises(HazardError, match="names block 7 of its cluster, which has no such block"):
        kernel("int* y", RING.replace("other)", "other + 7 - other)")).simulate(
            np.zeros(128, np.int32), grid=4, block=32
        )
    with pytest.raises(HazardError, match=r"reads s\[\d+\]; s has 32 elements"):
        kernel("int* y", RING.replace("&s[31 - i]", "&s[32 + i]")).simulate(
            np.zeros(128, np.int32), grid=4, block=32
        )


PIPE = (
    "__shared__ __align__(1024) float s[512]; __shared__ __align__(8) u64 full, empty;\n"
    "if (i == 0) { init(&full, 1); init(&empty, 2); fence_init(); }\n" + SYNC + "float total = 0;\n"
    "for (int t = 0; t < 4; ++t) {\n"
    "if (i == 0) { wait(&empty, (t & 1) ^ 1); expect(&full, 2048);\n"
    "load_2d_to(s + 256 * rank(), &A, 0, 16 * t + 8 * rank(), &full, 3); }\n"
    "wait(&full, t & 1);\n"
    "for (int k = i; k < 512; k += 32) total += s[k];\n__syncwarp();\n"
    "if (i < 2)\narrive_at(mapa(&empty, i)); }\n"
    "y[32 * blockIdx.x + i] = total;\n" + SYNC
)


def pipe(body: str = PIPE) -> tuple[Kernel, np.ndarray, np.ndarray]:
    a = np.random.default_rng(3).integers(0, 50, (64, 32)).astype(np.float32)
    y = np.zeros(64, np.float32)
    made = kernel("const __grid_constant__ TensorMap A, float* y", body, "2")
    made.simulate(tensor_map(a, box=(8, 32)), y, grid=2, block=32)
    return made, a, y


def test_multicast_gives_each_block_all_halves():
    _, a, y = pipe()
    expected = a.reshape(4, 16, 32).sum(axis=(0, 1))
    assert np.array_equal(y.reshape(2, 32), np.stack([expected, expected]))


@pytest.mark.parametrize(
    ("find", "put", "kinds", "line_with"),
    [
        (
            "if (i < 2)\narrive_at(mapa(&empty, i));",
            "if (i == 0)\narrive_at(mapa(&empty, rank()));",
            ("deadlock",),
            "wait(&empty",
        ),
        ("init(&empty, 2)", "init(&empty, 1)", ("overwritten", "race", "undelivered", "mbarrier"), ""),
        ("wait(&full, t & 1);\n", "", ("undelivered",), "total += s[k]"),
        ("&full, 3);", "&full, 1 << rank());", ("deadlock",), "wait(&full"),
        ("total;\n" + SYNC, "total;\n", ("cluster",), "arrive_at(mapa"),
        ("fence_init(); }\n" + SYNC, "fence_init(); }\n__syncthreads();\n", ("cluster",), "load_2d_to(s"),
        (" fence_init(); }", " }", ("proxy",), "load_2d_to(s"),
        ("expect(&full, 2048)", "expect(&full, 1024)", ("race",), "load_2d_to(s"),
    ],
)
def test_planted_bugs_in_a_cluster_s_pipeline(find, put, kinds, line_with):
    assert PIPE.count(find) == 1
    body = PIPE.replace(find, put)
    source = kernel("const __grid_constant__ TensorMap A, float* y", body, "2").source
    with meets(kinds, line_of(source, line_with) if line_with else None):
        pipe(body)


def test_a_copy_from_block_to_block():
    body = (
        "__shared__ __align__(16) int s[32], t[32]; __shared__ __align__(8) u64 bar;\n"
        "if (i == 0) { init(&bar, 1); expect(&bar, 128); fence_init(); }\n"
        "s[i] = 100 * rank() + i; fence_async();\n"
        + SYNC
        + "if (i == 0) { unsigned to = mapa(t, rank() ^ 1), tell = mapa(&bar, rank() ^ 1);\n"
        'asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "\n'
        '"[%0], [%1], %2, [%3];"\n'
        ':: "r"(to), "r"(at(s)), "r"(128), "r"(tell) : "memory"); }\n'
        "wait(&bar, 0);\ny[32 * rank() + i] = t[i];\n" + SYNC
    )
    y = np.zeros(64, np.int32)
    run = kernel("int* y", body, "2").simulate(y, grid=2, block=32)
    assert y.tolist() == [100 + i for i in range(32)] + list(range(32))
    assert (run.counts.bulk_load.useful_bytes, run.counts.bulk_load.shared_bytes) == (0, 256)


def test_generic_pointers_reach_other_blocks_too():
    body = (
        "__shared__ int s[32];\ns[i] = 100 * rank() + i;\n" + SYNC + "int* there;\n"
        'asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(&s[0]), "r"(rank() ^ 1));\n'
        "unsigned who; asm volatile(\"getctarank.u32 %0, %1;\" : \"=r\"(who) : \"l\"(there));\n"
        "y[32 * blockIdx.x + i] = there[31 - i] + 1000 * who;\n" + SYNC
    )  # fmt: skip
    y = np.zeros(64, np.int32)
    kernel("int* y", body, "2").simulate(y, grid=2, block=32)
    assert y.tolist() == [1131 - i for i in range(32)] + [31 - i for i in range(32)]
