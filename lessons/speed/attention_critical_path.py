# ---
# title: "Attention's critical path: predicted and measured"
# needs: [kernels/serial_attention, machine/chip, speed/roofline, speed/occupancy]
# further: kernels/serial_attention
# summary: "Attention on one GPU thread needs 17 million iterations in sequence; spread over 65,536 threads, it needs 1,152. How much faster is it?"
# description: "Lower bounds by bytes and operations, and the longest chain of dependent iterations, for attention on one thread and on many. Then the measurement, and what the prediction missed."
# date: 2026-11-23
# tags: [attention, critical path, work and span]
# ---

# %% [markdown]
# To compute attention for 256 queries, one GPU thread has to run {{ path.one_256_millions | .0f }} million loop iterations in sequence.
# If you split the work into [three kernels](../kernels/serial_attention.py) with up to {{ path.threads_256 | , }} threads, the longest sequence has only
# {{ path.two_256 | , }} iterations, about {{ gain.at_256 | ,.0f }}× fewer. Is this version that much faster?

# %% [markdown]
# ## Kernel 1: all ten loops on one thread
#
# As a baseline, run everything in one thread: three loop nests, one per formula, ten loops in total.


# %% tab="Pseudocode"
import numpy as np


def attention_serial(Q, K, V, S, P, O, scale):
    N, d = Q.shape
    for i in range(N):
        for j in range(N):
            acc = 0.0
            for k in range(d):
                acc += Q[i, k] * K[j, k]
            S[i, j] = acc * scale
    for i in range(N):
        row_max, row_sum = -np.inf, 0.0
        for j in range(N):
            row_max = max(row_max, S[i, j])
        for j in range(N):
            row_sum += np.exp(S[i, j] - row_max)
        for j in range(N):
            P[i, j] = np.exp(S[i, j] - row_max) / row_sum
    for i in range(N):
        for c in range(d):
            acc = 0.0
            for j in range(N):
                acc += P[i, j] * V[j, c]
            O[i, c] = acc


# %% tab="CUDA C"
from tilewise import Kernel

ATTENTION_SERIAL = Kernel(r"""
// Attention for one head, every loop in one thread; all other threads return.
// Q, K, V, O: N x d; S, P: N x N; row-major, fewer than 2^31 elements each.
extern "C" __global__
void attention_serial(const float* Q, const float* K, const float* V,
                      float* S, float* P, float* O,
                      int N, int d, float scale) {
    if (blockIdx.x > 0 || threadIdx.x > 0) return;
    for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) {
            float acc = 0.0f;
            for (int k = 0; k < d; ++k) acc += Q[i * d + k] * K[j * d + k];
            S[i * N + j] = acc * scale;
        }
    for (int i = 0; i < N; ++i) {
        float row_max = -INFINITY, row_sum = 0.0f;
        for (int j = 0; j < N; ++j) row_max = fmaxf(row_max, S[i * N + j]);
        for (int j = 0; j < N; ++j) row_sum += expf(S[i * N + j] - row_max);
        for (int j = 0; j < N; ++j) P[i * N + j] = expf(S[i * N + j] - row_max) / row_sum;
    }
    for (int i = 0; i < N; ++i)
        for (int c = 0; c < d; ++c) {
            float acc = 0.0f;
            for (int j = 0; j < N; ++j) acc += P[i * N + j] * V[j * d + c];
            O[i * d + c] = acc;
        }
}
""")

# %% [markdown]
# Six of the ten loops have independent iterations: the query loop `i` in each nest, the `j` loop in the scores, the
# last `j` loop in softmax, and the `c` loop in the output. Kernel 2 maps five of them to grid axes. The sixth writes
# the weights, and it has to wait for the maximum and the sum of the same row, so it stays in that row's thread.

# %% fold="Code of the checks"
from tilewise import agree, check
from tilewise.kernel.chains import run_chain
from tilewise.kernels.from_lesson import from_lesson

attention, steep_attention, kernel_2 = from_lesson(
    "kernels/serial_attention", "attention", "steep_attention", "kernel_2"
)


