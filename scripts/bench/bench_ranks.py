"""Compare training on one and on several GPUs of this machine: bits, time, quality. Example:

  python scripts/bench/bench_ranks.py BONSAI --gpus 2 --steps 7000 --json ranks.json

First checks that 1 and N GPUs give the same PLY with --deterministic (--check-steps, batch 4). Then times runs with the
defaults: one GPU with batches of 1 and N, N GPUs with batches of N, one and N GPUs with batches of 4. Prints seconds of
training, of density control, and of the whole process.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from splat_cli.run.storage.run_dir import RunDir


def train(scene: Path, out: Path, *options: str) -> dict[str, Any]:
    """Train into `out`; returns seconds of training and of the process, held-out scores and the PLY's SHA-256."""
    begin = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "splat_cli",
        "--json",
        "train",
        str(scene),
        "-o",
        str(out),
        "--no-report",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"FAILED {' '.join(options)}:\n{done.stderr[-3000:]}", flush=True)
        return {"error": done.stderr[-3000:]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    (ply,) = sorted(out.glob("point_cloud/*/point_cloud.ply"))[-1:]
    result["sha256"] = hashlib.sha256(ply.read_bytes()).hexdigest()
    result["phases"] = RunDir(out).log.entries()[-1]["phases"]
    result["all_seconds"] = round(time.perf_counter() - begin, 1)
    return result


def check_bits(scene: Path, folder: Path, gpus: int, steps: int, device: str) -> dict[str, str]:
    """SHA-256 of deterministic runs with batch 4 on 1 and on `gpus` GPUs."""
    options = f"--device={device} --deterministic --batch=4 --steps={steps} --save-at= --keep=0".split()
    counts = (1, gpus)
    return {str(n): train(scene, folder / f"bits-{n}", *options, f"--gpus={n}").get("sha256", "") for n in counts}


@click.command()
@click.argument("scene", type=Path)
@click.option("--gpus", default=2)
@click.option("--steps", default=7000)
@click.option("--check-steps", default=500)
@click.option("--seeds", default="0")
@click.option("--device", default="cuda")
@click.option("--options", default="", help="Further options of all timed runs.")
@click.option("--json", "json_path", type=Path)
def main(
    scene: Path, gpus: int, steps: int, check_steps: int, seeds: str, device: str, options: str, json_path: Path | None
) -> None:
    """Print a row for each run, and write all results to --json."""
    found: dict[str, Any] = {"runs": []}
    cases = [(1, 1), (1, gpus), (gpus, gpus), (1, 4), (gpus, 4)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if check_steps:
            found["bits"] = check_bits(scene, folder, gpus, check_steps, device)
            print("same bits" if len(set(found["bits"].values())) == 1 else f"OTHER BITS: {found['bits']}", flush=True)
        print("| GPUs | batch | seed | training s | density s | all s | PSNR | SSIM | splats |\n" + "| --- " * 9 + "|")
        for number, (count, batch) in enumerate(dict.fromkeys(cases)):
            for seed in seeds.split(","):
                given = [f"--device={device}", "--eval", f"--steps={steps}", "--save-at=", "--keep=0", f"--seed={seed}"]
                result = train(
                    scene, folder / f"{number}-{seed}", *given, f"--gpus={count}", f"--batch={batch}", *options.split()
                )
                found["runs"].append({"gpus": count, "batch": batch, "seed": int(seed), **result})
                if "error" in result:
                    continue
                quality = [round(result["psnr"], 2), round(result["ssim"], 4)]
                row = [
                    count,
                    batch,
                    seed,
                    round(result["seconds"], 2),
                    round(result["phases"].get("density control", 0.0), 2),
                    result["all_seconds"],
                    *quality,
                    result["num_splats"],
                ]
                print(f"| {' | '.join(map(str, row))} |", flush=True)
                if json_path:
                    json_path.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
