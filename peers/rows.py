"""What the peers of `cs336 norms` and `cs336 weighted-sum` share: the protocol of cs336.kernels.norms.RowBenchmark and the
options of cs336.kernels.norms.RowCommand. Gradients are set to None before each pass.

--synchronize group: warm-up, then 20 groups of passes; each group starts with a device synchronization and two untimed passes
and is timed by a CUDA event before and after it. --synchronize each: the wall time of each pass and of the device
synchronization after it.
"""

import argparse
import statistics
from time import perf_counter

import torch

from measurements import provenance, require_clean, row, storage_arguments, store

GROUPS, WARMUP, LEAD = 20, 5, 2
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def group_times(run, passes):
    """Returns the milliseconds per pass, one value per group."""
    passes = max(1, passes // GROUPS)
    samples = []
    for _ in range(GROUPS):
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(LEAD):
            run()
        begin.record()
        for _ in range(passes):
            run()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) / passes)
    return samples


def pass_times(run, passes):
    """Returns the wall time of each pass in milliseconds."""
    samples = []
    torch.cuda.synchronize()
    for _ in range(passes):
        start = perf_counter()
        run()
        torch.cuda.synchronize()
        samples.append(1e3 * (perf_counter() - start))
    return samples


PROTOCOLS = {"group": group_times, "each": pass_times}


def time(protocol, run, passes):
    for _ in range(WARMUP):
        run()
    return PROTOCOLS[protocol](run, passes)


def metrics(case, name, tensors, tensor_bytes, ms, copy_bandwidth, origin):
    bandwidth = tensors * tensor_bytes / statistics.median(ms) / 1e6
    return [
        row(case, name, "ms", ms, origin),
        row(case, f"{name}-bytes", "bytes", [tensors * tensor_bytes], origin),
        row(case, f"{name}-bandwidth", "GB/s", [bandwidth], origin),
        row(case, f"{name}-share-of-copy", "%", [100 * bandwidth / copy_bandwidth], origin),
    ]


def measure(setting, implementations, parameters, tensors, csv, origin):
    """Measures all implementations in one setting and stores their rows.

    `implementations` maps a name to a function of x and its parameters; `tensors` are the least numbers of tensors of x's size
    that the forward pass, and forward with backward pass, read or write.
    """
    rows, width, dtype, passes, protocol = setting.values()
    x = torch.randn(rows, width, device="cuda").to(DTYPES[dtype]).requires_grad_()
    tensor_bytes = x.numel() * x.element_size()
    with torch.no_grad():
        y = torch.empty_like(x)
        copy = time(protocol, lambda: y.copy_(x), passes)
        del y
    copy_bandwidth = 2 * tensor_bytes / statistics.median(copy) / 1e6
    print(f"{rows} x {width} {dtype}, synchronize {protocol}: copy {copy_bandwidth:.0f} GB/s")
    for name, function in implementations.items():

        def forward():
            with torch.no_grad():
                return function(x, *parameters)

        dy = torch.randn_like(forward())

        def forward_backward():
            for leaf in (x, *parameters):
                leaf.grad = None
            function(x, *parameters).backward(dy)

        ms = time(protocol, forward, passes), time(protocol, forward_backward, passes)
        case = {**setting, "implementation": name}
        stored = []
        for metric, moved, times in zip(("forward", "forward-backward"), tensors, ms):
            stored += metrics(case, metric, moved, tensor_bytes, times, copy_bandwidth, origin)
        store(csv, stored)
        forward_ms, both_ms = map(statistics.median, ms)
        print(f"  {name:18} forward {forward_ms:.4f} ms, forward-backward {both_ms:.4f} ms", flush=True)


def main(implementations, parameters, tensors):
    """Runs a peer.

    `implementations` returns the functions by name, and `parameters` the trainable parameters, for a width and device options.
    """
    parser = argparse.ArgumentParser()
    storage_arguments(parser)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--hidden", default="1024,2048,4096,8192")
    parser.add_argument("--dtype", default="fp32,bf16")
    parser.add_argument("--passes", type=int, default=1000)
    parser.add_argument("--implementation", help="names with commas between them; all by default")
    parser.add_argument("--synchronize", default="group", help="group, each, or both with a comma between them")
    args = parser.parse_args()
    protocols = args.synchronize.split(",")
    if not set(protocols) <= set(PROTOCOLS):
        parser.error(f"--synchronize must be a list of {', '.join(PROTOCOLS)}, not {args.synchronize}")
    names = args.implementation.split(",") if args.implementation else list(implementations(1))
    if not set(names) <= set(implementations(1)):
        parser.error(f"--implementation must be a list of {', '.join(implementations(1))}, not {args.implementation}")
    require_clean(args)

    torch.manual_seed(0)
    origin = provenance()
    for width in map(int, args.hidden.split(",")):
        for dtype in args.dtype.split(","):
            for protocol in protocols:
                torch._dynamo.reset()
                setting = {
                    "rows": args.rows,
                    "hidden": width,
                    "dtype": dtype,
                    "passes": args.passes,
                    "synchronize": protocol,
                }
                options = {"device": "cuda", "dtype": DTYPES[dtype], "requires_grad": True}
                chosen = {name: implementations(width)[name] for name in names}
                measure(setting, chosen, parameters(width, options), tensors, args.csv, origin)
                torch.cuda.empty_cache()