def softmax(S):
    weights = np.exp(S - S.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def reference(Q, K, V, scale):
    """S, P and O in 64-bit floats."""
    Q, K, V = (matrix.astype(np.float64) for matrix in (Q, K, V))
    S = scale * Q @ K.T
    P = softmax(S)
    return {"S": S, "P": P, "O": P @ V}


cases = [attention(7, 5), attention(21, 12), steep_attention(13, 6)]
agree(attention_serial, ATTENTION_SERIAL, cases, rtol=1e-5, atol=1e-6)

run = run_chain(kernel_2(attention(77, 24)))
expected = reference(run["Q"], run["K"], run["V"], run["scale"])
check(run["O"], expected["O"], atol=2e-6, name="Kernel 2 against 64-bit NumPy")

# %% [markdown]
# Double N. How much more work does the single thread have to do?

# %% fold="Code of the run"
from tilewise import case, try_it


def of_one_thread(N):
    return case(1, 1, **attention(N, 8).values)


try_it(of_one_thread, ATTENTION_SERIAL, N=(1, 8, 32))

# %% [markdown]
# ## Lower bounds: bytes, operations and the critical path
#
# The roofline gives two lower bounds. At N = 1,024 and d = 128, the two matrix multiplications do $4N^2d$
# operations, which take at least {{ work.arithmetic_us | us }} at the H100's \FP32 peak. The compulsory traffic, $Q$, $K$, $V$ and $O$,
# takes at least {{ work.memory_us | us }}.
#
# Neither takes dependencies into account. A third limit does: the *critical path*, the longest sequence of iterations
# in which each has to wait for the previous one. Adding threads doesn't make it shorter. If all iterations take the
# same time, nothing else costs time, and no processor idles while an iteration is ready (a *greedy schedule*), [Brent's
# theorem](https://doi.org/10.1145/321812.321815) bounds the time $T_p$ on $p$ processors, counted in iterations:
#
# $$
# \max\left(\frac{\text{work}}{p}, \text{path}\right) \;\le\; T_p \;\le\; \frac{\text{work}}{p} + \text{path}
# $$
#
# Take 8 sums of 100 elements each, with one addition per iteration. The work is 800 iterations, and the critical path
# is 100. With 4 processors, the bounds are 200 and 300 iterations, and running four sums at a time takes 200. With 8 or
# more, the time can't drop below 100 iterations.
#
# ??? definition "Critical path | critical paths"
#     The longest sequence of steps in a computation in which each step needs the result of the one before it. It's
#     a lower bound on the time for any number of processors.

# %%
from tilewise.models import bound, device, stated


def iterations(N, d):
    """Iterations in sequence: in Kernel 1, then in each step of Kernel 2."""
    return {
        "one thread": 2 * N * N * d + 3 * N * N,
        "scores": d,
        "softmax": 3 * N,
        "weighted sum": N,
    }


def path_of_kernel_2(N, d):
    steps = iterations(N, d)
    return steps["scores"] + steps["softmax"] + steps["weighted sum"]


# %% fold="Code of the table"
from tilewise import Table, publish, show

N, d = 1024, 128
operations = 4 * N * N * d
least = bound(stated(device("H100 SXM")), bytes_moved=4 * 4 * N * d, flop=operations)
chain = iterations(N, d)
show(
    Table(
        ["kernel", "threads", "iterations per thread", "operations"],
        [
            ["Kernel 1", 1, chain["one thread"], operations + 5 * N * N],
            ["Kernel 2: scores", N * N, chain["scores"], operations // 2],
            ["Kernel 2: softmax", N, chain["softmax"], 5 * N * N],
            ["Kernel 2: weighted sum", N * d, chain["weighted sum"], operations // 2],
        ],
        caption="Threads, iterations and operations at N = 1,024, d = 128. Softmax has the fewest operations but the longest path in Kernel 2.",
    )
)
publish(
    work={"arithmetic_us": least.arithmetic_us, "memory_us": least.memory_us},
    path={
        "one_256_millions": iterations(256, d)["one thread"] / 1e6,
        "two_256": path_of_kernel_2(256, d),
        "threads_256": 256 * 256,
        "scores": chain["scores"],
    },
    gain={
        "at_256": round(iterations(256, d)["one thread"] / path_of_kernel_2(256, d), -3),
        "softmax_fraction": chain["softmax"] / path_of_kernel_2(N, d),
    },
)

# %% [markdown]
# ## Predict, then measure
#
# If every iteration took the same time and there were enough processors, Kernel 2 would be faster by the ratio of the
# path lengths, {{ gain.at_256 | ,.0f }}× at N = 256. Softmax, which makes up {{ gain.softmax_fraction | .0% }} of
# Kernel 2's path at N = 1,024, would take most of its time.

# %% fold="Code of the measurement"
from tilewise import Guess, measure


def torch_three_operations(arrays):
    """What a reader would write in eager mode: two products and a softmax."""
    import torch

    Q, K, V, S, P, O = (torch.as_tensor(arrays[name], device="cuda") for name in "QKVSPO")
    scale = float(arrays["scale"])

    def run():
        torch.addmm(S, Q, K.T, beta=0.0, alpha=scale, out=S)
        torch.softmax(S, dim=-1, out=P)
        torch.mm(P, V, out=O)

    return run


timed = measure(
    "attention_one_thread",
    variants={
        "Kernel 1: one thread": lambda N, d: ATTENTION_SERIAL.on(attention(N, d), grid=1, block=1),
        "Kernel 2: three kernels": lambda N, d: kernel_2(attention(N, d)),
    },
    cases=[{"N": 128, "d": 128}, {"N": 256, "d": 128}],
    count_case={"N": 24, "d": 16},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={"torch, three operations": torch_three_operations},
    reference=reference,
    tolerance=1e-4,
    reasons={"*": "Not all iterations take the same time"},
    note="Kernel 1 is timed at small N only, because its time grows with the square of N.",
    fold="All rows of the measurement",
    guess=Guess(
        "How much faster than one thread is Kernel 2 at N = 256?",
        of="Kernel 2: three kernels",
        over="Kernel 1: one thread",
        at={"N": 256, "d": 128},
        between=(1, 1_000_000),
        models={
            "ratio of the critical paths": iterations(256, d)["one thread"] / path_of_kernel_2(256, d),
            "threads in the largest launch": 256 * 256,
        },
        because="An iteration of Kernel 2 doesn't take the same time as one of Kernel 1.",
    ),
)

# %% [markdown]
# At N = 256, one thread takes {{ seen.one_ms | .0f }} ms, and Kernel 2 is only {{ seen.times | ,.0f }}× faster. The
# second measurement goes up to N = 1,024, without Kernel 1.

# %% fold="Code of the measurement"
from tilewise.measurements import medians_us

large = measure(
    "attention_three_kernels",
    variants={"Kernel 2: three kernels": lambda N, d: kernel_2(attention(N, d))},
    cases=[{"N": 128, "d": 128}, {"N": 256, "d": 128}, {"N": 512, "d": 128}, {"N": 1024, "d": 128}],
    count_case={"N": 64, "d": 32},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={"torch, three operations": torch_three_operations},
    reference=reference,
    tolerance=1e-4,
    reasons={"*": "Not all iterations take the same time"},
    fold="All rows of the measurement",
)

# %% fold="Code of the table"
from tilewise.measurements.attention import attention_so_far

us = medians_us(timed, "N") | medians_us(large, "N")
show(attention_so_far(2))
one_us, two_us = us["Kernel 1: one thread", 256], us["Kernel 2: three kernels", 256]
publish(seen={"one_ms": one_us / 1000, "times": round(float(one_us / two_us), -2)})

# %% [markdown]
# ## Not all iterations take the same time
#
# Divide each recorded time by its number of iterations. For the three parts of Kernel 2, use the times from [the lesson](../kernels/serial_attention.py#same-multiply-adds-different-time-sectors).

# %% fold="Code of the figure"
from tilewise.figures import bars
from tilewise.measurements import complete, step_times

STEPS = ("scores", "softmax", "weighted sum")
step_us = step_times(STEPS, "attention_steps")
each_ns = {"Kernel 1": 1000 * one_us / iterations(256, d)["one thread"]}
each_ns |= {f"Kernel 2: {name}": 1000 * step_us[name] / chain[name] for name in STEPS}
show(
    bars(
        each_ns,
        x="time per iteration [ns]",
        form=",.0f",
        title="An iteration of the scores loop takes by far the longest",
        caption="Recorded time divided by the iterations that one thread runs in sequence, on an {machine}: Kernel 1 at N = 256, the three parts of Kernel 2 at N = 1,024, d = 128.",
    )
)

GPU = device("H100 SXM")
lines = {"scores": N * (N // 32) * d * (1 + 32), "weighted sum": N * (d // 32) * N * (1 + 1)}
line_us = {name: count / GPU.sms / GPU.boost_mhz for name, count in lines.items()}
if complete(step_us):
    assert max(each_ns, key=each_ns.get) == "Kernel 2: scores", "the title says so"
    assert 0.85 < line_us["scores"] / step_us["scores"] < 1, "the text says that lines account for nearly all"
    assert line_us["weighted sum"] < step_us["weighted sum"], "the estimate by lines is not beaten"
publish(
    each={
        "one_ns": each_ns["Kernel 1"],
        "scores_us": each_ns["Kernel 2: scores"] / 1000,
        "softmax_ns": each_ns["Kernel 2: softmax"],
    },
    lines={
        "millions": lines["scores"] / 1e6,
        "us": line_us["scores"],
        "fraction": line_us["scores"] / step_us["scores"],
    },
    step={"scores": step_us["scores"]},
    fraction={name.replace(" ", "_"): us / sum(step_us.values()) for name, us in step_us.items()},
    softmax={"warps": N // 32, "sms": GPU.sms},
)

# %% [markdown]
# An iteration takes {{ each.one_ns | .0f }} ns in Kernel 1 and {{ each.softmax_ns | .0f }} ns in the softmax of
# Kernel 2. In the scores, it takes {{ each.scores_us | .1f }} µs. So Kernel 2 runs far fewer iterations in sequence, but each takes much
# longer, for two reasons:
#
# - **Softmax waits.** At N = 1,024, one thread per query, in blocks of one warp, makes {{ softmax.warps }} warps for
#   {{ softmax.sms }} SMs: at most one SM in four has any work. Each load touches 32 sectors, one per lane, and with a
#   single resident warp per SM, nothing hides its latency. Here the critical path determines the time, but each of its
#   iterations is slow.
# - **The scores kernel's loads have to queue.** The critical path of the scores is only {{ path.scores }} iterations
#   long, but at N = 1,024, more than a million threads share the SMs. What limits this kernel is Brent's other term,
#   work divided by processors, and the work that matters here is loads, not arithmetic.
#
# How long should the scores kernel's loads take? In each iteration, a warp reads 33 different 128-byte lines: 1 of $Q$
# and 32 of $K$. The data sheet doesn't say how many lines an SM's L1 cache can look up per cycle; assume one. Then
# {{ lines.millions | .0f }} million lines take {{ lines.us | .0f }} µs on {{ softmax.sms }} SMs at the boost clock.
# That's {{ lines.fraction | .0%}} of the recorded {{ step.scores | .0f }} µs, which fits the assumption without proving
# it.

# %% [markdown]
# ## The answer
#
# Kernel 2 is {{ seen.times | ,.0f }}× faster than one thread at N = 256, not {{ gain.at_256 | ,.0f }}×. At N = 1,024,
# softmax takes {{ fraction.softmax | .0% }} of the time instead of the predicted {{ gain.softmax_fraction | .0% }}.
# The scores take {{ fraction.scores | .0% }}, most likely because their loads queue for the L1 cache.

# %% [markdown]
# ## Takeaways
#
# - The critical path sets a lower bound on the time, however many threads you use.
# - Counted in iterations, it predicts the time only if all iterations take the same time and there are enough
#   processors. With too few processors, work divided by processors adds to it; with unequal iterations, neither term
#   predicts the time.
# - Count loads as work, too. In the scores kernel, each warp touches 33 lines per iteration. At one line per cycle, that would account
#   for nearly all of its time.
#
# ## In your own kernel
#
# In the Warp State Statistics section of Nsight Compute, compare the \stall \reasons. In a kernel limited by its critical path,
# `smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio` is high even though few warps are resident; in a kernel whose
# loads queue for the L1 cache, many warps are resident and `smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio` is high.

# %% fold="Code of the exercise, with two wrong answers that the tests reject"
from tilewise import exercise


def limits(work, path, processors):
    return max(work / processors, path), work / processors + path


def limits_tests(answer):
    assert answer(800, 100, 4) == (200, 300), "8 sums of 100 elements on 4 processors"
    assert answer(800, 100, 16) == (100, 150), "8 sums of 100 elements on 16 processors"
    for processors in (1, 32, 16_896):
        work, path = 1024**2 * 128, 128
        expected = max(work / processors, path), work / processors + path
        assert answer(work, path, processors) == expected, f"{processors} processors"


exercise(
    "Brent's bounds",
    """
    Write `limits(work, path, processors)`, which returns the fewest and the most iterations that a greedy schedule
    can take. Then use it: with the 16,896 \\FP32 lanes of an H100, which of the two terms is larger for the scores at
    N = 1,024, d = 128, and which for softmax, with 3 N² iterations of work and a path of 3 N?
    """,
    answer=limits,
    tests=limits_tests,
    wrong=[
        {"max(work / processors, path)": "work / processors"},
        {"max(work / processors, path)": "work / processors + path"},
    ],
    hint="First write down both terms for 8 sums of 100 elements, with 4 processors and with 16.",
    explanation="For the scores, work / processors is about 7,900 and the path is 128: there are too few lanes. For softmax, work / processors is about 190 and the path is 3,072: more threads wouldn't help, but a shorter path would.",
)

# %% [markdown]
# Parallel \reductions shorten the path of softmax: [a later lesson](../memory/reductions.py) lets many threads share the
# sum of one row.
