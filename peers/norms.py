"""The PyTorch counterpart of `cs336 norms`: the same measurements from Python on the same GPU.

usage: python3 peers/norms.py CSV [--rows 50000] [--hidden 1024,2048,4096,8192] [--dtype fp32,bf16] [--passes 1000]

CSV is the file that `cs336 norms` wrote. Rows are added to it under the implementations `pytorch-layernorm`,
`pytorch-rms_norm`, `pytorch-eager` (RMSNorm in plain operations) and `torch-compile` (the same, compiled); rows of the same
case are replaced. The protocol is that of cs336.kernels.norms.NormBenchmark: warm-up, then 20 groups of passes; each group starts
with a device synchronisation and two untimed passes and is timed by a CUDA event before and after it. Gradients are set to
None before each pass.
"""

import argparse
import statistics

import torch
import torch.nn.functional as F

from measurements import provenance, require_clean, row, storage_arguments, store

GROUPS, WARMUP, LEAD = 20, 5, 2
EPS = 1e-5
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def rms_norm(x, weight, bias):
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS)
    return (wide * scale * weight).to(x.dtype)


def implementations(width):
    torch._dynamo.reset()
    return {
        "pytorch-layernorm": lambda x, w, b: F.layer_norm(x, (width,), w, b, EPS),
        "pytorch-rms_norm": lambda x, w, b: F.rms_norm(x, (width,), w, EPS),
        "pytorch-eager": rms_norm,
        "torch-compile": torch.compile(rms_norm),
    }


def time(run, passes):
    """Returns the milliseconds per pass, one value per group."""
    for _ in range(WARMUP):
        run()
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


def measure(norm, x, dy, weight, bias, passes):
    leaves = [x, weight, bias]

    def forward():
        with torch.no_grad():
            norm(x, weight, bias)

    def forward_backward():
        for leaf in leaves:
            leaf.grad = None
        norm(x, weight, bias).backward(dy)

    return time(forward, passes), time(forward_backward, passes)


def rows(case, name, tensors, tensor_bytes, ms, copy_bandwidth, origin):
    bandwidth = tensors * tensor_bytes / statistics.median(ms) / 1e6
    return [
        row(case, name, "ms", ms, origin),
        row(case, f"{name}-bytes", "bytes", [tensors * tensor_bytes], origin),
        row(case, f"{name}-bandwidth", "GB/s", [bandwidth], origin),
        row(case, f"{name}-share-of-copy", "%", [100 * bandwidth / copy_bandwidth], origin),
    ]


def main():
    parser = argparse.ArgumentParser()
    storage_arguments(parser)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--hidden", default="1024,2048,4096,8192")
    parser.add_argument("--dtype", default="fp32,bf16")
    parser.add_argument("--passes", type=int, default=1000)
    args = parser.parse_args()
    require_clean(args)

    torch.manual_seed(0)
    origin = provenance()
    passes = max(1, args.passes // GROUPS)
    for width in map(int, args.hidden.split(",")):
        for dtype in args.dtype.split(","):
            options = {"device": "cuda", "dtype": DTYPES[dtype]}
            x, dy = (torch.randn(args.rows, width, device="cuda").to(DTYPES[dtype]) for _ in range(2))
            x.requires_grad_()
            weight = torch.ones(width, **options, requires_grad=True)
            bias = torch.zeros(width, **options, requires_grad=True)
            tensor_bytes = x.numel() * x.element_size()
            with torch.no_grad():
                y = torch.empty_like(x)
                copy = time(lambda: y.copy_(x), passes)
                del y
            copy_bandwidth = 2 * tensor_bytes / statistics.median(copy) / 1e6
            print(f"{args.rows} x {width} {dtype}: copy {copy_bandwidth:.0f} GB/s")
            for name, norm in implementations(width).items():
                case = {"rows": args.rows, "hidden": width, "dtype": dtype, "passes": args.passes, "implementation": name}
                forward, both = measure(norm, x, dy, weight, bias, passes)
                store(
                    args.csv,
                    rows(case, "forward", 2, tensor_bytes, forward, copy_bandwidth, origin)
                    + rows(case, "forward-backward", 5, tensor_bytes, both, copy_bandwidth, origin),
                )
                print(
                    f"  {name:18} forward {statistics.median(forward):.4f} ms,"
                    f" forward-backward {statistics.median(both):.4f} ms",
                    flush=True,
                )
            del x, dy, weight, bias
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
