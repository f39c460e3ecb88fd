"""The PyTorch counterpart of `cs336 flash` and `cs336 leaderboard`: the same measurements from Python on the same GPU.

usage: python3 peers/attention.py flash CSV [--full] [--d 64] [--context 128,256,512] [--dtype bf16,fp32] [--batch 1]
           [--heads 1] [--no-mask] [--warmup 25] [--rep 100] [--attention NAME,...]
       python3 peers/attention.py leaderboard CSV [--heads 16] [--d 64] [--context 16384] [--warmup 1000] [--rep 10000]
           [--round 1] [--attention NAME,...]

CSV is the file that the command of the same name wrote. Rows are added to it under the implementations `pytorch-plain` (all
scores stored), `sdpa-flash`, `sdpa-cudnn` and `sdpa-efficient` (scaled_dot_product_attention with a single backend enabled);
rows of the same case are replaced. The variants `sdpa-…-one-thread` run the backward pass on the calling thread, as Java does,
which avoids the switch to autograd's thread.
Protocol: triton.testing.do_bench, as in cs336.bench.DoBench. cs336.kernels.attention.AttentionRun defines what is timed.
TF32 is off.
"""

import argparse
import gc
import math
import statistics

import torch

from measurements import provenance, require_clean, row, storage_arguments, store

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
BACKENDS = {"sdpa-flash": "FLASH_ATTENTION", "sdpa-cudnn": "CUDNN_ATTENTION", "sdpa-efficient": "EFFICIENT_ATTENTION"}
DEFAULT = ["pytorch-plain", *BACKENDS]
ONE_THREAD = "-one-thread"
IMPLEMENTATIONS = [*DEFAULT, *(name + ONE_THREAD for name in BACKENDS)]
UNITS = {"peak-memory": "bytes"}  # all other metrics are times
FEW_TOKENS = 16


def plain(q, k, v, causal):
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
    if causal:
        later = torch.ones(scores.shape[-2:], device=q.device, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    return scores.softmax(-1) @ v


def attention(name):
    """Returns attend(q, k, v, causal) for tensors [B, H, T, d] or, for a single sequence, [H, T, d]."""
    if name == "pytorch-plain":
        return plain

    from torch.nn.attention import SDPBackend, sdpa_kernel

    backend = getattr(SDPBackend, BACKENDS[name.removesuffix(ONE_THREAD)])

    def attend(q, k, v, causal):
        with sdpa_kernel(backend):
            if q.dim() == 4:
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            q, k, v = (x.unsqueeze(0) for x in (q, k, v))
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).squeeze(0)

    return attend


def inputs(shape, dtype):
    return [torch.randn(shape, device="cuda", dtype=dtype).requires_grad_() for _ in range(3)]


def flash(attend, case, time, record):
    """Records the times of forward pass, backward pass and both in ms, and the peak memory in addition to the inputs."""
    dtype, causal = DTYPES[case["dtype"]], case["causal"] == "true"

    def tensors(tokens):
        shape = (case["batch"], case["heads"], tokens, case["d"])
        return inputs(shape, dtype), torch.randn(shape, device="cuda", dtype=dtype)

    def step(qkv, do):
        torch.autograd.grad(attend(*qkv, causal), qkv, do)

    step(*tensors(FEW_TOKENS))  # libraries allocate their workspaces
    qkv, do = tensors(case["context"])
    torch.cuda.synchronize()
    at_rest = torch.cuda.memory_allocated()
    record("forward", time(lambda: attend(*qkv, causal)))
    o = attend(*qkv, causal)
    record("backward", time(lambda: torch.autograd.grad(o, qkv, do, retain_graph=True)))
    del o
    record("forward-backward", time(lambda: step(qkv, do)))
    torch.cuda.reset_peak_memory_stats()
    step(qkv, do)
    torch.cuda.synchronize()
    record("peak-memory", [torch.cuda.max_memory_allocated() - at_rest])


def leaderboard(attend, case, time, record):
    """Records the course's test; the same with separate inputs, whose gradients are set to None; and the forward pass."""
    shape, dtype = (case["heads"], case["context"], case["d"]), DTYPES[case["dtype"]]
    q, k, v = torch.randn((3, *shape), device="cuda", dtype=dtype, requires_grad=True)
    record("leaderboard", time(lambda: attend(q, k, v, True).sum().backward()))
    del q, k, v

    qkv = inputs((1, *shape), dtype)

    def both():
        for x in qkv:
            x.grad = None
        attend(*qkv, True).sum().backward()

    record("forward-backward", time(both))
    record("forward", time(lambda: attend(*qkv, True)))


