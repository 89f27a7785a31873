# ---
# title: A step of training
# needs: [matmul/alignment, memory/recomputation, attention/masks_and_backward]
# summary: "Attention is a small part of a language model's operations. How much of a training step does it take if its matrices are stored?"
# description: "The operations and bytes of a GPT-2-sized training step counted part by part, predicted, and measured with stored, compiled and fused attention."
# date: 2026-11-21
# tags: [training, MFU, flash attention, torch.compile]
# ---

# %% [markdown]
# A language model of the size of GPT-2 small takes {{ ask.tokens | , }} tokens at a time and learns from
# them: forwards, backwards, and a change of its {{ ask.parameters | .0f }} million parameters. Attention's two products
# are {{ ask.share | .0%}} of the operations that this takes. How much of the step do they take if logits and
# weights are stored, as the formula is written?

# %% fold="Imports"
import re
from importlib.util import find_spec

import numpy as np

from tilewise import Kernel, Table, agree, case, ceil_div, check, normal, parallel, publish, show, uniform
from tilewise.figures import Answer, Meter, Slider, bars, calculator
from tilewise.measurements import complete, printed_numbers, printed_rows, recorded_device, text_record

# %% [markdown]
# ## What must be computed
#
# The model has {{ model.layers }} layers of width {{ model.width }}, each with {{ model.heads }} heads of
# {{ model.d }}, a context of {{ model.context | , }} tokens, and a vocabulary of {{ model.words | , }}. A layer
# is attention between two products with matrices, and two more products, up to rows of {{ model.wide | , }}
# numbers and back. All of its matrices, written down:


# %%
def matrices(layers, width, words):
    """Every matrix that a token meets: rows, columns, how many."""
    return {
        "queries, keys, values": (width, 3 * width, layers),
        "out of the heads": (width, width, layers),
        "up": (width, 4 * width, layers),
        "down": (4 * width, width, layers),
        "to the vocabulary": (width, words, 1),
    }


def multiplied(layers, width, words):
    """Parameters that a token meets in a product."""
    every = matrices(layers, width, words).values()
    return sum(rows * columns * many for rows, columns, many in every)


def parameters(layers, width, words, context):
    """All of them: with biases, two norms a layer, one at the end, the places."""
    biases = layers * (3 + 1 + 4 + 1) * width
    norms = (2 * layers + 1) * 2 * width
    return multiplied(layers, width, words) + biases + norms + context * width


# %% fold="Code of the numbers"
LAYERS, HEADS, WIDTH, WORDS, CONTEXT, BATCH = 12, 12, 768, 50304, 1024, 16
TOKENS, D = BATCH * CONTEXT, WIDTH // HEADS
GPU = recorded_device()
PEAK = GPU.peak_tflop_per_s["bf16_matrix"]
EARLIER = printed_numbers("speed/launches", "training_step", r"^(\w+): ([\d.]+)")
check(
    parameters(LAYERS, WIDTH, WORDS, CONTEXT),
    EARLIER["parameters"],
    name="parameters by formula and of the torch model in Five bottlenecks",
)


def flop_a_token(layers, width, words, context, causal=True):
    """Operations of a step for one token: in products with matrices, and in attention's own."""
    own = 12 * layers * width * context  # two products forwards, four backwards, over the whole context
    return 6 * multiplied(layers, width, words), own / 2 if causal else own


BY_MATRICES, BY_ATTENTION = flop_a_token(LAYERS, WIDTH, WORDS, CONTEXT)
WHOLE = (BY_MATRICES + BY_ATTENTION) * TOKENS
show(
    Table(
        ["product with", "rows", "columns", "in all layers", "TFLOP a step"],
        [
            [name, rows, columns, rows * columns * many, 6 * rows * columns * many * TOKENS / 1e12]
            for name, (rows, columns, many) in matrices(LAYERS, WIDTH, WORDS).items()
        ]
        + [["attention's own products", None, None, None, BY_ATTENTION * TOKENS / 1e12]],
        caption="A step of 16,384 tokens: two operations for each parameter forwards and four backwards. Attention counts half of the context, for the other half is masked.",
    )
)
publish(
    ask={
        "tokens": TOKENS,
        "parameters": parameters(LAYERS, WIDTH, WORDS, CONTEXT) / 1e6,
        "share": BY_ATTENTION / (BY_MATRICES + BY_ATTENTION),
    },
    model={
        "layers": LAYERS,
        "width": WIDTH,
        "wide": 4 * WIDTH,
        "heads": HEADS,
        "d": D,
        "context": CONTEXT,
        "words": WORDS,
        "tflop": WHOLE / 1e12,
        "least_ms": WHOLE / PEAK / 1e9,
        "peak": PEAK,
        "by_rule": 6 * parameters(LAYERS, WIDTH, WORDS, CONTEXT) / BY_MATRICES - 1,
    },
)

# %% [markdown]
# Together {{ model.tflop | .1f }} TFLOP, which an H100 at its peak (data sheet), {{ model.peak | .0f }} TFLOP/s, would have done in
# {{ model.least_ms | .1f }} ms.[^rule] That is a step at an \MFU of 100 %, and nobody reaches it. The share that
# a step does reach is the subject of this page, and most of what is missing are bytes.
#
# [^rule]: The rule of six operations for each parameter and token counts the embeddings of the places and
#     the biases too, {{ model.by_rule | .1%}} more. What the mask leaves out is not counted here; many count it, and
#     get a higher MFU for the same time.

# %% [markdown]
# ## What is moved
#
# In 16 bits a logit has 2 bytes, and each layer has {{ moved.scores | .0f }} million of them for each of the two
# matrices. Written as the formula says, each of its steps is a kernel that reads such a matrix and writes one.
# The softmax works in 32 bits and wants its input in 32 bits. With \autocast the list should be this one.
#
# ??? definition "Autocast"
#     To let torch choose for each operation whether it runs in 16 or in 32 bits; parameters stay in 32 bits.

