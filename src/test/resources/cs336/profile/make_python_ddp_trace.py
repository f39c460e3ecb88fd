"""Writes python-ddp-rank0.json.gz and …rank1: two steps of PyTorch's own DistributedDataParallel on two GPUs, one trace per rank.

Prints what OverlapTest expects: sums over the trace's events by a sweep of its own, in whole nanoseconds. A time in microseconds
has three decimals, so Decimal keeps it. Made with PyTorch 2.11 on two H200s.
"""

import gzip
import json
import os
import sys
from decimal import Decimal

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ProfilerActivity, profile


def sweep(file):
    """Nanoseconds of communication, and of both at once, of the GPU."""
    with gzip.open(file, "rt") as text:
        events = json.load(text, parse_float=Decimal)["traceEvents"]
    events = []
    for event in events:
        if event.get("cat") == "kernel":
            kind = 1 if "nccl" in event["name"].lower() else 0
            start = int(round(Decimal(event["ts"]) * 1000))
            events += [(start, 1, kind), (start + int(round(Decimal(event["dur"]) * 1000)), -1, kind)]
    running, last, communication, both = [0, 0], 0, 0, 0
    for time, change, kind in sorted(events):
        if running[1]:
            communication += time - last
            both += (time - last) if running[0] else 0
        running[kind] += change
        last = time
    return communication, both


def rank_main(rank, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2)
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.ReLU()) for _ in range(4)]
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers).cuda(), device_ids=[rank], bucket_cap_mb=17
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(2048, 2048, device="cuda")

    def step():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()

    for _ in range(5):
        step()
    dist.barrier()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(2):
            step()
            profiler.step()
    file = f"{folder}/python-ddp-rank{rank}.json"
    profiler.export_chrome_trace(file)
    with open(file, "rb") as plain, gzip.GzipFile(file + ".gz", "wb", mtime=0) as packed:
        packed.write(plain.read())
    os.remove(file)
    print(f"rank {rank}: communication, both [ns] = {sweep(file + '.gz')}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(rank_main, (sys.argv[1] if len(sys.argv) > 1 else ".",), nprocs=2)
