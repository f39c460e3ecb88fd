"""Measurements in the format of cs336: a tidy CSV with one row per case and metric, including its provenance.

Every peer has the options that `storage_arguments` adds and calls `require_clean` before it measures.
"""

import csv
import datetime
import os
import platform
import statistics
import subprocess
import time

import torch


LATER_COLUMNS = ["host", "load"]  # at the end; older files do not have them
RESULT_COLUMNS = [
    "metric", "unit", "n", "mean", "std", "median", "min", "max", "status", "device", "versions", "commit", "date",
]


def storage_arguments(parser):
    """Adds the arguments that all peers share."""
    parser.add_argument("csv")
    parser.add_argument("--allow-dirty", action="store_true", help="measure although files differ from the commit")


def require_clean(args, device="cuda"):
    """Ends the program if measurements on a GPU could not be repeated, because files differ from the commit."""
    if device == "cuda" and commit().endswith("+dirty") and not args.allow_dirty:
        raise SystemExit(
            f"files differ from the commit ({commit()}), so measurements on a GPU could not be repeated: commit the"
            " changes or give --allow-dirty"
        )


def await_turn():
    """Waits for this process's turn, as cs336.compile.Turns does."""
    beginning = os.environ.get("CS336_TURNS")
    if beginning:
        open(beginning + ".waits", "w").close()
        while not os.path.exists(beginning + ".turn"):
            time.sleep(0.005)
        os.remove(beginning + ".turn")


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def commit():
    """Returns the commit as cs336.bench.Provenance does."""
    given = os.environ.get("CS336_COMMIT", "").strip()
    head = output_of("git", "rev-parse", "--short=10", "HEAD")
    if given or not head:
        return given or "unknown"
    changed = output_of("git", "status", "--porcelain", "--", ":/", ":(top,exclude)data", ":(top,exclude)figures")
    return head + ("+dirty" if changed else "")


def provenance(device="cuda", count=1):
    """Returns the provenance columns, named as in cs336.bench.Provenance, except those that `row` adds."""
    versions = f"pytorch {torch.__version__}; python {platform.python_version()}"
    if device == "cuda":
        name = (f"{count} × " if count > 1 else "") + torch.cuda.get_device_name()
        driver = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines()[0]
        versions += f"; driver {driver}"
    with open("/proc/cpuinfo") as info:
        host = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "CPU")
    host += f" ({os.cpu_count()} cores)"
    return {"device": name if device == "cuda" else host, "versions": versions, "commit": commit(), "host": host}


def number(value):
    return format(value, ".9g") if isinstance(value, float) else str(value)


def row(case, metric, unit, values, origin, status="ok"):
    """Returns a row with the current date and load average.

    `case` contains the parameters and the implementation; without values only the status is stored.
    """
    numbers = {
        "n": len(values),
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else "",
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
    } if values else {}
    cells = {key: number(value) for key, value in numbers.items()}
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    load = format(os.getloadavg()[0], ".2f")
    return {**case, "metric": metric, "unit": unit, "status": status, **cells, **origin, "date": date, "load": load}


def store(path, new_rows):
    """Adds rows to a file that cs336 wrote, or to a new one, and replaces earlier rows of the same cases."""
    if os.path.exists(path):
        with open(path, newline="") as file:
            reader = csv.DictReader(file)
            header, old = list(reader.fieldnames), list(reader)
    else:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        columns = list(new_rows[0])
        header, old = columns[: columns.index("metric")] + RESULT_COLUMNS, []
    header += [column for column in LATER_COLUMNS if column not in header]
    identity = header[: header.index("implementation") + 1]
    key = lambda r: tuple(str(r.get(column, "")) for column in identity)
    replaced = {key(r) for r in new_rows}
    with open(path + ".new", "w", newline="") as file:
        writer = csv.DictWriter(file, header, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows([r for r in old if key(r) not in replaced] + new_rows)
    os.replace(path + ".new", path)