# %% fold="Code of the table"
STORED = (  # bytes for each score: what, read, written
    ("forwards: the product of queries and keys", 0, 2),
    ("forwards: times the scale", 2, 2),
    ("forwards: the mask", 2, 2),
    ("forwards: to 32 bits", 2, 4),
    ("forwards: softmax", 4, 4),
    ("forwards: to 16 bits", 4, 2),
    ("forwards: the product with the values", 2, 0),
    ("backwards: gradients of values and weights", 2, 2),
    ("backwards: to 32 bits", 2, 4),
    ("backwards: softmax", 4 + 4, 4),
    ("backwards: to 16 bits", 4, 2),
    ("backwards: the mask", 2, 2),
    ("backwards: times the scale", 2, 2),
    ("backwards: gradients of queries and keys", 2 + 2, 0),
)
COMPILED = (
    ("forwards: the product of queries and keys", 0, 2),
    ("forwards: scale, mask and softmax", 2, 2),
    ("forwards: the product with the values", 2, 0),
    ("backwards: gradients of values and weights", 2, 2),
    ("backwards: softmax, mask and scale", 2 + 2, 2),
    ("backwards: gradients of queries and keys", 2 + 2, 0),
)


def total(passes):
    """Bytes of a list of passes, read and written."""
    return sum(read + written for _, read, written in passes)


show(
    Table(
        ["pass", "bytes read", "bytes written"],
        [[what, read, written] for what, read, written in STORED],
        caption="The passes over a layer's matrices of logits and weights in a training step, in bytes for each element, counted from the lines of the formula under autocast.",
    )
)
SCORES = BATCH * HEADS * CONTEXT**2


COPY = 1e6 * text_record("speed/launches", "training_step").provenance["ceilings"]["probes"]["copy_gb_per_s"]
publish(
    moved={
        "scores": SCORES / 1e6,
        "passes": len(STORED),
        "eager": total(STORED),
        "compiled": total(COMPILED),
        "passes_compiled": len(COMPILED),
        "eager_gb": total(STORED) * SCORES * LAYERS / 1e9,
        "eager_ms": total(STORED) * SCORES * LAYERS / COPY,
        "compiled_ms": total(COMPILED) * SCORES * LAYERS / COPY,
        "kept_gb": (4 + 2) * SCORES * LAYERS / 1e9,
        "copy": COPY / 1e6,
    }
)

# %% [markdown]
# That is {{ moved.passes }} passes and {{ moved.eager }} bytes for each element, in {{ model.layers }} layers
# {{ moved.eager_gb | .0f }} GB: at the {{ moved.copy | ,.0f }} GB/s of a recorded copy, {{ moved.eager_ms | .0f }} ms. A
# compiler that joins what lies between the products leaves {{ moved.passes_compiled }} passes and
# {{ moved.compiled }} bytes, {{ moved.compiled_ms | .0f }} ms. Fused attention leaves none. And until the
# backward pass the weights must be kept, in 32 bits for the softmax and in 16 for the product:
# {{ moved.kept_gb | .1f }} GB of memory.

# %% [markdown]
# ## Predict
#
# The rest of a step is counted in the same way. A layer's norms, additions and GELU pass over rows of
# {{ model.width }} numbers, in eager torch many times; the loss passes over the logits of {{ model.words | , }}
# words; the \optimizer reads and writes each parameter with its two means. Products are taken at the rate
# that was recorded for the largest of them, {{ rates.product | .0f }} TFLOP/s, and fused attention at
# {{ rates.fused | .0f }} TFLOP/s, as recorded below.
#
# ??? definition "Optimizer"
#     The rule that changes parameters by their gradients. AdamW keeps two running means for each of them.

# %% fold="Code of the model"
EAGER_LAYER = (  # bytes for each number of a row of the width
    ("norms in 32 bits, and their results to 16", 4 * 4, 2 * 4 + 2 * 2),
    ("heads put side by side", 2, 2),
    ("additions to what came in", 2 * (4 + 2), 2 * 4),
    ("GELU, on four widths", 4 * 2, 4 * 2),
    ("GELU backwards", 4 * (2 + 2), 4 * 2),
    ("sums over the columns, for biases", 9 * 2, 0),
    ("gradients to 32 bits and back", 2 * (2 + 4), 2 * (4 + 2)),
    ("norms backwards, twice for their own gradients", 4 * (4 + 4), 2 * 4),
    ("additions of gradients", 2 * (4 + 4), 2 * 4),
    ("gradients of queries, keys and values put together", 2 * 3 * 2, 2 * 3 * 2),
    ("heads taken apart", 2, 2),
)
COMPILED_LAYER = (
    ("additions with norms", 2 * (4 + 2), 2 * (4 + 2)),
    ("heads put side by side", 2, 2),
    ("GELU, on four widths", 4 * 2, 4 * 2),
    ("GELU backwards", 4 * (2 + 2), 4 * 2),
    ("sums over the columns, for biases", 9 * 2, 0),
    ("norms backwards with additions", 2 * (2 + 4 + 4), 2 * (4 + 2)),
    ("gradients of queries, keys and values put together", 3 * 2, 3 * 2),
    ("heads taken apart", 2, 2),
)
EAGER_LOSS = (  # bytes for each logit of the vocabulary
    ("to 32 bits", 2, 4),
    ("logarithm of softmax", 4, 4),
    ("gradient of the choice", 0, 4),
    ("backwards", 4 + 4, 4),
    ("to 16 bits", 4, 2),
)
COMPILED_LOSS = (("maximum and sum", 2 + 2, 0), ("backwards", 2, 2))
WEIGHTS = (  # bytes for each parameter
    ("to 16 bits", 4, 2),
    ("gradients to 32 bits", 2, 4),
    ("AdamW: parameter, gradient, two means", 4 * 4, 3 * 4),
)
PROJECTED = printed_rows("matmul/alignment", "projection", r"^50304: (.*)$")
PROJECTION_US = [float(us) for us in re.findall(r"(\d+) us", PROJECTED[0][0])]
PRODUCT = 2 * TOKENS * WIDTH * WORDS / PROJECTION_US[0] / 1e6
PARTS_US = printed_numbers("attention/training_step", "parts", r"^([\w ,]+): ([\d.]+) us")


