"""Writes python-h200.json: two steps of a small network under torch.profiler. Made with PyTorch 2.11 on an H200, then gzipped."""

import torch
from torch.profiler import ProfilerActivity, profile, record_function

network = torch.nn.Sequential(
    torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256), torch.nn.Softmax(-1)
).cuda()
x = torch.randn(64, 256, device="cuda")
for _ in range(3):
    network(x).sum().backward()
activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
with profile(activities=activities, record_shapes=True, profile_memory=True) as profiler:
    for _ in range(2):
        with record_function("forward"):
            loss = network(x).square().sum()
        with record_function("backward"):
            loss.backward()
        profiler.step()
profiler.export_chrome_trace("python-h200.json")
