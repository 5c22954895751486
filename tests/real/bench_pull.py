#!/usr/bin/env python3
"""Time `infer pull` beside hf_hub_download, curl and aria2c: `make bench-pull`, needs no network.

    tests/real/bench_pull.py [--mb 300,1000] [--runs 3] [--tools infer,hf,curl,aria2c] [--pace capped,uncapped]
                             [--folder FOLDER]

A hub of the tests' own serves a made-up file from another process of this machine, once with 25 MB/s for each connection
and 50 ms before each answer, once as fast as it can. Programs take turns, each run into a fresh folder of the same disk
after everything before it has been written; the row is that of the run with the median time. A program that is not there
is left out.

    wall     seconds from start to end of the process
    share    of 8 connections at full pace
    rss      peak memory in MB (what Python takes here before it starts a program, about 15, is the least that is seen)
    tcp      connections to the CDN, with requests to it and to the hub
    twice    MB that were sent more than once
    tail     seconds from the last byte that the server sent to the end of the process
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVE = "support::hub::selftest::serve_until_killed"
FILE = "big-Q4_K_M.gguf"
RATE = 25_000_000
LATENCY_MS = 50
CONNECTIONS = 8

HF = f"from huggingface_hub import hf_hub_download; hf_hub_download('bench/big', '{FILE}')"
TOOLS = {
    "infer": lambda hub, folder: [ROOT / "target/release/infer", "pull", "-q", "bench/big"],
    "hf": lambda hub, folder: [ROOT / "target/venv/bin/python", "-c", HF],
    "curl": lambda hub, folder: ["curl", "-sSL", "-o", folder / FILE, hub["URL"]],
    "aria2c": lambda hub, folder: [
        "aria2c", "-q", f"-x{CONNECTIONS}", f"-s{CONNECTIONS}", "--file-allocation=none",
        "-d", folder, "-o", FILE, hub["URL"],
    ],
}  # fmt: skip
NAMES = {"infer": "infer pull", "hf": "hf_hub_download", "curl": "curl", "aria2c": f"aria2c -x{CONNECTIONS}"}


def test_binary():
    """The path of the integration tests, which hold the hub."""
    cargo = [os.environ.get("CARGO", "cargo"), "test", "--release", "--locked", "--test", "integration", "--no-run"]
    built = subprocess.run([*cargo, "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    return [m["executable"] for m in messages if m.get("target", {}).get("name") == "integration"][-1]


class Hub:
    """The hub in a process of its own."""

    def __init__(self, binary, mb, rate):
        settings = {"INFER_HUB_MB": str(mb)}
        if rate:
            settings |= {"INFER_HUB_RATE": str(rate), "INFER_HUB_LATENCY_MS": str(LATENCY_MS)}
        command = [binary, "--ignored", "--exact", "--nocapture", SERVE]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=os.environ | settings, **pipes)
        self.about = {}
        while "SHA256" not in self.about:
            line = self.process.stdout.readline()
            if not line:
                sys.exit("bench: the hub does not start")
            name, found, value = line.strip().rpartition(" ")[2].partition("=")
            self.about |= {name: value} if found else {}

    def record(self):
        """What has happened since this was last asked."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        # The test's own frame says now and then that it is still running.
        return json.loads(next(line for line in self.process.stdout if line.startswith("{")))

    def close(self):
        self.process.kill()
        self.process.wait()


def run(tool, hub, folder):
    """One download; what it cost."""
    environment = {
        "PATH": os.environ["PATH"], "HOME": folder, "HF_HOME": folder / "hf", "HF_ENDPOINT": hub.about["HF_ENDPOINT"],
        "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }  # fmt: skip
    command = TOOLS[tool](hub.about, folder)
    hub.record()
    begun = time.time()
    process = subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    ended = time.time()
    process.returncode = os.waitstatus_to_exitcode(status)
    size = int(hub.about["SIZE"])
    if process.returncode or not any(file.stat().st_size == size for file in folder.rglob("*") if file.is_file()):
        sys.exit(f"bench: {NAMES[tool]} failed")
    record = hub.record()
    return {
        "wall": ended - begun,
        "rate": size / 1e6 / (ended - begun),
        "cpu": usage.ru_utime + usage.ru_stime,
        "rss": usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3),
        "tail": ended - record["last_byte"],
        "twice": record["sent_twice"] / 1e6,
        **{name: record[name] for name in ["cdn_connections", "cdn_requests", "hub_requests"]},
    }


def measure(hub, tools, runs, below):
    """The run with the median time of each program."""
    results = {tool: [] for tool in tools}
    for _ in range(runs):
        for tool in tools:
            with tempfile.TemporaryDirectory(dir=below, prefix="bench-") as folder:
                os.sync()
                results[tool].append(run(tool, hub, Path(folder)))
    return {tool: sorted(all, key=lambda one: one["wall"])[len(all) // 2] for tool, all in results.items()}


def is_there(tool):
    if shutil.which(TOOLS[tool]({"URL": ""}, Path())[0]):
        return True
    print(f"bench: no {NAMES[tool]} here, left out", file=sys.stderr)
    return False


def main():
    parser = argparse.ArgumentParser(description="Time `infer pull` beside other programs.")
    listed = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--mb", type=lambda text: [int(mb) for mb in text.split(",")], default=[300, 1000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tools", type=listed, default=list(TOOLS))
    parser.add_argument("--pace", type=listed, default=["capped", "uncapped"])
    parser.add_argument("--folder", type=lambda text: Path(text).resolve(), default=ROOT / "target/tmp")
    args = parser.parse_args()
    tools = [tool for tool in args.tools if is_there(tool)]
    binary = test_binary()
    args.folder.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0
    print(f"{os.cpu_count()} processors, load {load:.1f} before; median of {args.runs}\n")
    print("pace      MB    program          wall s    MB/s  share   cpu s  rss MB  tcp  cdn  hub  twice  tail s")
    for pace in args.pace:
        for mb in args.mb:
            hub = Hub(binary, mb, RATE if pace == "capped" else None)
            try:
                for tool, one in measure(hub, tools, args.runs, args.folder).items():
                    share = f"{one['rate'] * 1e6 / CONNECTIONS / RATE:5.2f}" if pace == "capped" else "    -"
                    print(
                        f"{pace:8}  {mb:<5} {NAMES[tool]:15}  {one['wall']:6.2f}  {one['rate']:6.0f}  {share}"
                        f"  {one['cpu']:6.2f}  {one['rss']:6.0f}  {one['cdn_connections']:3}  {one['cdn_requests']:3}"
                        f"  {one['hub_requests']:3}  {one['twice']:5.1f}  {one['tail']:6.2f}",
                        flush=True,
                    )
            finally:
                hub.close()


if __name__ == "__main__":
    main()