def attention_us(how):
    """One layer's attention, both ways, as it was timed alone."""
    return PARTS_US[f"{how}, forward"] + PARTS_US[f"{how}, backward"]


OWN_LAYER = BY_ATTENTION * TOKENS / LAYERS
FUSED = OWN_LAYER / attention_us("FLASH") / 1e6


def parts_ms(layers, width, heads, context, stored, compiled, compiled_loss=None, tokens=TOKENS):
    """The parts of a step in ms: all by bytes at the rate of a copy or operations at a rate."""
    rows = tokens * width
    own = flop_a_token(layers, width, WORDS, context)[1] * tokens
    passes = COMPILED if compiled else STORED
    loss = COMPILED_LOSS if (compiled if compiled_loss is None else compiled_loss) else EAGER_LOSS
    return {
        "products": 6 * multiplied(layers, width, WORDS) * tokens / PRODUCT / 1e9,
        "attention": (
            total(passes) * tokens * heads * context * layers / COPY if stored else own / FUSED / 1e9
        ),
        "rest of the layers": total(COMPILED_LAYER if compiled else EAGER_LAYER) * rows * layers / COPY,
        "loss": total(loss) * tokens * WORDS / COPY,
        "parameters": total(WEIGHTS) * parameters(layers, width, WORDS, context) / COPY,
    }


KINDS = {
    "eager, stored": (True, False),
    "eager, fused": (False, False),
    "compiled, stored": (True, True),
    "compiled, fused": (False, True),
}
THIS = (LAYERS, WIDTH, HEADS, CONTEXT)
MODELLED = {kind: parts_ms(*THIS, *how) for kind, how in KINDS.items()}
STEP_MS = {kind: sum(parts.values()) for kind, parts in MODELLED.items()}
if complete(*STEP_MS.values()):
    stored, fused = (MODELLED[f"eager, {how}"] for how in ("stored", "fused"))
    assert stored["attention"] == max(stored.values()), "the title says that attention is the largest part"
    assert fused["attention"] < np.median(list(fused.values())), "the title says: one of the smaller"
show(
    bars(
        MODELLED,
        roles={
            "products": "tile",
            "attention": "warp",
            "rest of the layers": "read",
            "loss": "block",
            "parameters": "registers",
        },
        x="time [ms]",
        form=".1f",
        title="Stored, attention is the largest part of an eager step; fused, it is one of the smaller",
        caption="A model: the parts of a training step, by bytes at the rate of a recorded copy and by operations at recorded rates of an {machine}.",
    )
)


def mfu(step_ms):
    """The share of the peak (data sheet), from the time of a step."""
    return WHOLE / step_ms / 1e9 / PEAK


publish(
    rates={
        "product": PRODUCT,
        "fused": FUSED,
    },
    predicted={
        kind.replace(", ", "_"): {
            "ms": STEP_MS[kind],
            "attention": MODELLED[kind]["attention"],
            "share": MODELLED[kind]["attention"] / STEP_MS[kind],
            "mfu": mfu(STEP_MS[kind]),
        }
        for kind in KINDS
    },
)

# %% [markdown]
# In eager torch with stored matrices a step should take {{ predicted.eager_stored.ms | .0f }} ms,
# {{ predicted.eager_stored.share | .0%}} of it attention; fused, {{ predicted.eager_fused.ms | .0f }}. Compiled it
# should be {{ predicted.compiled_stored.ms | .0f }} and {{ predicted.compiled_fused.ms | .0f }} ms, MFUs of
# {{ predicted.compiled_stored.mfu | .0%}} and {{ predicted.compiled_fused.mfu | .0%}}. Three steps with fused attention
# were recorded in earlier lessons, so the model can be tried at once.

# %% fold="Code of the table"
BEFORE = printed_numbers("matmul/alignment", "training_steps", r"^50304 words, ([^:\n]+): ([\d.]+) ms")
TRIED = {  # ms: predicted, recorded
    "everything eager": (parts_ms(*THIS, False, False), EARLIER["step"]),
    "layers compiled": (parts_ms(*THIS, False, True, compiled_loss=False), BEFORE["projection eager"]),
    "layers and loss compiled": (
        parts_ms(*THIS, False, True),
        BEFORE["projection compiled, padding off"],
    ),
}
TRIED = {name: (sum(parts.values()), seen) for name, (parts, seen) in TRIED.items()}
show(
    Table(
        ["step", "predicted [ms]", "recorded [ms]", "recorded, predicted = 1"],
        [
            [name, round(said, 1), round(seen, 1), round(seen / said, 2)]
            for name, (said, seen) in TRIED.items()
        ],
        caption="Steps of this model with fused attention that earlier lessons recorded on an {machine}, beside the model's sum of parts.",
    )
)
publish(
    tried={
        "worst": max(abs(seen / said - 1) for said, seen in TRIED.values()),
        "loss_ms": TRIED["layers compiled"][1] - TRIED["layers and loss compiled"][1],
        "loss_said": TRIED["layers compiled"][0] - TRIED["layers and loss compiled"][0],
    }
)

# %% [markdown]
# The model is at most {{ tried.worst | .0%}} off, with no number fitted to these steps. Compiling the loss
# saved {{ tried.loss_ms | .1f }} ms where the list of passes says {{ tried.loss_said | .1f }}. None of the three had
# stored attention. Let it speak of that, and of other models too: choose one, and see where its step goes.


# %% fold="Code of the figure"
SIZES = {"124 million": (12, 768, 12), "355 million": (24, 1024, 16), "774 million": (36, 1280, 20)}


