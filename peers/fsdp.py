"""The PyTorch counterpart of `cs336 fsdp`: the same training step with PyTorch's FSDP2 on the same GPUs.

usage: python3 peers/fsdp.py CSV [--mode fsdp,hsdp] [--replicas 2] [--size xl,8B] [--batch 1] [--context 128] [--dtype bf16]
                             [--checkpointing everything,first-16,nothing] [--attention cudnn] [--no-compile] [--loss-chunks 16]
                             [--processes 2] [--warmup 2] [--steps 5] [--round 1]
       on the CPU: ... --device cpu --backend gloo --attention math --no-compile

CSV is the file that `cs336 fsdp` wrote. Rows are added to it under the modes `fsdp` and `hsdp` and the implementations
`pytorch-eager+cudnn`, `pytorch-compile+flash` and so on. Each block is a unit, compiled by torch.compile unless --no-compile is
given; bf16 is FSDP2's mixed precision with fp32 master weights. --checkpointing first-k recomputes the first k blocks, `nothing` all
of them. With several --loss-chunks the loss is computed in chunks, which are recomputed, too. The protocol is
that of cs336.distributed.bench.FsdpBenchmark: memory of the second step (GPUs only); loss and gradient norm of the first three
steps, from the same parameters and batches as there; then steps back to back, where each value is that of the slowest rank. AdamW
is PyTorch's fused version. `gradients` is 0: the backward pass contains it.

`hsdp` shards within each of --replicas groups of consecutive ranks and replicates across the groups, with a device mesh of replicas ×
shards. NCCL treats each group as a node of its own, in all modes of the run, as with --emulate-nodes of `cs336 fsdp`.
"""

import itertools
import math
import os
import statistics

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from ddp import Clock, begin, launch, options
from measurements import row, store
from transformer_step import SIZES

VOCABULARIES = {"8B": 151_936}
DIMENSIONS = {**SIZES, "8B": (4096, 11_008, 34, 32)}
BACKENDS = {
    "cudnn": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION, "math": SDPBackend.MATH,
}
MODES = ["fsdp", "hsdp"]
PHASES = ["forward", "backward", "gradients", "update"]
MASK = 2**64 - 1
CUT, MASS_INSIDE_CUT = 3, 0.997300203936740  # of the truncated normal distribution, as in cs336.basics.Initialization


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


