# ---
# title: "Kernel 8 step by step: model and measurement"
# needs: [attention/hopper]
# further: attention/hopper
# summary: "A model built from unit throughputs predicts that ping-pong keeps the tensor cores busy all the time. What fraction of the peak does the kernel reach, and where does the rest go?"
# description: "Seven versions of FlashAttention on Hopper, a model of their overlap, FlashAttention-2 and cuDNN, at four lengths, two head dimensions, with and without a causal mask."
# date: 2026-11-23
# tags: [FlashAttention, Hopper, measurement]
# ---

# %% [markdown]
# For $d$ = 128, two consumer warpgroups that alternate should hide softmax completely: a model that considers only
# the throughputs of the units predicts that the tensor cores are busy {{ busy.turns_128 | .0% }} of the time.
# [Kernel 8](hopper.py) reaches {{ step.eight | .0% }} of the peak at 4,096 queries. This page compares the model's
# predictions with measurements of every step.
#
# ## A model of overlap
#
# The model knows how many cycles a tile needs on the tensor cores and on the other units, and which work has to wait
# for which. If the two consumers run in lockstep, each gets half of every unit, so both get their results late. If they
# alternate, each has one unit to itself at a time.

# %% fold="Code of the figure"
import numpy as np

from tilewise import Table, exercise, measure, publish, show
from tilewise.figures import Series, Span, line_chart, stepped, timeline
from tilewise.kernels.from_lesson import from_lesson
from tilewise.measurements import complete, printed_rows, rates, recorded, recorded_device
from tilewise.measurements.profiling import PEAK as OF_PEAK
from tilewise.measurements.profiling import SUMMARY, printed_profiles, stall_fractions, summary_rows
from tilewise.measurements.side_by_side import printed_times

GPU = recorded_device()
PEAK = GPU.peak_tflop_per_s["bf16_matrix"]
clocks_of, of_wgmma, of_hopper, one_each, attended = from_lesson(
    "attention/hopper", "clocks_of", "of_wgmma", "of_hopper", "one_each", "attended"
)
(mean_clocks,) = from_lesson("attention/hopper", "mean_clocks")


def in_lockstep(d, count):
    """Two consumers in phase: both GEMMs take twice as long, and so do both softmaxes' exponentials."""
    product, exponentials, softmax = clocks_of(d)
    spans, now = [], 0
    for t in range(count + 1):
        length = 2 * product * (1 if t in (0, count) else 2)
        work = softmax + exponentials if t < count else 0
        for consumer in (1, 2):
            row = f"in phase: {consumer}"
            spans.append(Span(row, now, now + length, "GEMMs", "block"))
            if work:
                spans.append(Span(row, now + length, now + length + work, "softmax", "tile"))
        now += length + work
    return spans, now


def ping_pong(d, count):
    """Two consumers that alternate: GEMMs one after the other, softmax during the other's GEMMs."""
    product, _, softmax = clocks_of(d)
    spans, ready, free = [], [0, 0], 0
    for t in range(count + 1):
        for consumer in (0, 1):
            length = product * (1 if t in (0, count) else 2)
            start = max(ready[consumer], free)
            free = start + length
            row = f"ping-pong: {consumer + 1}"
            spans.append(Span(row, start, free, "GEMMs", "block"))
            ready[consumer] = free
            if t < count:
                ready[consumer] += softmax
                spans.append(Span(row, free, ready[consumer], "softmax", "tile"))
    return spans, free


def busy(d, schedule, count=64):
    """Fraction of a long run for which the tensor cores are busy."""
    return 2 * count * 2 * clocks_of(d)[0] / schedule(d, count)[1]


def overlap_in_phase(d):
    """The same for two consumers in phase that overlap softmax with their own PV."""
    product, exponentials, softmax = clocks_of(d)
    return 4 * product / (2 * product + max(2 * product, softmax + exponentials))