def step_of(model, context, attention, code):
    """What the sum of parts says of a choice."""
    layers, width, heads = SIZES[model]
    context = int(context.replace(",", ""))
    found = parts_ms(layers, width, heads, context, attention == "stored", code == "compiled")
    whole = sum(found.values())
    by_matrices, by_attention = flop_a_token(layers, width, WORDS, context)
    share = (by_matrices + by_attention) * TOKENS / whole / 1e9 / PEAK
    operations = by_attention / (by_matrices + by_attention)
    verdict = (
        f"A step takes {whole:,.0f} ms: {TOKENS / whole * 1e3:,.0f} tokens a second. Attention is "
        f"{operations:.0%} of its operations and {found['attention'] / whole:.0%} of its time."
    )
    return Answer([share, *(part / whole for part in found.values())], verdict)


show(
    calculator(
        [
            Slider("model", list(SIZES), "124 million"),
            Slider("context", ["256", "512", "1,024", "2,048", "4,096", "8,192"], "1,024", "tokens"),
            Slider("attention", ["stored", "fused"], "stored"),
            Slider("code", ["eager", "compiled"], "eager"),
        ],
        step_of,
        meters=[
            Meter("MFU", 1.0, "", "measured", ".0%"),
            Meter("products", 1.0, "", "tile", ".0%"),
            Meter("attention", 1.0, "", "warp", ".0%"),
            Meter("rest of the layers", 1.0, "", "read", ".0%"),
            Meter("loss", 1.0, "", "block", ".0%"),
            Meter("parameters", 1.0, "", "registers", ".0%"),
        ],
        title="A longer context costs stored attention bytes, and fused attention operations",
        caption="A step of 16,384 tokens on an {machine} by the same model: its MFU, and the share of each part in its time. Whether the matrices fit into its memory is not asked.",
    )
)

# %% [markdown]
# ## Twelve bytes to write
#
# One part of a step fits on a page as a kernel. The optimizer is \pointwise: each parameter $p$ has its gradient $g$,
# a running mean $m$ of gradients and one of their squares, $v$. The means began at zero, so they are divided by what
# has come in so far, $1 - \beta_1^t$ and $1 - \beta_2^t$ after $t$ steps. Four numbers are read and three written;
# nothing is used twice.


# %% tab="Pseudocode"
def adamw(p, g, m, v, lr, beta1, beta2, eps, decay, in1, in2):
    for i in parallel(len(p)):
        m[i] = beta1 * m[i] + (1 - beta1) * g[i]
        v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i]
        step = m[i] / in1 / (np.sqrt(v[i] / in2) + eps)
        p[i] = p[i] - lr * (step + decay * p[i])


# %% tab="CUDA C"
ADAMW = Kernel(r"""
extern "C" __global__
void adamw(float* p, const float* g, float* m, float* v, int n,
           float lr, float beta1, float beta2, float eps, float decay,
           float in1, float in2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float mean = beta1 * m[i] + (1.0f - beta1) * g[i];
    float square = beta2 * v[i] + (1.0f - beta2) * g[i] * g[i];
    float step = mean / in1 / (sqrtf(square / in2) + eps);
    p[i] -= lr * (step + decay * p[i]);
    m[i] = mean;
    v[i] = square;
}
""")


# %% fold="Code of the check"
from tilewise import gpu_here


def updated(n):
    return case(
        p=normal(n),
        g=normal(n),
        m=normal(n),
        v=uniform(n, low=0.0, high=2.0),
        n=n,
        lr=0.1,
        beta1=0.9,
        beta2=0.95,
        eps=0.25,
        decay=0.5,
        in1=0.4,
        in2=0.2,
        grid=ceil_div(n, 256),
        block=256,
    )


agree(adamw, ADAMW, [updated(n) for n in (1, 255, 1003)], rtol=1e-5, atol=1e-6)
OPTIMIZER_MS = total(WEIGHTS[2:]) * parameters(LAYERS, WIDTH, WORDS, CONTEXT) / COPY
publish(optimizer={"ms": OPTIMIZER_MS})

# %% [markdown]
# Written in eager torch, each operation of these lines would be a launch for each matrix. With `fused=True` torch's
# own optimizer is one kernel for many matrices. By its bytes either takes {{ optimizer.ms | .2f }} ms for all
# {{ ask.parameters | .0f }} million parameters.

# %% [markdown]
# ## Measure
#
# Now the real thing. The model is the one of [Alignment](../matmul/alignment.py#the-effect-on-a-training-step), with weights drawn
# as GPT-2 draws them and random tokens. What changes is one function, and whether layers and loss are
# compiled. This is the stored one, line by line the table above:


# %%
def stored_attention(q, k, v, unseen):
    """softmax(q kᵀ / √d) v: every matrix is written to memory."""
    logits = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    weights = logits.masked_fill(unseen, float("-inf")).softmax(dim=-1)
    return weights @ v


# %% [markdown]
# The fused one is torch's `scaled_dot_product_attention` (SDPA), once with FlashAttention-2 (its FLASH backend) and once with cuDNN. This course's own
# backward kernel on the matrix units is made for heads of 128 numbers, and this model has heads of
# {{ model.d }}, so it does not take part.

