"""Time of a batch on each rank of a live run: stages, waits for other ranks, kernels, density control.

    python scripts/bench/rank_passes.py BONSAI --gpus 2 --steps 30000

Trains once with the defaults. Stages are timed by events between captured graphs and exchanges, in half of the batches.
The other ranks wait until the last one begins an exchange; the time after that is the transfer. Kernels are timed one
by one in 50 batches without captured graphs. On the CPU, all times are the host's.
"""

from __future__ import annotations

import json
import os
import pickle
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import numpy as np
from rank_recorder import FOLDER, KERNELS_AT, Records, recorder_of

from splat_cli.cli.main import run
from splat_cli.ranks.watch import Followers
from splat_cli.run import ranks as ranks_of_a_run
from splat_cli.run.storage.run_dir import RunDir


def read_records(path: Path) -> Records:
    """All records of a rank."""
    found = Records()
    with path.open("rb") as file:
        while True:
            try:
                part: Records = pickle.load(file)
            except EOFError:
                return found
            found.stages = part.stages
            found.batches.update(part.batches)
            found.kernels.update(part.kernels)
            found.spans += part.spans


def begin_of(stages: list[str], name: str) -> int | None:
    """Number of the stage at which the exchange begins that ends in stage `name`; None if none ends there."""
    what = name.removeprefix("receive ")
    return (
        max(number for number, stage in enumerate(stages) if stage.startswith(f"send {what}")) if what != name else None
    )


def stage_times(records: list[Records], first: int) -> list[dict[str, np.ndarray]]:
    """Microseconds of each rank's stages in all batches from number `first` on that all ranks have timed."""
    numbers = sorted(set.intersection(*(set(one.batches) for one in records)))
    numbers = [number for number in numbers if number >= first]
    marks = np.array([[one.batches[n][1] for n in numbers] for one in records])  # [rank, batch, stage + 1]
    queued = np.array([[one.batches[n][0] for n in numbers] for one in records])
    latest, found, stages = marks.max(axis=0), [], records[0].stages
    for rank in range(len(records)):
        row: dict[str, np.ndarray] = {}
        for number, name in enumerate(stages):
            begin, end = marks[rank, :, number], marks[rank, :, number + 1]
            if (begun := begin_of(stages, name)) is not None:
                row[name + ": wait"] = np.clip(latest[:, begun], begin, end) - begin
                begin = begin + row[name + ": wait"]
            row[name] = end - begin
        row["batch"] = marks[rank, :, -1] - marks[rank, :, 0]
        row["host: batch queued in"] = queued[rank, :, -1] - queued[rank, :, 0]
        late = queued[rank, :, :-1] - marks[rank, :, :-1]  # a stage may begin some time after the previous one
        row["host late, in the stages above"] = np.maximum(late[:, 1:], 0).sum(axis=1)
        follows = np.diff(numbers, prepend=-9) == 1
        gaps = np.where(follows, marks[rank, :, 0] - np.roll(marks[rank, :, -1], 1), 0.0)
        row["between batches, GPU idle"] = np.where(gaps < 3e-3, gaps, 0.0)  # density control takes longer
        found.append({name: 1e6 * values for name, values in row.items()})
    return found


