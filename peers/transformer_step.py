"""The PyTorch counterpart of `cs336 benchmark`: the same measurements with PyTorch on the same GPU.

usage: python3 peers/transformer_step.py CSV [--year 2025] [--size small,medium] [--context 128,512] [--dtype fp32,tf32,bf16]
           [--mode eager,compile,reduce-overhead,max-autotune] [--attention plain] [--pass forward,step] [--warmup 5] [--steps 10]
           [--rounds 1]

CSV is the file that `cs336 benchmark` wrote for the model and batch size of the same year (2025: 4 sequences, 2024: 16). Rows
are added to it under the implementations `pytorch-eager`, `pytorch-compile`, `pytorch-reduce-overhead` and
`pytorch-max-autotune` (the modes of torch.compile); rows of the same case are replaced. `--attention sdpa` uses PyTorch's
scaled_dot_product_attention instead of separate operators, and adds `+sdpa` to the implementation. The protocol is that of
cs336.bench.Benchmark: warm-up steps, then each step is timed separately, with the GPU synchronized before and after. bf16 is
autocast; AdamW is PyTorch's fused version. Rounds alternate with those of other programs if peers/alternate.py starts them.
"""

import argparse
import itertools
import math
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from measurements import await_turn, provenance, require_clean, row, storage_arguments, store

SIZES = {  # d_model, d_ff, layers, heads
    "small": (768, 3072, 12, 12),
    "medium": (1024, 4096, 24, 16),
    "large": (1280, 5120, 36, 20),
    "xl": (1600, 6400, 48, 25),
    "2.7B": (2560, 10240, 32, 32),
}
VOCAB = 10_000
BATCH = {2025: 4, 2024: 16}
TIED_EMBEDDING_STD = 0.02


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        return x * scale * self.weight


class SelfAttention(nn.Module):
    sdpa = False  # for all layers: scaled_dot_product_attention instead of separate operators

    def __init__(self, d_model, heads, rotary):
        super().__init__()
        self.heads, self.rotary = heads, rotary
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x, cos, sin, mask):
        batch, positions, width = x.shape

        def split(y):  # [B, T, D] -> [B, H, T, d]
            return y.view(batch, positions, self.heads, -1).transpose(1, 2)

        def rotate(y):  # RoPE on interleaved pairs
            if not self.rotary:
                return y
            even, odd = y[..., 0::2], y[..., 1::2]
            return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

        q, k, v = rotate(split(self.q(x))), rotate(split(self.k(x))), split(self.v(x))
        if self.sdpa:
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            attended = torch.softmax(torch.where(mask, scores, float("-inf")), dim=-1) @ v
        return self.out(attended.transpose(1, 2).reshape(batch, positions, width))


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w1, self.w3 = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_model, d_ff, bias=False)
        self.w2 = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class GELU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w1, self.w2 = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.w2(F.gelu(self.w1(x)))


class Block(nn.Module):
    def __init__(self, d_model, d_ff, heads, year):
        super().__init__()
        self.ln1, self.ln2 = RMSNorm(d_model), RMSNorm(d_model)
        self.attn = SelfAttention(d_model, heads, rotary=year == 2025)
        self.ffn = (SwiGLU if year == 2025 else GELU)(d_model, d_ff)

    def forward(self, x, cos, sin, mask):
        x = x + self.attn(self.ln1(x), cos, sin, mask)
        return x + self.ffn(self.ln2(x))


class TransformerLM(nn.Module):
    """The model of cs336.basics.TransformerLM. 2024: learned positions, GELU, output head tied to the embeddings."""

    def __init__(self, d_model, d_ff, layers, heads, context, year=2025):
        super().__init__()
        self.embeddings = nn.Embedding(VOCAB, d_model)
        self.positions = nn.Embedding(context, d_model) if year == 2024 else None
        self.layers = nn.ModuleList(Block(d_model, d_ff, heads, year) for _ in range(layers))
        self.norm, self.head = RMSNorm(d_model), nn.Linear(d_model, VOCAB, bias=False)
        if year == 2024:
            for embedding in (self.embeddings, self.positions):
                nn.init.normal_(embedding.weight, std=TIED_EMBEDDING_STD)
            self.head.weight = self.embeddings.weight
        width = d_model // heads
        angles = torch.outer(torch.arange(context), 10_000 ** (-torch.arange(0, width, 2) / width))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("mask", torch.ones(context, context, dtype=torch.bool).tril())

    def forward(self, ids):
        x = self.embeddings(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.mask)
        return self.head(self.norm(x))