# %% needs="gpu torch" record="steps" fold="Code of the training steps"
if gpu_here() and find_spec("torch"):
    import time
    from contextlib import nullcontext

    import torch
    from torch import nn
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.set_float32_matmul_precision("high")
    DEVICE = "cuda"

    def fused_attention(q, k, v, unseen):
        """torch's own, in one kernel forwards."""
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    class Layer(nn.Module):
        """Attention and two products with a bend between them, each added to what came in."""

        def __init__(self, attend):
            super().__init__()
            self.attend = attend
            self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x, unseen):
            parts = self.qkv(self.before(x)).view(*x.shape[:2], 3, HEADS, D)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            mixed = self.attend(q, k, v, unseen)
            x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
            return x + self.down(functional.gelu(self.up(self.between(x))))

    def loss_of(x, weights, targets):
        """The projection to the vocabulary and the loss."""
        logits = functional.linear(x, weights)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def drawn(module):
        """Weights as GPT-2 draws them."""
        for one in module.modules():
            if isinstance(one, nn.Linear | nn.Embedding):
                nn.init.normal_(one.weight, std=0.02)
        return module.to(DEVICE)

    def trained(attend, compiled, around, repetitions=24):
        """Losses of the steps, their times in ms after the first four, the most memory in use."""
        torch.manual_seed(0)
        words, places = drawn(nn.Embedding(WORDS, WIDTH)), drawn(nn.Embedding(CONTEXT, WIDTH))
        layers = drawn(nn.ModuleList(Layer(attend) for _ in range(LAYERS)))
        norm = nn.LayerNorm(WIDTH).to(DEVICE)
        head = loss_of
        if compiled:
            head = torch.compile(loss_of, dynamic=False)
            for layer in layers:
                layer.compile(dynamic=False)  # one compilation serves all twelve
        every = [one for part in (words, places, layers, norm) for one in part.parameters()]
        optimizer = torch.optim.AdamW(every, lr=1e-4, fused=True)
        unseen = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool, device=DEVICE).triu(1)
        tokens = torch.randint(WORDS, (BATCH, CONTEXT + 1), device=DEVICE)
        losses, times = [], []
        for at in range(repetitions):
            if at == 4:
                torch.cuda.reset_peak_memory_stats()
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            with around(), torch.autocast(DEVICE, torch.bfloat16):
                x = words(tokens[:, :-1]) + places.weight
                for layer in layers:
                    x = layer(x, unseen)
                loss = head(norm(x), words.weight, tokens[:, 1:])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop))
            losses.append(float(loss.detach()))
        return losses, times[4:], torch.cuda.max_memory_allocated() / 1e9

    def by(backend):
        return lambda: sdpa_kernel(getattr(SDPBackend, backend))

    for name, attend, compiled, around in (
        ("eager, FLASH", fused_attention, False, by("FLASH_ATTENTION")),
        ("eager, cuDNN", fused_attention, False, by("CUDNN_ATTENTION")),
        ("eager, stored", stored_attention, False, nullcontext),
        ("compiled, FLASH", fused_attention, True, by("FLASH_ATTENTION")),
        ("compiled, cuDNN", fused_attention, True, by("CUDNN_ATTENTION")),
        ("compiled, stored", stored_attention, True, nullcontext),
    ):
        began = time.perf_counter()
        try:
            losses, times, most_gb = trained(attend, compiled, around)
        except Exception as error:  # one that fails must not cost the others
            print(f"{name}: {type(error).__name__}, {str(error).splitlines()[0][:90]}")
            continue
        low, middle, high = np.percentile(times, [20, 50, 80])
        print(
            f"{name}: {middle:.2f} ms [{low:.2f}, {high:.2f}], {most_gb:.1f} GB, "
            f"loss {losses[0]:.4f} then {losses[-1]:.4f}, {time.perf_counter() - began:.0f} s in all"
        )
        torch.compiler.reset()
        torch.cuda.empty_cache()

# %% fold="Code of the table"
SEEN = {
    name: numbers
    for name, *numbers in printed_rows(
        "attention/training_step",
        "steps",
        r"^(\w+, \w+): ([\d.]+) ms \[([\d.]+), ([\d.]+)\], ([\d.]+) GB, loss ([\d.]+) then",
    )
}
NAMES = (
    "eager, stored",
    "eager, FLASH",
    "eager, cuDNN",
    "compiled, stored",
    "compiled, FLASH",
    "compiled, cuDNN",
)
if SEEN:
    check(
        [numbers[4] for numbers in SEEN.values()],
        [np.mean([numbers[4] for numbers in SEEN.values()])] * len(SEEN),
        rtol=0.002,
        name="first losses of all steps",
    )


def said_of(name):
    """The model's time for a step of this name, cuDNN at the rate recorded for it."""
    found = parts_ms(*THIS, "stored" in name, name.startswith("compiled"))
    if "cuDNN" in name:
        found["attention"] = LAYERS * attention_us("CUDNN") / 1e3
    return sum(found.values())


def in_full(name):
    """What a step is called in tables: FLASH is the name of FlashAttention-2 among torch's backends."""
    return name.replace("FLASH", "FlashAttention-2")


def seen_ms(name):
    return SEEN[name][0] if SEEN else np.nan


if SEEN:
    show(
        Table(
            [
                "step",
                "predicted [ms]",
                "measured [ms]",
                "p20 to p80",
                "tokens a second",
                "MFU",
                "memory [GB]",
            ],
            [
                [
                    in_full(name),
                    round(said_of(name), 1),
                    round(ms, 1),
                    f"{low:.1f}\u00a0to\u00a0{high:.1f}",
                    round(TOKENS / ms * 1e3),
                    f"{mfu(ms):.1%}",
                    most_gb,
                ]
                for name in NAMES
                for ms, low, high, most_gb, _ in [SEEN[name]]
            ],
            caption="Training steps on one {machine}: medians of 20 steps after four that are left out, in BF16 under autocast.",
        )
    )
publish(
    seen={
        name.replace(", ", "_").lower(): {
            "ms": seen_ms(name),
            "mfu": mfu(seen_ms(name)),
        }
        for name in NAMES
    },
    gain={
        "share": 1
        - (seen_ms("eager, FLASH") - 1e-3 * LAYERS * attention_us("FLASH")) / seen_ms("eager, stored"),
        "share_fused": 1e-3 * LAYERS * attention_us("FLASH") / seen_ms("eager, FLASH"),
        "memory": SEEN["eager, stored"][3] - SEEN["eager, FLASH"][3] if SEEN else np.nan,
        "whole": seen_ms("eager, stored") / seen_ms("compiled, FLASH"),
    },
    off={
        "least": min(seen_ms(name) / said_of(name) - 1 for name in NAMES),
        "most": max(seen_ms(name) / said_of(name) - 1 for name in NAMES),
    },
)