class Block(nn.Module):
    def __init__(self, d_model, d_ff, heads):
        super().__init__()
        self.heads = heads
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.ln1 = RMSNorm(d_model)
        self.q, self.k, self.v, self.out = (linear(d_model, d_model) for _ in range(4))
        self.ln2 = RMSNorm(d_model)
        self.w1, self.w2, self.w3 = linear(d_model, d_ff), linear(d_ff, d_model), linear(d_model, d_ff)

    def forward(self, x, cos, sin):
        batch, positions, width = x.shape

        def split(y):  # [B, T, D] -> [B, H, T, d]
            return y.view(batch, positions, self.heads, -1).transpose(1, 2)

        def rotate(y):  # RoPE on interleaved pairs, in fp32
            even, odd = y[..., 0::2], y[..., 1::2]
            return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2).to(y.dtype)

        y = self.ln1(x)
        q, k, v = rotate(split(self.q(y))), rotate(split(self.k(y))), split(self.v(y))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(o.transpose(1, 2).reshape(batch, positions, width))
        y = self.ln2(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class TransformerLM(nn.Module):
    def __init__(self, vocabulary, d_model, d_ff, layers, heads, recomputed, loss_chunks):
        super().__init__()
        self.recomputed, self.loss_chunks = recomputed, loss_chunks
        self.embeddings = nn.Embedding(vocabulary, d_model)
        self.layers = nn.ModuleList(Block(d_model, d_ff, heads) for _ in range(layers))
        self.norm, self.head = RMSNorm(d_model), nn.Linear(d_model, vocabulary, bias=False)

    def forward(self, ids, targets, cos, sin):
        x = self.embeddings(ids)
        for i, layer in enumerate(self.layers):
            x = checkpoint(layer, x, cos, sin, use_reentrant=False) if i < self.recomputed else layer(x, cos, sin)
        x, targets = self.norm(x).flatten(0, 1), targets.flatten()

        def loss(x, targets, weight):
            return F.cross_entropy((x @ weight.t()).float(), targets, reduction="sum")

        if self.loss_chunks == 1:
            return loss(x, targets, self.head.weight) / targets.numel()
        parts = zip(x.chunk(self.loss_chunks), targets.chunk(self.loss_chunks))
        return sum(checkpoint(loss, *part, self.head.weight, use_reentrant=False) for part in parts) / targets.numel()


def initialize(model, device, shard, shards):
    """Sets the initial parameters of cs336, of which this rank holds one shard: the same random numbers, in the same order."""
    torch.manual_seed(0)
    vocabulary, d_model = model.embeddings.weight.shape
    for parameter in model.parameters():
        local = parameter.detach().to_local()
        if parameter.dim() == 1:
            local.fill_(1)
            continue
        std = 1 if parameter is model.embeddings.weight else math.sqrt(2 / sum(parameter.shape))
        values = torch.empty(parameter.shape, device=device).uniform_(-MASS_INSIDE_CUT, MASS_INSIDE_CUT)
        values.erfinv_().mul_(std * math.sqrt(2)).clamp_(-CUT * std, CUT * std)
        rows = -(-parameter.shape[0] // shards)
        local.copy_(values[shard * rows : (shard + 1) * rows])


def random_batch(vocabulary, batch, context, device, seed):
    """Returns the first batch of cs336.basics.Batches.random: numbers of java.util.SplittableRandom."""
    state = seed

    def next_int():  # signed, 32 bits
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 33)) * 0x62A9D9ED799705F5) & MASK
        z = (((z ^ (z >> 28)) * 0xCB24D0A5C88C35B3) & MASK) >> 32
        return z - 2**32 if z >= 2**31 else z

    def bounded():
        r = next_int()
        if vocabulary & (vocabulary - 1) == 0:
            return r & (vocabulary - 1)
        u = (r & 0xFFFFFFFF) >> 1
        while u + vocabulary - 1 - u % vocabulary >= 2**31:
            u = (next_int() & 0xFFFFFFFF) >> 1
        return u % vocabulary

    pairs = [(bounded(), bounded()) for _ in range(batch * context)]
    return [torch.tensor(tokens, device=device).view(batch, context) for tokens in zip(*pairs)]


