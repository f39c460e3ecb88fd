"""Measurements in the format of cs336: a tidy CSV with one row per case and metric, including its provenance."""

import csv
import datetime
import os
import platform
import statistics
import subprocess

import torch


def provenance(device="cuda", count=1):
    """Returns the provenance columns, named as in cs336.bench.Provenance."""

    def output_of(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return ""

    versions = f"pytorch {torch.__version__}; python {platform.python_version()}"
    if device == "cuda":
        name = (f"{count} × " if count > 1 else "") + torch.cuda.get_device_name()
        driver = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines()[0]
        versions += f"; driver {driver}"
    else:
        with open("/proc/cpuinfo") as info:
            name = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "CPU")
        name += f" ({os.cpu_count()} cores)"
    return {
        "device": name,
        "versions": versions,
        "commit": os.environ.get("CS336_COMMIT") or output_of("git", "rev-parse", "--short=10", "HEAD") or "unknown",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def number(value):
    return format(value, ".9g") if isinstance(value, float) else str(value)


def row(case, metric, unit, values, origin, status="ok"):
    """Returns a row. `case` contains the parameters and the implementation; without values only the status is stored."""
    numbers = {
        "n": len(values),
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else "",
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
    } if values else {}
    cells = {key: number(value) for key, value in numbers.items()}
    return {**case, "metric": metric, "unit": unit, "status": status, **cells, **origin}


def store(path, new_rows):
    """Adds rows to a file that cs336 wrote and replaces earlier rows of the same cases."""
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        header, old = reader.fieldnames, list(reader)
    identity = header[: header.index("implementation") + 1]
    key = lambda r: tuple(str(r.get(column, "")) for column in identity)
    replaced = {key(r) for r in new_rows}
    with open(path + ".new", "w", newline="") as file:
        writer = csv.DictWriter(file, header, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows([r for r in old if key(r) not in replaced] + new_rows)
    os.replace(path + ".new", path)