# %% [markdown]
# Stored in eager torch a step takes {{ seen.eager_stored.ms | .0f }} ms, an MFU of {{ seen.eager_stored.mfu | .1%}};
# fused {{ seen.eager_flash.ms | .0f }}, {{ seen.eager_flash.mfu | .0%}}. Compiled it is
# {{ seen.compiled_stored.ms | .0f }} and {{ seen.compiled_flash.ms | .0f }} ms,
# {{ seen.compiled_stored.mfu | .0%}} and {{ seen.compiled_flash.mfu | .0%}}. In memory the stored step takes
# {{ gain.memory | .1f }} GB more than the fused one, and {{ moved.kept_gb | .1f }} were to be kept: that count is
# right. The times are not. All six are longer than predicted, by {{ off.least | .0%}} to {{ off.most | .0%}}.

# %% [markdown]
# ## Where the model is off
#
# To find out which terms of the sum are wrong, they are timed as well, each alone: the products of a layer,
# one layer's attention both ways, the loss, and a step of the optimizer.

# %% needs="gpu torch" record="parts" fold="Code of the parts"
if gpu_here() and find_spec("torch"):
    from functools import partial

    import cupy
    import torch
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    ON_GPU = {"device": "cuda", "dtype": torch.bfloat16}
    torch.manual_seed(0)

    def timed(calls, repetitions=15):
        """Times each call and prints it; each has run once before."""
        for call in calls.values():
            call()
        contenders = [Contender(name, call) for name, call in calls.items()]
        for one in time_contenders(contenders, Plan(repetitions=repetitions)):
            print(f"{one.label}: {one.median:.1f} us [{one.p20:.1f}, {one.p80:.1f}]")

    calls = {}
    for name, (rows, columns, many) in matrices(LAYERS, WIDTH, WORDS).items():
        if many == 1:
            continue
        x, g = torch.randn(TOKENS, rows, **ON_GPU), torch.randn(TOKENS, columns, **ON_GPU)
        w = torch.randn(columns, rows, **ON_GPU)
        short = name.replace(",", "")
        calls[f"{short}, product forward"] = lambda x=x, w=w: x @ w.t()
        calls[f"{short}, product to x"] = lambda g=g, w=w: g @ w
        calls[f"{short}, product to w"] = lambda g=g, x=x: g.t() @ x
    timed(calls)
    del calls, x, g, w

    packed = torch.randn(BATCH, CONTEXT, 3, HEADS, D, **ON_GPU).permute(2, 0, 3, 1, 4)
    q, k, v = (one.detach().requires_grad_() for one in packed)
    do = torch.randn(BATCH, CONTEXT, HEADS, D, **ON_GPU).transpose(1, 2)
    unseen = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool, device="cuda").triu(1)

    def stored_in_autocast():
        with torch.autocast("cuda", torch.bfloat16):
            return stored_attention(q, k, v, unseen)

    def fused_by(backend):
        def call():
            with sdpa_kernel(getattr(SDPBackend, backend)):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        return call

    joined = torch.compile(stored_attention, dynamic=False)

    def compiled_in_autocast():
        with torch.autocast("cuda", torch.bfloat16):
            return joined(q, k, v, unseen)

    for name, call in (
        ("stored", stored_in_autocast),
        ("compiled", compiled_in_autocast),
        ("FLASH", fused_by("FLASH_ATTENTION")),
        ("CUDNN", fused_by("CUDNN_ATTENTION")),
    ):
        try:
            o = call()
        except RuntimeError as error:  # a backend that this torch lacks must not cost the others
            print(f"no {name} here: {str(error).splitlines()[0][:60]}")
            continue
        back = partial(torch.autograd.grad, o, (q, k, v), do, retain_graph=True)
        timed({f"{name}, forward": call, f"{name}, backward": back})
        del o, back

    logits = torch.randn(TOKENS, WORDS, **ON_GPU).requires_grad_()
    targets = torch.randint(WORDS, (TOKENS,), device="cuda")

    def loss_alone(given, chosen):
        return functional.cross_entropy(given, chosen)

    def both_ways(loss):
        def call():
            with torch.autocast("cuda", torch.bfloat16):
                return torch.autograd.grad(loss(logits, chosen=targets), logits)

        return call

    whole = torch.compile(loss_alone, dynamic=False)
    timed({"loss, eager": both_ways(loss_alone), "loss, compiled": both_ways(whole)}, 7)
    del logits

    shapes = [
        (columns, rows)
        for rows, columns, many in matrices(LAYERS, WIDTH, WORDS).values()
        for _ in range(many)
    ]
    held = [torch.randn(*shape, device="cuda").requires_grad_() for shape in shapes]
    for one in held:
        one.grad = torch.randn_like(one)
    optimizer = torch.optim.AdamW(held, lr=1e-4, fused=True)
    n = sum(one.numel() for one in held)
    ours = [torch.randn(n, device="cuda") for _ in range(2)] + [
        torch.rand(n, device="cuda") for _ in range(2)
    ]

    def by_our_kernel():
        numbers = (n, 1e-4, 0.9, 0.999, 1e-8, 0.01, 0.1, 0.001)
        ADAMW(*(cupy.asarray(one) for one in ours), *numbers, grid=ceil_div(n, 256), block=256)

    timed({"optimizer": optimizer.step, "optimizer of this page": by_our_kernel}, 7)

