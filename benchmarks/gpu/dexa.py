"""Claim: auxiliary vectors that labels share lift a dual encoder at no cost in model size and little in time.

    python benchmarks/gpu/dexa.py DATA [DATA ...] --tables 2 5 6 7 --encoders bag gru FOLDER ... [--seeds 2]
                                  [--workers 4] [--epochs 30] [--rows N] [--kept results.jsonl]

Trains the dual encoders of the paper's tables 2 (baselines), 5 (encoders without and with auxiliary vectors), 6 and
figure 3 (number of vectors, with and without the head's own) and 7 (grouping and its space) on DATA, folders of JSON
lines, each in a process of its own, several at a time on one GPU. Results are kept line by line in a file, and what
stands there is not done again. Prints the tables. Seconds of runs that share a GPU are not comparable; `--workers 1`
times them. Table 0 trains the recipes given by --recipes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MEASURES = [f"{name}@{k}" for name in ("P", "PSP", "C") for k in (1, 3, 5)]
CLUSTERS = (256, 1024, 4096, 8192)


def jobs(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """(table, data, recipe) of everything asked for."""
    found = []
    for data in options.data:
        for seed in range(options.seeds):
            for encoder in options.encoders:
                own = f"encoder='{encoder}', epochs={options.epochs}, seed={seed}"
                main = encoder == options.encoders[-1]
                alone = f"ngame({own}, classifiers=false)"  # the paper's tables are about embeddings
                if "5" in options.tables:
                    found += [("5", data, f"{alone}{more}") for more in ("", " + dexa")]
                    found += [("5", data, f"ngame({own}){more}") for more in ("", " + dexa")]
                if "2" in options.tables and main:
                    found += [("2", data, f"{learner}({own})") for learner in ("dpr", "ance")]
                    found += [("2", data, f"siamesexml(seed={seed})"), ("2", data, f"dpr({own}, rows='labels')")]
                    found += [("2", data, f"ngame({own})"), ("2", data, f"ngame({own}) + dexa")]
                if "6" in options.tables and main:
                    found += [
                        ("6", data, f"{alone} + dexa(clusters={clusters}{head})")
                        for clusters in CLUSTERS
                        for head in ("", ", head=none")
                    ]
                if "7" in options.tables and main:
                    found += [
                        ("7", data, f"{alone} + dexa({how})")
                        for how in ("grouping='kmeans'", "space='rows'", "refresh=5")
                    ]
        if "0" in options.tables:
            found += [("0", data, recipe) for recipe in options.recipes]
    return found


def one(data: str, recipe: str, rows: int | None) -> dict[str, Any]:
    """Train and evaluate a recipe; runs in a process of its own."""
    import tempfile

    import torch

    import longtail
    from longtail.metrics import evaluate

    corpus = longtail.load(data)
    train, valid, test = corpus.train, corpus.valid, corpus.test
    if rows is not None:
        train, valid, test = (part.take(range(min(rows, len(part)))) for part in (train, valid, test))
    made = longtail.Recipe.parse(recipe)
    begin = time.perf_counter()
    model = made.fit(train, valid)
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    found = model.predict(test.rows, 5, test.excluded)
    predicting = time.perf_counter() - begin
    measures = evaluate(found, test)
    chosen_on = evaluate(model.predict(valid.rows, 5, valid.excluded), valid)
    with tempfile.TemporaryDirectory() as folder:
        saved = model.save(Path(folder) / "model")
        size = sum(path.stat().st_size for path in saved.rglob("*") if path.is_file())
    memory = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return {
        "seconds": seconds,
        "predicting": predicting,
        "bytes": size,
        "gpu": memory,
        **{name: measures[name] for name in MEASURES},
        "valid": {name: chosen_on[name] for name in MEASURES},
    }


def run(job: tuple[str, str, str], options: argparse.Namespace) -> None:
    _, data, recipe = job
    command = [sys.executable, __file__, data, "--one", recipe]
    if options.rows is not None:
        command += ["--rows", str(options.rows)]
    threads = str(max((os.cpu_count() or 2) // options.workers, 1))
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "LONGTAIL_THREADS": threads}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        print(f"{recipe} on {Path(data).name} failed: {done.stderr[-1500:]}", file=sys.stderr, flush=True)
        return
    line = {
        "data": Path(data).name,
        "recipe": recipe,
        "workers": options.workers,
        **json.loads(done.stdout.splitlines()[-1]),
    }
    with options.kept.open("a") as file:
        file.write(json.dumps(line) + "\n")
    brief = " ".join(f"{line[name]:.1f}" for name in ("P@1", "P@5", "PSP@1", "PSP@5", "C@5"))
    print(f"{line['data']} {recipe}: {brief}  {line['seconds']:.0f} s", flush=True)


def kept(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {(line["data"], line["recipe"]): line for line in lines}


def without_seed(recipe: str) -> str:
    return re.sub(r"\(seed=\d+\)|(?<=\()seed=\d+, |, seed=\d+", "", recipe)


def tables(options: argparse.Namespace) -> str:
    """Mean over seeds, with the difference between the largest and the smallest P@1."""
    found = kept(options.kept)
    lines = []
    for table in options.tables:
        for data in options.data:
            name = Path(data).name
            rows: dict[str, list[dict[str, Any]]] = {}
            for _, _, recipe in (job for job in jobs(options) if job[0] == table and job[1] == data):
                if (name, recipe) in found:
                    rows.setdefault(without_seed(recipe), []).append(found[name, recipe])
            if not rows:
                continue
            lines += ["", f"Table {table}, {name}", ""]
            lines.append(f"| recipe | seeds | {' | '.join(MEASURES)} | P@1 spread | s | MB | GPU GiB |")
            lines.append("| --- | --: |" + " --: |" * (len(MEASURES) + 4))
            for recipe, runs in rows.items():
                means = [f"{statistics.mean(one[measure] for one in runs):.1f}" for measure in MEASURES]
                spread = max(one["P@1"] for one in runs) - min(one["P@1"] for one in runs)
                seconds, size, memory = (
                    statistics.mean(one[key] for one in runs) for key in ("seconds", "bytes", "gpu")
                )
                lines.append(
                    f"| {recipe} | {len(runs)} | {' | '.join(means)} | {spread:.1f} | {seconds:.0f} | "
                    f"{size / 1e6:.0f} | {memory / 2**30:.1f} |"
                )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--one")
    parser.add_argument("--tables", nargs="+", default=["2", "5", "6", "7"])
    parser.add_argument("--recipes", nargs="*", default=[], help="what table 0 trains")
    parser.add_argument("--encoders", nargs="+", default=["bag"], help="the last one serves tables 2, 6 and 7")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--kept", type=Path, default=Path("dexa.jsonl"))
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no run is begun")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.data[0], options.one, options.rows)))
        return
    begin = time.monotonic()
    before = kept(options.kept)
    todo = dict.fromkeys((data, recipe) for _, data, recipe in jobs(options) if (Path(data).name, recipe) not in before)

    def work(job: tuple[str, str]) -> None:
        if time.monotonic() - begin < options.limit:
            run(("", *job), options)

    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(work, todo))
    print(tables(options))


if __name__ == "__main__":
    main()
