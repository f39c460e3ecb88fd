"""The PyTorch counterpart of `cs336 shard`: the same measurements from Python on the same GPUs.

usage: python3 peers/shard.py CSV [--size large,xl] [--batch 2] [--context 128] [--mode ddp,zero,zero-view] [--bucket-size-mb 25]
                              [--backend nccl] [--processes 2] [--warmup 3] [--steps 5] [--rounds 2] [--round 1]

CSV is the file that `cs336 shard` wrote. Rows are added to it under the implementation `pytorch-eager`. Modes, all with
torch.nn.parallel.DistributedDataParallel (gradients as views into buckets): ddp (fused AdamW on every rank), zero
(ZeroRedundancyOptimizer around it), zero-view (with parameters_as_bucket_view). The protocol is that of
cs336.distributed.bench.ShardBenchmark: the modes are interleaved; steps run back to back without device synchronization; each
value is that of the slowest rank in that step. The communication of ZeroRedundancyOptimizer is part of `update`. Memory is read
around the first step of the first round. The model is in fp32 with TF32 off.
"""

import statistics

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from ddp import MIB, Clock, begin, launch, options
from measurements import row, store
from transformer_step import SIZES, VOCAB, TransformerLM

PHASES = ["forward", "backward", "gradients", "update", "parameters"]


def optimizer_of(mode, model):
    if mode == "ddp":
        return torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    return ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.AdamW, parameters_as_bucket_view=mode == "zero-view", lr=1e-3, fused=True
    )


def in_use(device):
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def step(model, optimizer, inputs, targets, clock, memory):
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    clock.mark()
    loss.backward()
    del loss
    clock.mark()  # DistributedDataParallel's backward pass ends when the gradients are averaged
    clock.mark()
    memory("before-step")
    optimizer.step()
    memory("after-step")
    clock.mark()
    optimizer.zero_grad(set_to_none=True)
    clock.mark()


def measure(mode, size, args, device, clock):
    """Returns the times of each timed step by phase and this rank's memory around the first step."""
    memory = {}
    record = lambda point: memory.setdefault(point, in_use(device))
    with device:
        model = TransformerLM(*SIZES[size], args.context)
    gpus = [device] if device.type == "cuda" else None
    wrapped = DistributedDataParallel(
        model,
        gpus,
        bucket_cap_mb=1e6 * args.bucket_size_mb / MIB,
        gradient_as_bucket_view=True,
        broadcast_buffers=False,  # constants, which are equal on all ranks
    )
    optimizer = optimizer_of(mode, model)
    record("init")
    batch = [torch.randint(VOCAB, (args.batch, args.context), device=device) for _ in range(2)]
    clock.start()
    for _ in range(args.warmup):
        step(wrapped, optimizer, *batch, clock, record)
    dist.barrier()
    clock.start()
    for _ in range(args.steps):
        step(wrapped, optimizer, *batch, clock, lambda point: None)
    own = torch.tensor(clock.stop()[:-1], dtype=torch.float64, device=device)
    dist.all_reduce(own, dist.ReduceOp.MAX)
    return own.view(args.steps, len(PHASES)).tolist(), memory


def rows(case, steps, memory, origin):
    new_rows = [row(case, "total", "ms", [sum(s) for s in steps], origin)]
    for i, phase in enumerate(PHASES):
        new_rows.append(row(case, phase, "ms", [s[i] for s in steps], origin))
    return new_rows + [row(case, point, "bytes", values, origin) for point, values in memory.items()]


def run(rank, args, port):
    device, origin = begin(rank, args, port)
    clock = Clock(device)
    for size in args.size.split(","):
        modes = args.mode.split(",")
        measured, memory = {mode: [] for mode in modes}, {}
        for _ in range(args.rounds):
            for mode in modes:
                steps, own = measure(mode, size, args, device, clock)
                measured[mode] += steps
                all_ranks = [None] * args.processes
                dist.all_gather_object(all_ranks, own)
                memory.setdefault(mode, {point: [m[point] for m in all_ranks] for point in own})
                if args.device == "cuda":
                    torch.cuda.empty_cache()
        if rank == 0:
            for mode, steps in measured.items():
                case = {
                    "size": size, "year": 2025, "batch": args.batch, "context": args.context, "dtype": "fp32",
                    "backend": args.backend, "nodes": 1, "processes": args.processes, "mode": mode,
                    "bucket_mb": format(args.bucket_size_mb, "g"), "round": args.round, "implementation": "pytorch-eager",
                }
                store(args.csv, rows(case, steps, memory[mode], origin))
                print(f"{size} {mode}: step {statistics.median(map(sum, steps)):.2f} ms, {memory[mode]}", flush=True)
    dist.destroy_process_group()


def main():
    parser = options("large,xl", "ddp,zero,zero-view", warmup=3)
    parser.add_argument("--bucket-size-mb", type=float, default=25, help="DDP's bucket size in 10^6 bytes")
    launch(run, parser.parse_args())


if __name__ == "__main__":
    main()