# %% fold="Code of the table"
PRODUCTS_US = sum(us for name, us in PARTS_US.items() if ", product" in name)
ALONE = {  # ms: by the model, timed alone
    "products": (MODELLED["eager, fused"]["products"], (LAYERS * PRODUCTS_US + sum(PROJECTION_US)) / 1e3),
    "attention, stored and eager": (
        MODELLED["eager, stored"]["attention"],
        LAYERS * attention_us("stored") / 1e3,
    ),
    "attention, stored and compiled": (
        MODELLED["compiled, stored"]["attention"],
        LAYERS * attention_us("compiled") / 1e3,
    ),
    "loss, eager": (MODELLED["eager, fused"]["loss"], PARTS_US["loss, eager"] / 1e3),
    "loss, compiled": (MODELLED["compiled, fused"]["loss"], PARTS_US["loss, compiled"] / 1e3),
    "optimizer": (OPTIMIZER_MS, PARTS_US["optimizer"] / 1e3),
    "optimizer of this page": (OPTIMIZER_MS, PARTS_US["optimizer of this page"] / 1e3),
}
if PARTS_US:
    show(
        Table(
            ["part of a step", "model [ms]", "timed alone [ms]", "timed, model = 1"],
            [
                [name, round(said, 2), round(seen, 2), round(seen / said, 2)]
                for name, (said, seen) in ALONE.items()
            ],
            caption="The model's parts and the same parts timed alone on an {machine}, for a whole step of 12 layers.",
        )
    )
publish(
    alone={
        "products_said": ALONE["products"][0],
        "products": ALONE["products"][1],
        "products_rate": BY_MATRICES * TOKENS / ALONE["products"][1] / 1e9,
        "stored": ALONE["attention, stored and eager"][1],
        "stored_said": ALONE["attention, stored and eager"][0],
        "flash": LAYERS * attention_us("FLASH") / 1e3,
        "cudnn": LAYERS * attention_us("CUDNN") / 1e3,
        "flash_rate": OWN_LAYER / attention_us("FLASH") / 1e6,
        "cudnn_rate": OWN_LAYER / attention_us("CUDNN") / 1e6,
        "optimizer": ALONE["optimizer"][1],
        "adamw": ALONE["optimizer of this page"][1],
    }
)

# %% [markdown]
# The products take {{ alone.products | .1f }} ms, {{ alone.products_rate | .0f }} TFLOP/s, where the model says
# {{ alone.products_said | .1f }}, and the eager loss is no worse. FlashAttention-2 takes {{ alone.flash | .1f }} ms and cuDNN
# {{ alone.cudnn | .1f }}: {{ alone.flash_rate | .0f }} and {{ alone.cudnn_rate | .0f }} TFLOP/s with short rows
# and heads of {{ model.d }}. The optimizer of torch takes {{ alone.optimizer | .2f }} ms, and the one of this page, on one
# array of as many numbers as the matrices have, {{ alone.adamw | .2f }}. Furthest off is stored attention:
# {{ alone.stored | .1f }} ms for the model's {{ alone.stored_said | .1f }}. Are there passes that the list does not have?

# %% [markdown]
# There are three, and torch's source names them.[^source] `masked_fill` copies its input and fills the copy in
# place, forwards and again backwards. And backwards the softmax begins with a kernel of its own that
# multiplies the gradient with the weights, in 32 bits.
#
# [^source]: `masked_fill` in `aten/src/ATen/native/TensorAdvancedIndexing.cpp`, `softmax_backward_cuda_out` in
#     `aten/src/ATen/native/cuda/SoftMax.cu`. A line of a formula is no promise of one pass.

# %% fold="Code of the passes"
MISSED = (
    ("forwards: a copy for the mask", 2, 2),
    ("backwards: gradient times weights", 4 + 4, 4),
    ("backwards: a copy for the mask", 2, 2),
)


def one_way(passes, way):
    """Those passes of a list that are made on the way forwards, or backwards."""
    return [one for one in passes if one[0].startswith(way)]


FOUND = []  # which, bytes by the list, by the longer list, us at the rate of a copy, timed alone
for how, passes, missed in (("stored", STORED, MISSED), ("compiled", COMPILED, ())):
    for way in ("forward", "backward"):
        said = total(one_way(passes, way))
        found = said + total(one_way(missed, way))
        which = f"{'eager' if how == 'stored' else how}, {way}s"
        FOUND.append((which, said, found, found * SCORES / COPY * 1e3, PARTS_US[f"{how}, {way}"]))
if PARTS_US:
    show(
        Table(
            [
                "stored attention",
                "bytes predicted",
                "with what was missed",
                "as a copy [µs]",
                "timed [µs]",
                "timed, copy = 1",
            ],
            [
                [*row, round(copied), round(timed_us), round(timed_us / copied, 2)]
                for *row, copied, timed_us in FOUND
            ],
            caption="One layer's stored attention on an {machine}: bytes for each element by the list above and with three more passes, their time at the rate of a recorded copy, and the time of the same part alone.",
        )
    )
publish(
    missed={
        "passes": len(MISSED) + len(STORED),
        "bytes": total(MISSED) + total(STORED),
        "ms": (total(MISSED) + total(STORED)) * SCORES * LAYERS / COPY,
        "least": min(timed_us / copied - 1 for *_, copied, timed_us in FOUND),
        "most": max(timed_us / copied - 1 for *_, copied, timed_us in FOUND),
    },
)

# %% [markdown]
# With them it is {{ missed.passes }} passes and {{ missed.bytes }} bytes, {{ missed.ms | .0f }} of the
# {{ alone.stored | .0f }} ms. What is left is much the same for eager and compiled code: passes
# {{ missed.least | .0%}} to {{ missed.most | .0%}} slower than a copy. Which kernels lose that, these
# numbers do not show. So the model above is still too kind to stored matrices.

# %% [markdown]
# And the rest of a step? It is what the recorded steps leave when attention, as timed alone, is taken away. It should
# not depend on the attention.

# %% fold="Code of the numbers"
REST = {}  # ms of a step: attention alone, the others by subtraction, the others by the model
for name, how in zip(NAMES, ("stored", "FLASH", "CUDNN", "compiled", "FLASH", "CUDNN"), strict=True):
    own = LAYERS * attention_us(how) / 1e3
    modelled = MODELLED[f"{name.split(',')[0]}, fused"]
    REST[name] = own, seen_ms(name) - own, sum(modelled.values()) - modelled["attention"]
