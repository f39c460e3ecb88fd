"""The PyTorch counterpart of `cs336 allreduce`: the same measurements from Python on the same machine.

usage: python3 peers/allreduce.py CSV --backend gloo|nccl --device cpu|cuda [--processes 2,4,6] [--megabytes 0.512,1,10]
           [--warmup 5] [--steps 20] [--seconds 10] [--emulate-nodes 2]

CSV is the file that `cs336 allreduce` wrote. Rows are added to it under the implementation `python`; rows of the same case are
replaced. The protocol is that of cs336.distributed.bench.AllReduceBenchmark: warm-up; before each timed all-reduce the float32
tensor is refilled, the ranks synchronize with an all-reduce of one element and synchronize their devices; the time ends when
the device has finished; the time of the slowest rank is reported. With NCCL, groups of all-reduces are also timed back to back.
Fewer steps are run if they would exceed --seconds.
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from measurements import provenance, require_clean, row, storage_arguments, store

LEAST_STEPS, GROUPS, QUEUED, LEAST_QUEUED = 3, 10, 20, 2


class Rank:
    def __init__(self, rank, args):
        self.rank, self.size = rank, dist.get_world_size()
        self.cuda = args.device == "cuda"
        self.args = args
        self.options = {"device": f"cuda:{torch.cuda.current_device()}"} if self.cuda else {}

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()

    def slowest(self, times):
        """Returns the time of the slowest rank for each all-reduce."""
        gathered = [None] * self.size
        dist.all_gather_object(gathered, times)
        return [max(each) for each in zip(*gathered)]

    def ready(self, tensor):
        """Refills the tensor and synchronizes all ranks and their devices."""
        tensor.fill_(self.rank + 1)
        barrier = torch.zeros(1, **self.options)
        self.synchronize()
        dist.all_reduce(barrier)
        self.synchronize()

    def once(self, tensor, repeat=1):
        """Returns this rank's milliseconds per all-reduce, of `repeat` all-reduces that run back to back."""
        self.ready(tensor)
        start = time.perf_counter()
        for _ in range(repeat):
            dist.all_reduce(tensor)
        self.synchronize()
        return 1e3 * (time.perf_counter() - start) / repeat

    def measure(self, megabytes):
        tensor = torch.empty(round(float(megabytes) * 1e6) // 4, dtype=torch.float32, **self.options)
        self.once(tensor)  # connects the ranks
        estimate = self.slowest([self.once(tensor)])[0]
        affordable = int(1e3 * self.args.seconds / estimate)
        for _ in range(min(self.args.warmup - 2, affordable // 4)):
            self.once(tensor)
        steps = max(LEAST_STEPS, min(self.args.steps, affordable))
        times = self.slowest([self.once(tensor) for _ in range(steps)])
        expected = self.size * (self.size + 1) / 2
        assert tensor.min().item() == tensor.max().item() == expected, "the sum is wrong"
        queued = []
        if self.args.backend == "nccl":
            queue = max(LEAST_QUEUED, min(QUEUED, affordable // LEAST_STEPS))
            self.once(tensor, queue)
            groups = max(LEAST_STEPS, min(GROUPS, affordable // queue))
            queued = self.slowest([self.once(tensor, queue) for _ in range(groups)])
        return times, queued


def run(rank, size, args):
    nodes = args.emulate_nodes or 1
    if args.emulate_nodes:
        os.environ.update(NCCL_HOSTID=f"node{rank * nodes // size}", NCCL_NET="Socket", NCCL_SOCKET_IFNAME="lo")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port + size))
    torch.set_num_threads(1)
    if args.device == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    gpu = torch.device("cuda", torch.cuda.current_device()) if args.backend == "nccl" else None
    dist.init_process_group(args.backend, rank=rank, world_size=size, device_id=gpu)
    origin = provenance(args.device, torch.cuda.device_count() if args.device == "cuda" else 1)
    me = Rank(rank, args)
    for megabytes in args.megabytes.split(","):
        times, queued = me.measure(megabytes)
        if rank != 0:
            continue
        case = {
            "backend": args.backend, "on": args.device, "nodes": nodes, "processes": size,
            "megabytes": megabytes, "implementation": "python",
        }
        bandwidth = float(megabytes) / statistics.median(times)  # GB/s
        rows = [row(case, "time", "ms", times, origin)]
        rows += [row(case, "queued", "ms", queued, origin)] if queued else []
        rows += [
            row(case, "algorithm-bandwidth", "GB/s", [bandwidth], origin),
            row(case, "bus-bandwidth", "GB/s", [bandwidth * 2 * (size - 1) / size], origin),
        ]
        store(args.csv, rows)
        back_to_back = f", queued {statistics.median(queued):.4f} ms" if queued else ""
        print(f"{args.backend} {args.device} {nodes} nodes {size} processes {megabytes} MB:"
              f" {statistics.median(times):.4f} ms{back_to_back}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    storage_arguments(parser)
    parser.add_argument("--backend", choices=["gloo", "nccl"], required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--processes", default="2")
    parser.add_argument("--megabytes", default="0.512,1,10,50,100,500,1000")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--emulate-nodes", type=int)
    parser.add_argument("--port", type=int, default=29400)
    args = parser.parse_args()
    require_clean(args, args.device)
    for size in map(int, args.processes.split(",")):
        mp.spawn(run, (size, args), nprocs=size)


if __name__ == "__main__":
    main()
