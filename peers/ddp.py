"""The PyTorch counterpart of `cs336 ddp`: the same measurements from Python on the same GPUs.

usage: python3 peers/ddp.py CSV [--size xl] [--batch 2] [--context 128] [--mode none,naive,flat,ddp,ddp-view] [--bucket-size-mb 25]
                            [--backend nccl] [--processes 2] [--warmup 2] [--steps 5] [--rounds 2] [--round 1]

CSV is the file that `cs336 ddp` wrote. Rows are added to it under the implementation `pytorch-eager`. Modes: none (no
communication), naive (an all-reduce for each gradient after the backward pass), flat (gradients concatenated, one all-reduce,
copied back), ddp (DistributedDataParallel with broadcast_buffers=False, because the buffers are constant), ddp-view (with
gradient_as_bucket_view). The protocol is that of cs336.distributed.bench.DdpBenchmark: the modes are interleaved on one model;
each value is that of the slowest rank in that step; phases are times between events in the compute stream. The model is in fp32
with TF32 off, and AdamW is PyTorch's fused version.
"""

import argparse
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from measurements import provenance, require_clean, row, storage_arguments, store
from transformer_step import SIZES, VOCAB, TransformerLM

PHASES = ["forward", "backward", "communication", "optimizer"]
MIB = 2**20


class Clock:
    """Times between marks: CUDA events in the current stream, or host times on the CPU."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def start(self):
        self.wait()
        self.began, self.marks = time.perf_counter(), []
        self.mark()

    def mark(self):
        if self.cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def stop(self):
        """Returns the milliseconds of each phase, then of the whole step."""
        self.wait()
        total = 1e3 * (time.perf_counter() - self.began)
        pairs = zip(self.marks, self.marks[1:])
        return [a.elapsed_time(b) if self.cuda else 1e3 * (b - a) for a, b in pairs] + [total]


def average(tensor):
    if dist.get_backend() == "nccl":
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
    else:
        dist.all_reduce(tensor)
        tensor /= dist.get_world_size()


def naive(parameters):
    for parameter in parameters:
        average(parameter.grad)


def flat(parameters):
    gradients = [parameter.grad for parameter in parameters]
    flattened = torch._utils._flatten_dense_tensors(gradients)
    average(flattened)
    for gradient, averaged in zip(gradients, torch._utils._unflatten_dense_tensors(flattened, gradients)):
        gradient.copy_(averaged)


def step(model, optimizer, synchronize, inputs, targets, clock):
    clock.start()
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    clock.mark()
    loss.backward()
    clock.mark()
    synchronize()
    clock.mark()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    clock.mark()
    return clock.stop()


def measure(mode, bucket_mb, model, optimizer, batch, clock, args):
    """Returns the times of the timed steps of a mode in one round; each value is the maximum over the ranks."""
    parameters, wrapped, synchronize = list(model.parameters()), model, lambda: None
    if mode == "naive":
        synchronize = lambda: naive(parameters)
    elif mode == "flat":
        synchronize = lambda: flat(parameters)
    elif mode.startswith("ddp"):
        gpus = [batch[0].device] if batch[0].is_cuda else None
        wrapped = DistributedDataParallel(
            model,
            gpus,
            bucket_cap_mb=1e6 * bucket_mb / MIB,
            gradient_as_bucket_view=mode == "ddp-view",
            broadcast_buffers=False,  # constants, which are equal on all ranks
        )
    times = [step(wrapped, optimizer, synchronize, *batch, clock) for _ in range(args.warmup + args.steps)]
    mine = torch.tensor(times[args.warmup :], dtype=torch.float64, device=batch[0].device)
    dist.all_reduce(mine, dist.ReduceOp.MAX)
    return mine.tolist()


def rows(case, steps, origin):
    new_rows = [row(case, "total", "ms", [s[-1] for s in steps], origin)]
    for i, phase in enumerate(PHASES):
        new_rows.append(row(case, phase, "ms", [s[i] for s in steps], origin))
    percentages = [100 * s[PHASES.index("communication")] / sum(s[:-1]) for s in steps]
    return new_rows + [row(case, "communication-share", "%", percentages, origin)]


def begin(rank, args, port):
    """Joins the process group. Returns this rank's device and, on rank 0, the provenance of the measurements."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(args.processes))
    device = torch.device("cuda", rank) if args.device == "cuda" else torch.device("cpu")
    if args.device == "cuda":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(max(1, os.cpu_count() // args.processes))
    dist.init_process_group(args.backend, device_id=device if args.backend == "nccl" else None)
    torch.backends.cuda.matmul.allow_tf32 = False
    return device, provenance(args.device, args.processes) if rank == 0 else None


def run(rank, args, port):
    device, origin = begin(rank, args, port)
    clock = Clock(device)
    for size in args.size.split(","):
        torch.manual_seed(rank)
        with device:
            model = TransformerLM(*SIZES[size], args.context)
        for parameter in model.parameters():
            dist.broadcast(parameter.data, 0)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        batch = [torch.randint(VOCAB, (args.batch, args.context), device=device) for _ in range(2)]
        modes = [
            (mode, float(mb) if mode.startswith("ddp") else 0)
            for mode in args.mode.split(",")
            for mb in (args.bucket_size_mb.split(",") if mode.startswith("ddp") else [0])
        ]
        measured = {mode: [] for mode in modes}
        for _ in range(args.rounds):
            for mode, mb in modes:
                measured[mode, mb] += measure(mode, mb, model, optimizer, batch, clock, args)
        if rank == 0:
            for (mode, mb), steps in measured.items():
                case = {
                    "size": size, "year": 2025, "batch": args.batch, "context": args.context, "dtype": "fp32",
                    "backend": args.backend, "nodes": 1, "processes": args.processes, "mode": mode,
                    "bucket_mb": format(mb, "g"), "round": args.round, "implementation": "pytorch-eager",
                }
                store(args.csv, rows(case, steps, origin))
                median = lambda k: statistics.median(s[k] for s in steps)
                print(f"{size} {mode} {mb:g}: step {median(-1):.2f} ms, communication {median(2):.2f} ms", flush=True)
        del model, optimizer
        if args.device == "cuda":
            torch.cuda.empty_cache()
    dist.destroy_process_group()


def options(size, mode, warmup):
    """Returns a parser of the options that all programs of several ranks share, with these defaults."""
    parser = argparse.ArgumentParser()
    storage_arguments(parser)
    parser.add_argument("--size", default=size)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--mode", default=mode)
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=warmup)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--round", type=int, default=1)
    return parser


def launch(run, args):
    """Starts run(rank, args, port) in one process per rank."""
    require_clean(args, args.device)
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    mp.spawn(run, (args, port), args.processes)


def main():
    parser = options("xl", "none,naive,flat,ddp,ddp-view", warmup=2)
    parser.add_argument("--bucket-size-mb", default="25", help="DDP's bucket sizes in 10^6 bytes, separated by commas")
    launch(run, parser.parse_args())


if __name__ == "__main__":
    main()