show(
    timeline(
        in_lockstep(128, 3)[0] + ping_pong(128, 3)[0],
        unit="cycles",
        title="In phase, both consumers wait for the same unit; with ping-pong, they alternate",
        caption="A model of a block's two consumers on three key tiles with d = 128, built from the throughputs of an SM's units and ignoring latency.",
    )
)
publish(busy={"turns_128": busy(128, ping_pong)})

# %% [markdown]
# ## Every version, measured
#
# We run seven versions and PyTorch's backends at four sequence lengths, with $d$ = 128 and 64, with and without a
# causal mask. The arrays always have 4 million elements, so longer sequences mean fewer heads.

# %% fold="Code of the measurement"
ARRAY = 2**22  # elements of each timed array
LADDER = {
    "one consumer": of_wgmma(1),
    "two consumers": of_wgmma(2),
    "two consumers, ping-pong": of_wgmma(2, turns=1),
    "overlap": of_hopper(turns=0, deal=one_each),
    "overlap, ping-pong": of_hopper(turns=1, deal=one_each),
    "overlap, longest first": of_hopper(turns=0),
    "overlap, ping-pong, longest first": of_hopper(turns=1),
}
EIGHT = "overlap, ping-pong, longest first"


def heads_of(N, d):
    """As many heads as fill the timed arrays; a few for the simulator."""
    return 2 if N < 512 else ARRAY // (N * d)


def launched(label):
    return lambda N, d, causal: LADDER[label](N=N, d=d, causal=causal, heads=heads_of(N, d))


