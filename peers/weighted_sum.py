"""The PyTorch counterpart of `cs336 weighted-sum`: the same measurements from Python on the same GPU.

usage: python3 peers/weighted_sum.py CSV [--rows 50000] [--hidden 1024,2048,4096,8192] [--dtype fp32,bf16] [--passes 1000]
           [--implementation torch-compile,…] [--synchronize group,each]

CSV is the file that `cs336 weighted-sum` wrote. Rows are added to it under the implementations `pytorch-eager` (a product and
a sum) and `torch-compile` (the same, compiled); rows of the same case are replaced. rows.py describes the protocol.
"""

import torch

import rows


def weighted_sum(x, weight):
    return (x * weight).sum(-1)


def implementations(width):
    return {"pytorch-eager": weighted_sum, "torch-compile": torch.compile(weighted_sum)}


def weight(width, options):
    return (torch.ones(width, **options),)


if __name__ == "__main__":
    rows.main(implementations, weight, tensors=(1, 3))