METRICS = {
    flash: ["forward", "backward", "forward-backward", "peak-memory"],
    leaderboard: ["leaderboard", "forward-backward", "forward"],
}


def measure(benchmark, case, time):
    """Returns the measured values of a case by metric, and its status."""
    values = {}
    try:
        name = case["implementation"]
        with torch.autograd.set_multithreading_enabled(not name.endswith(ONE_THREAD)):
            benchmark(attention(name), case, time, values.__setitem__)
        return values, "ok"
    except torch.OutOfMemoryError:
        return values, "oom"
    except RuntimeError as e:
        if "No available kernel" in str(e):  # the backend does not support this size or dtype
            return values, "unsupported"
        print(e)
        return values, "error"


def rows(benchmark, case, values, status, origin):
    return [
        row(case, metric, UNITS.get(metric, "ms"), values.get(metric, []), origin, "ok" if metric in values else status)
        for metric in METRICS[benchmark]
    ]


def numbers(text):
    return [int(number) for number in text.split(",")]


def names(known):
    def parse(text):
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' is unknown; known: {', '.join(known)}")
        return text.split(",")

    return parse


def arguments(line=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    flash_parser, leaderboard_parser = commands.add_parser("flash"), commands.add_parser("leaderboard")
    for command in (flash_parser, leaderboard_parser):
        storage_arguments(command)
        command.add_argument("--attention", type=names(IMPLEMENTATIONS))
        command.add_argument("--d", type=numbers)
    flash_parser.add_argument("--full", action="store_true")
    flash_parser.add_argument("--context", type=numbers)
    flash_parser.add_argument("--dtype", type=names(DTYPES), default=["bf16", "fp32"])
    flash_parser.add_argument("--batch", type=int, default=1)
    flash_parser.add_argument("--heads", type=int, default=1)
    flash_parser.add_argument("--no-mask", action="store_true")
    flash_parser.add_argument("--warmup", type=int, default=25)
    flash_parser.add_argument("--rep", type=int, default=100)
    leaderboard_parser.add_argument("--context", type=numbers, default=[16384])
    leaderboard_parser.add_argument("--heads", type=numbers, default=[16])
    leaderboard_parser.add_argument("--warmup", type=int, default=1000)
    leaderboard_parser.add_argument("--rep", type=int, default=10_000)
    leaderboard_parser.add_argument("--round", type=int, default=1)
    return parser.parse_args(line)


def flash_cases(args):
    widths = args.d or ([16, 32, 64, 128] if args.full else [64])
    contexts = args.context or ([2**power for power in range(7, 17)] if args.full else [128, 256, 512])
    return [
        {
            "batch": args.batch,
            "heads": args.heads,
            "d": d,
            "context": context,
            "dtype": dtype,
            "causal": "false" if args.no_mask else "true",
            "implementation": name,
        }
        for dtype in args.dtype
        for name in args.attention or DEFAULT
        for d in widths
        for context in contexts
    ]


def leaderboard_cases(args):
    return [
        {
            "batch": 1,
            "heads": heads,
            "d": d,
            "context": context,
            "dtype": "bf16",
            "causal": "true",
            "warmup": args.warmup,
            "rep": args.rep,
            "round": args.round,
            "implementation": name,
        }
        for name in args.attention or ["sdpa-flash", "sdpa-cudnn"]
        for heads in args.heads
        for d in args.d or [64]
        for context in args.context
    ]


def main():
    args = arguments()
    require_clean(args)
    import triton

    def time(run):
        return triton.testing.do_bench(run, warmup=args.warmup, rep=args.rep, return_mode="all")

    benchmark, cases = (flash, flash_cases(args)) if args.command == "flash" else (leaderboard, leaderboard_cases(args))
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    origin = provenance()
    for case in cases:
        values, status = measure(benchmark, case, time)
        store(args.csv, rows(benchmark, case, values, status, origin))
        results = [f"{metric} {statistics.median(values[metric]):.5g} {UNITS.get(metric, 'ms')}" for metric in values]
        print(*(f"{key}={value}" for key, value in case.items()), *results, "" if status == "ok" else status, flush=True)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
