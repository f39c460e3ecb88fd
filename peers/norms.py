"""The PyTorch counterpart of `cs336 norms`: the same measurements from Python on the same GPU.

usage: python3 peers/norms.py CSV [--rows 50000] [--hidden 1024,2048,4096,8192] [--dtype fp32,bf16] [--passes 1000]
           [--implementation torch-compile,…] [--synchronize group,each]

CSV is the file that `cs336 norms` wrote. Rows are added to it under the implementations `pytorch-layernorm`,
`pytorch-rms_norm`, `pytorch-eager` (RMSNorm in plain operations) and `torch-compile` (the same, compiled); rows of the same
case are replaced. rows.py describes the protocol.
"""

import torch
import torch.nn.functional as F

import rows

EPS = 1e-5


def rms_norm(x, weight, bias):
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS)
    return (wide * scale * weight).to(x.dtype)


def implementations(width):
    return {
        "pytorch-layernorm": lambda x, w, b: F.layer_norm(x, (width,), w, b, EPS),
        "pytorch-rms_norm": lambda x, w, b: F.rms_norm(x, (width,), w, EPS),
        "pytorch-eager": rms_norm,
        "torch-compile": torch.compile(rms_norm),
    }


def weight_and_bias(width, options):
    return torch.ones(width, **options), torch.zeros(width, **options)


if __name__ == "__main__":
    rows.main(implementations, weight_and_bias, tensors=(2, 5))