def compiled(model, mode):
    """Returns the model in this mode: as it is, or compiled by torch.compile."""
    torch._dynamo.reset()
    return {
        "eager": lambda: model,
        "compile": lambda: torch.compile(model),
        "reduce-overhead": lambda: torch.compile(model, mode="reduce-overhead"),
        "max-autotune": lambda: torch.compile(model, mode="max-autotune"),
    }[mode]()


def run_pass(name, model, optimizer, inputs, targets, dtype):
    torch.compiler.cudagraph_mark_step_begin()
    autocast = torch.autocast("cuda", torch.bfloat16, enabled=dtype == "bf16")
    if name == "forward":
        with torch.no_grad(), autocast:
            model(inputs)
        return
    with autocast:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    if name == "step":
        optimizer.step()
    model.zero_grad(set_to_none=True)


def time_pass(name, model, optimizer, inputs, targets, dtype, args):
    torch.cuda.reset_peak_memory_stats()
    for _ in range(args.warmup):  # compiles
        run_pass(name, model, optimizer, inputs, targets, dtype)
    torch.cuda.synchronize()
    times = []
    for _ in range(args.rounds):
        await_turn()
        for step in range(args.warmup + args.steps):
            torch.cuda.synchronize()
            start = time.perf_counter()
            run_pass(name, model, optimizer, inputs, targets, dtype)
            torch.cuda.synchronize()
            if step >= args.warmup:
                times.append(1e3 * (time.perf_counter() - start))
    return times, torch.cuda.max_memory_allocated()


def main():
    parser = argparse.ArgumentParser()
    storage_arguments(parser)
    parser.add_argument("--year", type=int, choices=BATCH, default=2025)
    parser.add_argument("--size", default=",".join(SIZES))
    parser.add_argument("--context", default="128,512")
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--mode", default="eager")
    parser.add_argument("--attention", choices=["plain", "sdpa"], default="plain")
    parser.add_argument("--pass", dest="passes", default="forward,forward-backward,step")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    require_clean(args)
    SelfAttention.sdpa = args.attention == "sdpa"
    variant = "+sdpa" if SelfAttention.sdpa else ""

    origin = provenance()
    for size, context in itertools.product(args.size.split(","), map(int, args.context.split(","))):
        torch.manual_seed(0)
        with torch.device("cuda"):
            model = TransformerLM(*SIZES[size], context, args.year)
        batch = BATCH[args.year]
        inputs, targets = (torch.randint(VOCAB, (batch, context), device="cuda") for _ in range(2))
        for dtype, mode in itertools.product(args.dtype.split(","), args.mode.split(",")):
            torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
            faster = compiled(model, mode)
            for name in args.passes.split(","):
                case = {
                    "size": size, "year": args.year, "batch": batch, "context": context, "dtype": dtype, "pass": name,
                    "warmup": args.warmup, "steps": args.steps, "implementation": f"pytorch-{mode}{variant}",
                }
                optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
                try:
                    times, peak = time_pass(name, faster, optimizer, inputs, targets, dtype, args)
                    fresh = [
                        row(case, "total", "ms", times, origin),
                        row(case, "peak-memory", "bytes", [peak], origin),
                    ]
                    print(f"{mode} {size} {context} {dtype} {name}: {statistics.median(times):.2f} ms", flush=True)
                except torch.OutOfMemoryError:
                    fresh = [row(case, "total", "ms", [], origin, "oom")]
                store(args.csv, fresh)
                model.zero_grad(set_to_none=True)
                del optimizer
            del faster
        del model
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