def torch_backend(name):
    """torch's attention by one of its backends, on the same bits."""

    def made(arrays, N, d, causal):
        import cupy
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        heads = heads_of(N, d)
        shape = (max(1, heads // 16), min(heads, 16), N, d)
        Q, K, V = (
            torch.as_tensor(arrays[one].view(np.int16), device="cuda").view(torch.bfloat16).view(shape)
            for one in "QKV"
        )
        backend = getattr(SDPBackend, name)

        def run():
            with sdpa_kernel(backend):
                found = torch.nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=causal)
            return {"O": cupy.asarray(found.view(torch.int16)).view(np.uint16)}

        return run

    return made


FLASH_2, CUDNN = "FlashAttention-2 (torch SDPA)", "cuDNN (torch SDPA)"
BACKENDS = {"math (torch SDPA)": "MATH", FLASH_2: "FLASH_ATTENTION", CUDNN: "CUDNN_ATTENTION"}


def flop_of(N, d, causal, heads=heads_of):
    """Operations for the pairs of a query and a key that it sees."""
    return 4 * heads(N, d) * (N * (N + 1) // 2 if causal else N * N) * d


ladder = measure(
    "attention_forward",
    variants={label: launched(label) for label in LADDER},
    cases=[
        {"N": N, "d": d, "causal": causal}
        for d in (128, 64)
        for causal in (False, True)
        for N in (512, 2048, 4096, 16384)
    ],
    count_case={"N": 256, "d": 64, "causal": True},
    bytes=lambda N, d, causal: heads_of(N, d) * N * (4 * 2 * d + 4),
    flop=flop_of,
    arithmetic="bf16_matrix",
    counts=("sectors", "instructions"),
    library={label: torch_backend(name) for label, name in BACKENDS.items()},
    reference=attended,
    tolerance=2**-7,
    within=8.0,
    reasons={"*": "Where the rest goes"},
    fold="All rows",
)

# %% fold="Code of the figure"
RATES = rates(ladder, flop_of)
LENGTHS = (512, 2048, 4096, 16384)
KINDS = {"d128": (128, False), "d128_causal": (128, True), "d64": (64, False), "d64_causal": (64, True)}
SHOWN_ON = "H200" if "H200" in (ladder.provenance or {}).get("device", "") else "H100"
COMPLETE = complete(*RATES.values()) and (CUDNN, 4096, 128, False) in RATES
if COMPLETE:
    show(
        stepped(
            [
                line_chart(
                    [
                        Series(name, LENGTHS, [RATES[label, N, d, causal] for N in LENGTHS])
                        for name, label in (
                            ("one consumer", "one consumer"),
                            ("two, ping-pong", "two consumers, ping-pong"),
                            ("Kernel 8", EIGHT),
                            ("FlashAttention-2", FLASH_2),
                            ("cuDNN", CUDNN),
                        )
                    ],
                    x="N",
                    y="TFLOP/s",
                    log_x=True,
                    title="-",
                    caption="-",
                )
                for d, causal in KINDS.values()
            ],
            ["d = 128", "d = 128, causal", "d = 64", "d = 64, causal"],
            step_name="head dimension and mask",
            title="From one consumer to Kernel 8, compared with FlashAttention-2 and cuDNN",
            caption=f"Throughput by number of queries, recorded on an {SHOWN_ON}. The number of heads falls as N grows, which keeps the arrays the same size.",
        )
    )


def ratio(label, over, d, causal, lengths=LENGTHS):
    """Least and most of a version's throughput over another's, over lengths."""
    both = [RATES[label, N, d, causal] / RATES[over, N, d, causal] for N in lengths]
    return {"least": min(both), "most": max(both)}


LONG = (2048, 4096, 16384)
publish(
    step={"eight": RATES[EIGHT, 4096, 128, False] / PEAK},
    cudnn={name: ratio(EIGHT, CUDNN, *kind, LONG) for name, kind in KINDS.items()},
    turns={name: ratio(EIGHT, "overlap, longest first", *kind) for name, kind in KINDS.items()}
    | {"worst": 1 - min(ratio(EIGHT, "overlap, longest first", *kind)["least"] for kind in KINDS.values())},
    lists={name: ratio(EIGHT, "overlap, ping-pong", *kind) for name, kind in KINDS.items()},
)

# %% fold="Code that profiles versions on a GPU" needs="gpu torch" record="counters"
from tilewise import gpu_here

if gpu_here():
    from tilewise.measurements.profiling import profiled, table_of
    from tilewise.measurements.side_by_side import Calls

    PROFILED = {  # d and causal by what is profiled
        (128, False): (
            "one consumer",
            "two consumers",
            "two consumers, ping-pong",
            "overlap",
            "overlap, ping-pong",
        ),
        (128, True): ("overlap, ping-pong",),
        (64, False): ("two consumers", "two consumers, ping-pong", "overlap", "overlap, ping-pong"),
    }

    def chosen_versions():
        """Calls of some versions, of Kernel 8, FlashAttention-2 and cuDNN on 4,096 queries."""
        calls = Calls()
        for (d, causal), labels in PROFILED.items():
            what = f"d={d}{', causal' * causal}"
            for label in (*labels, EIGHT):
                name = "Kernel 8" if label == EIGHT else label
                calls.add(f"{name}, {what}", launched(label)(4096, d, causal))
            for label, backend in (("FlashAttention-2", "FLASH_ATTENTION"), ("cuDNN", "CUDNN_ATTENTION")):
                calls.add_library(f"{label}, {what}", torch_backend(backend), N=4096, d=d, causal=causal)
        return calls.by_label

    print(table_of(profiled("attention/hopper_measured", "counters", chosen_versions)))

# %% [markdown]
# With $d$ = 128 and 2,048 queries or more, Kernel 8 reaches at least {{ cudnn.d128.least | .2f }} times cuDNN's
# throughput. Under a causal mask, it reaches {{ cudnn.d128_causal.least | .1f }} to {{ cudnn.d128_causal.most | .1f }}
# times cuDNN's, thanks to its [tile lists](hopper_scheduling.py), which balance the query tiles across the SMs. They
# help most when each SM gets only a few tiles, as here. With $d$ = 64 and no mask, Kernel 8 reaches
# {{ cudnn.d64.least | .0% }} to {{ cudnn.d64.most | .0% }} of cuDNN's throughput.
#
# ## Where the rest goes
#
# Here are the same throughputs as fractions of the peak, next to the model's predictions:


# %% fold="Code of the table"
def modelled(label, d):
    """Utilisation of the tensor cores that the model allows a version."""
    if label == "one consumer":
        return 2 * clocks_of(d)[0] / (2 * clocks_of(d)[0] + clocks_of(d)[2])
    if "ping-pong" in label:
        return busy(d, ping_pong)
    return overlap_in_phase(d) if "overlap" in label else busy(d, in_lockstep)


if COMPLETE:
    show(
        Table(
            ["version", "model, d = 128", "measured", "model, d = 64", "measured"],
            [
                [
                    label,
                    *(
                        f"{value:.0%}"
                        for d in (128, 64)
                        for value in (modelled(label, d), RATES[label, 4096, d, False] / PEAK)
                    ),
                ]
                for label in LADDER
            ],
            caption=f"Fraction of the tensor cores' peak (data sheet) at N = 4,096 without a mask: predicted by the model, and recorded on an {SHOWN_ON}. The model doesn't include tile lists.",
        )
    )
    apart_64, apart_128 = (busy(d, ping_pong) - overlap_in_phase(d) for d in (64, 128))
    assert apart_64 > apart_128, "the lesson says that a bad phase costs most with d = 64"

# %% fold="Code of the profiles"
PROFILES = printed_profiles("attention/hopper_measured", "counters")  # recorded on an H200
OLDER = {
    "Kernel 6, FP32, one head": printed_profiles("attention/flash_forward", "counters")["Kernel 6, N=4096"],
    "Kernel 7": printed_profiles("attention/matrix_units", "counters")["Kernel 7"],
}
NEWER = {label: PROFILES[f"{label}, d=128"] for label in ("FlashAttention-2", "Kernel 8", "cuDNN")}
if PROFILES:
    show(
        Table(
            SUMMARY,
            summary_rows(OLDER | NEWER),
            caption="Profiles at N = 4,096 and d = 128 without a mask on an H200: cycles in which the tensor cores and the schedulers are busy, the most frequent reasons why warps don't issue, and bytes read from and written to DRAM.",
        )
    )
    pipes = [
        values[f"sm__pipe_tensor_cycles_active{OF_PEAK}active"]
        for values in (*OLDER.values(), *NEWER.values())
    ]
    assert pipes[3] == max(pipes), "the text says that Kernel 8 keeps them busiest"
    for label, values in (OLDER | NEWER).items():
        arrays = 3 * 4096 * 128 * (4 if "FP32" in label else 8 * 2)
        assert values["dram__bytes_read.sum"] < 1.02 * arrays, "the text says that inputs are read once"
        if label in ("Kernel 7", "Kernel 8", "FlashAttention-2"):
            waits = stall_fractions(values)
            assert max(waits, key=waits.get) == "wait", "the text names it"

# %% [markdown]
# Of the kernels profiled, Kernel 8 keeps the tensor cores busiest. None of the kernels is limited by memory: each reads
# its inputs from DRAM only once. Kernels 7 and 8 and FlashAttention-2 stall mostly on `wait`, the fixed latencies of
# dependent instructions.
#
# The model is too optimistic for every version, most of all for those with ping-pong. It misses two things. The first
# is latency: [the timestamps of one block](hopper.py#two-consumer-warpgroups) show that softmax takes much longer than
# issuing its instructions would, because a single warp per scheduler waits for shuffles and for `wgmma`. Even with
# overlap and ping-pong, the tensor cores are busy for only {{ apart.busy | .0% }} of the loop. The second is everything
# outside the loop: the first loads, the last stores and the last wave.

# %% [markdown]
# With $d$ = 64, the model gets even the order wrong. It predicts that overlap helps, but without ping-pong, overlap
# makes the kernel slower. The consumers weren't in phase there: they were about {{ late.apart | .0% }} of a tile apart,
# just as with ping-pong, and a pair of tiles actually took {{ late.less | .0% }} fewer cycles. The time must therefore
# be lost at the start or the end of a block, outside the timestamped tiles. The final store isn't the cause: without
# it, the kernel is still slower. We don't know what is.
#
# ## Does ping-pong ever hurt?
#
# Only slightly. In the worst case, with $d$ = 64 under a causal mask, it costs {{ turns.worst | .0% }}. With $d$ = 64
# and no mask, its speedup is {{ turns.d64.least | .2f }} to {{ turns.d64.most | .2f }}×; with $d$ = 128, it's
# {{ turns.d128.least | .2f }} to {{ turns.d128.most | .2f }}×. So Kernel 8 always uses it. Tile lists matter more: with
# $d$ = 128, they give a speedup of {{ lists.d128_causal.least | .1f }} to {{ lists.d128_causal.most | .1f }}× under a
# causal mask and {{ lists.d128.least | .2f }} to {{ lists.d128.most | .2f }}× without one. The speedup is largest for
# short sequences, where query tiles start and end most often.

# %% fold="Code of the numbers"
LATE = {  # cycles per tile of both consumers, and their offset, by block
    label: np.array(
        printed_rows("attention/hopper", "late_clocks", rf"^{label}, 64, \d+: (\d+), (\d+), ([\d.]+)$")
    )
    for label in ("overlap", "overlap, ping-pong")
}
CYCLES, OFFSETS = (
    {label: np.median(rows[:, columns]) if len(rows) else np.nan for label, rows in LATE.items()}
    for columns in ([0, 1], 2)
)
BUSY = {
    label: PROFILES[f"{label}, d=64"][f"sm__pipe_tensor_cycles_active{OF_PEAK}active"] / 100 for label in LATE
}
WITHOUT, TURNS = LATE
assert not abs(OFFSETS[WITHOUT] - OFFSETS[TURNS]) > 0.03, "the text says as far apart as with ping-pong"
assert not CYCLES[WITHOUT] > CYCLES[TURNS] and not BUSY[WITHOUT] > BUSY[TURNS], "the text: not in the loop"
unstored_us = printed_times("attention/hopper", "store")
for what, label in list(unstored_us):
    if what.startswith("d=64") and label == "overlap, no store":
        assert unstored_us[what, label] > 1.05 * unstored_us[what, "overlap, ping-pong, no store"], (
            "it is still slower"
        )
publish(
    apart={"busy": 4 * clocks_of(128)[0] / mean_clocks("both")[0]},
    late={
        "apart": OFFSETS[WITHOUT],
        "less": 1 - CYCLES[WITHOUT] / CYCLES[TURNS],
    },
)

# %% [markdown]
# ## From Kernel 1 to Kernel 8
#
# Here's every attention kernel of the course. The first six use FP32 and one head. Compare times only for problems of
# the same size, and compare throughputs with care: more queries fill more SMs.

# %% fold="Code of the table"
WAY = (  # version, what is new, record, variant, N, heads; 1 head means FP32
    ("Kernel 1", "ten loops in one thread", "attention_one_thread", "kernel_1_one_thread", 256, 1),
    ("Kernel 2", "loops become grid axes", "attention_three_kernels", "kernel_2_three_kernels", 1024, 1),
    ("Kernel 3", "coalesced", "attention_coalesced", "kernel_3_coalesced", 1024, 1),
    ("Kernel 4", "parallel reductions", "attention_reduced", "kernel_4_reduced_by_blocks", 1024, 1),
    ("Kernel 5", "tiled GEMMs", "attention_tiled", "kernel_5_tiles", 1024, 1),
    ("Kernel 6", "S and P never stored", "attention_flash", "kernel_6_flash", 1024, 1),
    ("Kernel 6", "longer sequences", "attention_flash", "kernel_6_flash", 4096, 1),
    ("Kernel 7", "tensor cores by mma", "attention_mma", "kernel_7_32_queries_per_warp", 4096, 8),
    ("Kernel 8", "TMA, wgmma, overlap", "attention_forward", None, 4096, 8),
)


def on_the_way(record, variant, N, heads):
    """Microseconds and TFLOP/s as recorded; NaN if not."""
    tflop = 4 * heads * N * N * 128 / 1e6
    if variant is None:
        us = tflop / RATES[EIGHT, N, 128, False]
    else:
        us = recorded(f"{record}.{variant}.n_{N}_d_128{'' if heads == 1 else '_causal_false'}.median")
    return us, tflop / us


def two_digits(value):
    """A number with two digits at least, and all digits in front of the point."""
    return f"{value:#.2g}" if value < 10 else f"{value:,.0f}"


FOUND = {(name, N): on_the_way(*of, N, heads) for name, _, *of, N, heads in WAY}
if np.isfinite(list(FOUND.values())).all():
    show(
        Table(
            ["version", "N", "µs", "TFLOP/s"],
            [
                [f"{name}: {what}", N, *(two_digits(one) for one in FOUND[name, N])]
                for name, what, *_, N, _ in WAY
            ],
            caption=f"Attention from one thread to Kernel 8: d = 128, no mask, one FP32 head up to Kernel 6 and eight BF16 heads from Kernel 7 on, each row recorded on an {{machine}}{'' if SHOWN_ON in GPU.name else f', Kernel 8 on an {SHOWN_ON}'}.",
        )
    )
publish(
    way={
        "times": FOUND["Kernel 8", 4096][1] / FOUND["Kernel 1", 256][1] / 1e6,
        "six": float(f"{FOUND['Kernel 6', 1024][1] / FOUND['Kernel 1', 256][1]:.2g}"),
        "longer": FOUND["Kernel 6", 4096][1] / FOUND["Kernel 6", 1024][1],
        "units": FOUND["Kernel 8", 4096][1] / FOUND["Kernel 6", 4096][1],
    }
)

# %% [markdown]
# From Kernel 1 to Kernel 8, throughput grows by a factor of {{ way.times | .1f }} million. Kernels 2 to 6, still in
# FP32 and with at most 1,024 queries, account for a factor of {{ way.six | ,.0f }}, thanks to parallelism and then
# reuse. With 4,096 queries, Kernel 6 is another {{ way.longer | .1f }}× faster. The last factor of
# {{ way.units | .0f }} comes from tensor cores and from everything that keeps them busy.
#
# ## Takeaways
#
# - A model built from unit throughputs gives a bound for each schedule, not a ranking: it ignores latency, and a warp
#   that waits for a shuffle uses no unit.
# - Ping-pong gives a speedup of up to {{ turns.d64.most | .2f }}× and costs {{ turns.worst | .0% }} at worst, so
#   leave it on.
# - Compare attention kernels at the same number of heads: with few heads, tile scheduling determines which one is
#   faster.
#
# ## In your own kernel
#
# Build the model before you optimise, and compare fractions of the peak, not times. Sample \stall reasons where model
# and measurement differ most: `smsp__pcsamp_warps_issue_stalled_math_pipe_throttle` means that a unit is saturated;
# `..._wait` and `..._short_scoreboard` point to latency.

# %% fold="Code of the exercise"
PRODUCT, _, SOFTMAX = clocks_of(128)
exercise(
    "The same in FP8",
    f"With d = 128, a tile of 64 queries and 128 keys needs {2 * PRODUCT:,} cycles on the tensor cores and {SOFTMAX} cycles of softmax. In FP8, the "
    "tensor cores need half the cycles, and softmax stays as it is. For what fraction of the time can the tensor cores be busy, without overlap "
    "and with perfect overlap?",
    explanation=f"Both GEMMs now take {PRODUCT}. Without overlap that's {PRODUCT} of {PRODUCT + SOFTMAX} cycles, "
    f"{PRODUCT / (PRODUCT + SOFTMAX):.0%}. With perfect overlap, the slower unit sets the pace: softmax, with {SOFTMAX} cycles per tile: "
    f"{PRODUCT / SOFTMAX:.0%}. No schedule can do better; only fewer or cheaper exponentials can.",
)