def print_stages(times: list[dict[str, np.ndarray]]) -> None:
    count = len(times[0]["batch"])
    print(
        f"\nStages, us, mean (median, 90 %) of {count} batches\n| stage |", *(f"rank {r} |" for r in range(len(times)))
    )
    print("| --- " * (1 + len(times)) + "|")
    for name in times[0]:
        cells = [
            f"{row[name].mean():.1f} ({np.median(row[name]):.1f}, {np.percentile(row[name], 90):.1f})" for row in times
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    render = np.array([sum(row[name] for name in row if name.startswith(("render", "differ"))) for row in times])
    print(f"rendering: slowest rank of a batch {render.max(axis=0).mean():.1f} us, mean of ranks {render.mean():.1f}")
    exchange = [sum(row[name].mean() for name in row if name.startswith(("send ", "receive "))) for row in times]
    parts = [f"{one / row['batch'].mean():.1%}" for one, row in zip(exchange, times, strict=True)]
    waits = [sum(row[n].mean() for n in row if n.endswith(": wait")) / row["batch"].mean() for row in times]
    idle = [
        sum(row[n].mean() for n in ("between batches, GPU idle", "host late, in the stages above"))
        / (row["batch"].mean() + row["between batches, GPU idle"].mean())
        for row in times
    ]
    print("exchanges, share of a batch:", *parts, " of the batch waiting:", *(f"{one:.1%}" for one in waits))
    print("GPU idle for the host, density control apart:", *(f"{one:.1%}" for one in idle))


def print_kernels(records: list[Records]) -> None:
    print("\nKernels, us of a batch, without graphs (events around each: 2 to 5 us more than in a graph)")
    keys = list(records[0].kernels)
    for stage in records[0].stages:
        if not (rows := [key for key in keys if key[0] == stage]):
            continue
        for key in rows:
            cells = [f"{1e3 * statistics.median(one.kernels[key]):9.1f}" for one in records]
            print(f"{stage:15} {key[1]:28} {' '.join(cells)}")
        sums = [f"{1e3 * sum(statistics.median(one.kernels[key]) for key in rows):9.1f}" for one in records]
        print(f"{stage:15} {'sum':28} {' '.join(sums)}")


def print_spans(records: list[Records], begin: float) -> None:
    print("\nHost: calls, seconds, milliseconds a call (medians); all to the end of what they queue but `steps`")
    for rank, one in enumerate(records):
        spans: dict[str, list[float]] = defaultdict(list)
        for what, start, end in one.spans:
            if start >= begin:
                spans[what].append(end - start)
        for what, seconds in spans.items():
            median = f"{1e3 * statistics.median(seconds):9.3f} ms"
            print(f"rank {rank} {what:30} {len(seconds):6} {sum(seconds):8.3f} s {median}")


@click.command()
@click.argument("scene", type=Path)
@click.option("--gpus", default=2)
@click.option("--batch", type=int, help="By default the number of GPUs.")
@click.option("--steps", default=30000)
@click.option("--device", default="cuda")
@click.option("--options", default="", help="Further options of the run.")
@click.option("--json", "json_path", type=Path, help="File for the means of all stages.")
def main(
    scene: Path, gpus: int, batch: int | None, steps: int, device: str, options: str, json_path: Path | None
) -> None:
    """Train and print tables of the last third of the run."""
    num_batches = steps // (batch := batch or gpus)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {FOLDER: folder, KERNELS_AT: str(num_batches * 4 // 5)}
        recorder = recorder_of(0)
        recorder.install()
        setattr(ranks_of_a_run, "Followers", lambda module, *rest: Followers("rank_recorder", *rest))  # noqa: B010
        out, begin = Path(folder) / "run", time.perf_counter()
        arguments = [f"--gpus={gpus}", f"--batch={batch}", f"--steps={steps}", f"--device={device}", "--no-report"]
        if code := run(["train", str(scene), "-o", str(out), *arguments, "--save-at=", "--keep=0", *options.split()]):
            sys.exit(code)
        recorder.write()
        records = [read_records(Path(folder) / str(rank)) for rank in range(gpus)]
        last: dict[str, Any] = RunDir(out).log.entries()[-1]
    print("\n", {name: last[name] for name in ("seconds", "phases", "num_splats") if name in last})
    times = stage_times(records, num_batches * 2 // 3)
    print_stages(times)
    print_kernels(records)
    print_spans(records, begin)
    if json_path:
        means = [{name: float(values.mean()) for name, values in row.items()} for row in times]
        json_path.write_text(json.dumps({"stages": means, "phases": last["phases"]}, indent=1))


if __name__ == "__main__":
    main()