def gathered(value):
    """Returns the values of all ranks."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def device_mesh(mode, args):
    """Returns the mesh of a mode. On a mesh of replicas × shards FSDP2 shards along the second dimension only."""
    if mode == "fsdp":
        return init_device_mesh(args.device, (args.processes,), mesh_dim_names=("shard",))
    shape = args.replicas, args.processes // args.replicas
    return init_device_mesh(args.device, shape, mesh_dim_names=("replicate", "shard"))


def measure(mode, size, checkpointing, args, device, rank):
    """Returns the values of each metric."""
    d_model, d_ff, layers, heads = DIMENSIONS[size]
    vocabulary = VOCABULARIES.get(size, 10_000)
    recomputed = {"everything": 0, "nothing": layers}.get(checkpointing)
    if recomputed is None:
        recomputed = int(checkpointing.removeprefix("first-"))
    with torch.device("meta"):
        model = TransformerLM(vocabulary, d_model, d_ff, layers, heads, recomputed, args.loss_chunks)
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16) if args.dtype == "bf16" else MixedPrecisionPolicy()
    mesh = device_mesh(mode, args)
    for layer in model.layers:
        if not args.no_compile:
            layer.compile()
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device=device)
    initialize(model, device, mesh["shard"].get_local_rank(), mesh["shard"].size())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    width = d_model // heads
    angles = torch.outer(torch.arange(args.context), 10_000 ** (-torch.arange(0, width, 2) / width)).to(device)
    batch = random_batch(vocabulary, args.batch, args.context, device, rank)
    rotation = angles.cos(), angles.sin()
    results = {}

    def store_memory(metric, allocated):
        if device.type == "cuda":
            results[metric, "bytes"] = gathered(allocated())

    store_memory("init", torch.cuda.memory_allocated)

    def backward(mark):
        with sdpa_kernel(BACKENDS[args.attention]):
            loss = model(*batch, *rotation)
            mark()
            loss.backward()
        mark()
        mark()
        return loss.detach()

    def update():
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    optimizer.param_groups[0]["lr"] = 1e-5  # as in FsdpBenchmark
    for step in range(1, 4):
        if step == 2 and device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        results[f"loss-{step}", "nats"] = gathered(backward(lambda: None).item())
        if step == 2:
            store_memory("before-step", torch.cuda.memory_allocated)
        optimizer.param_groups[0]["eps"] = 1e-8 / math.sqrt(1 - 0.999**step)  # the course's AdamW adds it to the raw moment
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]).full_tensor()
        results[f"gradient-norm-{step}", ""] = [norm.item()]
        update()
        if step == 2:
            store_memory("peak", torch.cuda.max_memory_allocated)
    optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["eps"] = 1e-3, 1e-8
    clock = Clock(device)
    for _ in range(args.warmup):
        backward(lambda: None)
        update()
    dist.barrier()
    clock.start()
    for _ in range(args.steps):
        backward(clock.mark)
        update()
        clock.mark()
    times = torch.tensor(clock.stop()[:-1], dtype=torch.float64, device=device)
    dist.all_reduce(times, dist.ReduceOp.MAX)
    steps = times.view(args.steps, len(PHASES)).tolist()
    results["total", "ms"] = [sum(step) for step in steps]
    for i, phase in enumerate(PHASES):
        results[phase, "ms"] = [step[i] for step in steps]
    return results


def run(rank, args, port):
    if args.replicas > 1:  # as cs336.distributed.launch.EmulatedNodes
        node = rank * args.replicas // args.processes
        os.environ.update(NCCL_HOSTID=f"node{node}", NCCL_NET="Socket", NCCL_SOCKET_IFNAME="lo")
    device, origin = begin(rank, args, port)
    for size, mode, checkpointing in itertools.product(args.size.split(","), args.mode, args.checkpointing.split(",")):
        label = size
        if size in VOCABULARIES:
            label = "d{}-ff{}-l{}-h{}-v{}".format(*DIMENSIONS[size], VOCABULARIES[size])
        results = measure(mode, size, checkpointing, args, device, rank)
        torch._dynamo.reset()
        if args.device == "cuda":
            torch.cuda.empty_cache()
        if rank == 0:
            case = {
                "size": label, "year": 2025, "batch": args.batch, "context": args.context, "dtype": args.dtype,
                "backend": args.backend, "nodes": args.replicas, "processes": args.processes, "mode": mode, "bucket_mb": 0,
                "round": args.round, "checkpointing": checkpointing,
                "loss_rows": -(-args.batch * args.context // args.loss_chunks),
                "implementation": f"pytorch-{'eager' if args.no_compile else 'compile'}+{args.attention}",
            }
            store(args.csv, [row(case, *metric, values, origin) for metric, values in results.items()])
            medians = {metric: statistics.median(values) for (metric, _), values in results.items()}
            print(label, mode, checkpointing, medians, flush=True)
    dist.barrier()  # rank 0 stores results while the others wait
    dist.destroy_process_group()


def arguments():
    """Returns the checked arguments, with a list of modes."""
    parser = options("xl", "fsdp", warmup=2)
    parser.add_argument("--replicas", type=int, default=1, help="groups of ranks that hold a whole model each, in mode hsdp")
    parser.add_argument("--dtype", default="bf16", choices=["fp32", "bf16"])
    parser.add_argument("--checkpointing", default="everything", help="everything, nothing or first-k, separated by commas")
    parser.add_argument("--attention", default="cudnn", choices=list(BACKENDS))
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--loss-chunks", type=int, default=1)
    args = parser.parse_args()
    args.mode = args.mode.split(",")
    for mode in args.mode:
        if mode not in MODES:
            parser.error(f"--mode must be fsdp or hsdp, not {mode}")
    if args.replicas < 1 or args.processes % args.replicas:
        parser.error(f"--replicas must divide the {args.processes} processes, not {args.replicas}")
    return args


if __name__ == "__main__":
    launch(run, arguments())