EAGER_REST = [rest for name, (_, rest, _) in REST.items() if name.startswith("eager")]
TIMED_REST = sum(ALONE[part][1] for part in ("products", "loss, eager", "optimizer"))
publish(
    rest={
        "least": min(EAGER_REST),
        "most": max(EAGER_REST),
        "model": REST["eager, stored"][2],
        "timed": TIMED_REST,
        "left": np.mean(EAGER_REST) - TIMED_REST,
        "left_said": MODELLED["eager, stored"]["rest of the layers"],
        "compiled_stored": REST["compiled, stored"][1],
        "compiled_flash": REST["compiled, FLASH"][1],
        "compiled_cudnn": REST["compiled, cuDNN"][1],
        "faster": LAYERS * (attention_us("FLASH") - attention_us("CUDNN")) / 1e3,
        "spread_stored": SEEN["compiled, stored"][2] - SEEN["compiled, stored"][1] if SEEN else np.nan,
        "spread_cudnn": SEEN["compiled, cuDNN"][2] - SEEN["compiled, cuDNN"][1] if SEEN else np.nan,
    },
    before={"eager": TRIED["everything eager"][1], "compiled": TRIED["layers and loss compiled"][1]},
)

# %% [markdown]
# In eager torch it does not: {{ rest.least | .1f }} to {{ rest.most | .1f }} ms, for the model's
# {{ rest.model | .1f }}. Products, loss and optimizer as timed alone are {{ rest.timed | .1f }} of it, so {{ rest.left | .0f }} are left for norms, additions
# and GELU where the list of passes has {{ rest.left_said | .0f }}. That list, too, is probably short of some.

# %% [markdown]
# Compiled it grows from {{ rest.compiled_stored | .1f }} ms with stored attention to {{ rest.compiled_flash | .1f }} with
# FlashAttention-2 and {{ rest.compiled_cudnn | .1f }} with cuDNN.
#
# cuDNN's kernels would save {{ rest.faster | .1f }} ms on FlashAttention-2, but the H100's step is no shorter, and three
# fifths of its times spread over {{ rest.spread_cudnn | .1f }} ms in place of {{ rest.spread_stored | .1f }}. So something else has
# a part in it. It may be the [host](../speed/launches.py), which launches; nothing recorded here tells.[^before]
#
# [^before]: Earlier lessons recorded {{ before.eager | .1f }} ms for the eager and {{ before.compiled | .1f }} for the compiled
#     step with fused attention. There torch chose the backend and drew the weights in its own way. Why steps
#     with FlashAttention-2 are slower on this page is not explained.

# %% [markdown]
# ## The answer
#
# Attention is {{ ask.share | .0%}} of the operations. With stored matrices it takes {{ gain.share | .0%}} of an eager
# step, fused {{ gain.share_fused | .0%}}. The same step, in the same torch, with the same losses, takes
# {{ gain.whole | .1f }} times as long when everything is stored and eager as when attention is fused and the
# rest compiled. What changed were above all passes over memory.

# %% [markdown]
# ## Takeaways
#
# - Count a step's operations by its matrices: six for each parameter in a product and token, and
#   attention's own on top.
# - Count its bytes by passes. {{ missed.passes }} passes over matrices of logits cost an eager step
#   {{ alone.stored | .0f }} ms, all of its products {{ alone.products | .0f }}.
# - The formula's lines say too little: a library's operation may make passes of its own. Memory was predicted
#   to the gigabyte, time was not.
# - A compiler joins the passes between two products; those around them only another algorithm removes, fused
#   attention.
# - An MFU says how far, not why; a sum of parts says why, and each part can be timed alone.

# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise


def utilisation(layers, width, words, context, tokens_per_s, peak):
    in_products = layers * 12 * width * width + words * width
    flop = 6 * in_products + 12 * layers * width * context / 2
    return flop * tokens_per_s / peak


def without_attention(layers, width, words, context, tokens_per_s, peak):
    return 6 * (layers * 12 * width * width + words * width) * tokens_per_s / peak


def looked_up_words(layers, width, words, context, tokens_per_s, peak):
    in_products = layers * 12 * width * width + 2 * words * width + context * width
    return (6 * in_products + 6 * layers * width * context) * tokens_per_s / peak


def forwards_alone(layers, width, words, context, tokens_per_s, peak):
    in_products = layers * 12 * width * width + words * width
    return (2 * in_products + 2 * layers * width * context) * tokens_per_s / peak


def utilisation_tests(answer):
    for layers, width, words, context in (
        (12, 768, 50304, 1024),
        (2, 64, 1000, 512),
        (36, 1280, 50304, 2048),
    ):
        flop = 0
        for rows, columns, many in matrices(layers, width, words).values():
            flop += 6 * rows * columns * many
        for _ in range(layers):
            flop += (
                3 * 2 * 2 * width * (context / 2)
            )  # two products over the keys that a query sees, three times
        given = answer(layers, width, words, context, 1e5, 1e15)
        assert abs(given - flop * 1e-10) < 1e-9 * flop * 1e-10, f"{given:.4f} in place of {flop * 1e-10:.4f}"


exercise(
    "Count a model",
    """
    Write `utilisation(layers, width, words, context, tokens_per_s, peak)`, the MFU of a model as on this page: four
    matrices a layer, one to the vocabulary, attention's products over half of the context on the average, and for each product
    one forwards and two backwards. The vector of a word is looked up, not multiplied. `peak` is in operations a second. Compare with what
    you read elsewhere: a report that counts the whole context, or the embeddings, gets another number for the same speed.
    """,
    answer=utilisation,
    tests=utilisation_tests,
    wrong=[without_attention, looked_up_words, forwards_alone],
    hint="A product of a token's row with a matrix of r × c numbers takes 2 r c operations.",
)
