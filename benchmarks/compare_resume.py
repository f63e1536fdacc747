"""Claim: killed at any moment, `compare --seeds 3` goes on to the same table to the digit and trains nothing twice.

    python benchmarks/compare_resume.py [DATA] [--recipes ...] [--kills 10] [--first 0]

Runs the command once without a stop. Then, for ten moments spread over the files that a run writes, it runs the command
until so many are there, kills it with signal 9 a few random milliseconds later, and runs it again to the end; each in a
folder of its own. Without DATA it makes 2,000 documents of random words. Prints for each moment how much was finished
when it was killed, whether all measures, intervals and p-values are equal, and whether a stage was finished twice.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from shared.command import parser_for
from shared.tables import header, row

RECIPES = ["parabel(trees=1)", "parabel(trees=1) + rerank", "parabel(trees=1) + ranknet", "centroid"]
CHANGING = {"train_seconds", "predict_seconds", "peak_bytes", "model_bytes", "shared", "deviations", "runs"}


def start(data: str, recipes: list[str], folder: Path) -> subprocess.Popen[bytes]:
    words = ["compare", data, *recipes, "--seeds", "3", "--checkpoint-dir", str(folder / "run"), "--json"]
    words += ["--report", str(folder / "report.html")]
    return subprocess.Popen(
        [sys.executable, "-m", "longtail", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ
    )


def table(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """What must not change: every figure but times and memory."""
    out = process.communicate()[0]
    if process.returncode:
        raise SystemExit(f"compare ended with {process.returncode}")
    results = json.loads(out)["results"]
    kept = [{key: value for key, value in result.items() if key not in CHANGING} for result in results]
    for one, result in zip(kept, results, strict=True):
        one["runs"] = [{key: value for key, value in run.items() if "@" in key} for run in result["runs"]]
    return kept


def finished(folder: Path) -> tuple[int, int]:
    """Results and stages that are complete."""
    return len(list(folder.glob("run/results/*.safetensors"))), len(list(folder.glob("run/*/stage.json")))


def made(folder: Path, rows: int = 2000, labels: int = 60) -> str:
    """Documents of random words; a label's word stands in the text four times in five."""
    rng = random.Random(0)
    folder.mkdir(parents=True)
    for split, number in (("train", rows), ("test", rows // 4)):
        with (folder / f"{split}.jsonl").open("w") as file:
            for row_number in range(number):
                true = sorted({min(int(rng.paretovariate(0.7)), labels) for _ in range(3)})
                words = [f"word{label}" for label in true if rng.random() < 0.8]
                words += [f"word{rng.randint(1, 3 * labels)}" for _ in range(4)]
                line = {"id": f"{split}{row_number}", "text": " ".join(words), "labels": [f"L{one}" for one in true]}
                file.write(json.dumps(line) + "\n")
    return str(folder)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="?", help="name or folder of a data set")
    parser.add_argument("--recipes", nargs="+", default=RECIPES, help="recipes to compare")
    parser.add_argument("--kills", type=int, default=10, help="moments")
    parser.add_argument("--first", type=int, default=0, help="the moment to begin with, where earlier ones were run")
    options = parser.parse_args()
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as place:
        data = options.data or made(Path(place, "data"))
        wanted = table(start(data, options.recipes, Path(place, "whole")))
        results, stages = finished(Path(place, "whole"))
        print(f"without a stop: {results} results, {stages} stages\n", flush=True)
        print(header(["killed at", "results", "stages", "same table", "trained twice"], words=0), flush=True)
        good = True
        for number in range(options.first, options.kills):
            folder, moment = Path(place, str(number)), (results + stages) * number // options.kills
            process = start(data, options.recipes, folder)
            while sum(finished(folder)) < moment or not (folder / "run" / "comparison.json").exists():
                time.sleep(0.001)
            time.sleep(0.05 * rng.random())
            process.send_signal(signal.SIGKILL)
            process.communicate()
            there = finished(folder)
            same = table(start(data, options.recipes, folder)) == wanted
            log = [json.loads(line)["folder"] for line in (folder / "run" / "trained.jsonl").read_text().splitlines()]
            twice = len(log) - len(set(log))
            good &= same and not twice
            figures = [f"{moment} of {results + stages}", f"{there[0]} of {results}", f"{there[1]} of {stages}"]
            print(row([*figures, "yes" if same else "NO", str(twice)]), flush=True)
        print("\nok" if good else "\nMISSED")


if __name__ == "__main__":
    main()
