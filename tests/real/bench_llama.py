#!/usr/bin/env python3
"""Compare `infer bench` with llama.cpp's llama-bench of the same release: `make bench-llama LLAMA_BENCH=path/to/llama-bench`.

    tests/real/bench_llama.py --llama-bench PATH [--rounds 3] [--depths 0,2048] [MODEL.gguf ...]

Both run the same tests with the same settings, in turn, and print their rows as JSON, which one function here reads. Printed is
the ratio of the medians of all repetitions in tokens per second, ours over theirs; and the share of the roofline that we
reached. Close other programs before: with two cores, anything else that runs decides the figures.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEY = ("model_filename", "n_prompt", "n_gen", "n_depth")


def rows(command):
    """The rows that a program prints, by test."""
    print("$", " ".join(map(str, command)), file=sys.stderr)
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return {tuple(row[key] for key in KEY): row for row in json.loads(text)}


def name(key):
    model, prompt, generated, depth = key
    test = f"pp{prompt}" if prompt else f"tg{generated}"
    return f"{Path(model).stem[:28]:28} {test:6} @ d{depth}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--infer", default=ROOT / "target/release/infer", type=Path)
    parser.add_argument("--llama-bench", required=True, type=Path)
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--repetitions", default=3, type=int)
    parser.add_argument("--depths", default="0,2048")
    parser.add_argument("--prompt", default=512, type=int)
    parser.add_argument("--gen", default=64, type=int)
    parser.add_argument("--threads", default=None, help="default: what infer takes")
    parser.add_argument("models", nargs="*", type=Path)
    args = parser.parse_args()
    models = args.models or sorted((ROOT / "target/models").glob("*.gguf"))
    threads = ["-t", args.threads] if args.threads else []
    common = ["-p", str(args.prompt), "-d", args.depths, "-r", str(args.repetitions), "-o", "json"]
    ours, theirs = {}, {}
    for _ in range(args.rounds):
        for model in models:
            found = rows([args.infer, "bench", model, "-q", "-g", str(args.gen), "-a", "0+0", *common, *threads])
            for key, row in found.items():
                ours.setdefault(key, []).append(row)
            used = str(next(iter(found.values()))["n_threads"])
            settings = ["-n", str(args.gen), "-b", "512", "-ub", "512", "-t", used]
            for key, row in rows([args.llama_bench, "-m", model, *settings, *common]).items():
                theirs.setdefault(key, []).append(row)
    print(f"{'':43} {'ours t/s':>9} {'llama-bench':>11} {'ratio':>6} {'roofline':>9}")
    for key, found in ours.items():
        medians = [statistics.median(ts for row in side for ts in row["samples_ts"]) for side in (found, theirs[key])]
        share = statistics.median(row["roofline_pct"] or 0 for row in found)
        bound = found[-1]["roofline_bound"] or ""
        print(f"{name(key):43} {medians[0]:9.1f} {medians[1]:11.1f} {medians[0] / medians[1]:6.3f} {share:8.0f}% {bound}")


if __name__ == "__main__":
    main()
