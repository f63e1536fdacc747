"""Claim: unidec reaches the P@1 of renee, whose encoder is trained first, in a quarter of the seconds.

    python benchmarks/gpu/unidec_time.py --data A B --encoder FOLDER --out DIR
        [--rows N] [--limit SECONDS] --warm "A:ngame(epochs=30, classifiers=false)" "B:dpr(epochs=10)"
        --try "unidec(epochs=5)" "A:renee(init_from='WARM', epochs=10)" ...

Nothing else may run on the GPU. Trains one recipe after another without evaluation on valid (`measure_every=0`), so
that the model after the last epoch counts; the time is that of its epochs with everything renewed in them. One epoch of
each learner is trained before and not counted, because it compiles and records kernels. `--warm` is trained in the same
way and saved; where a recipe starts from WARM, the seconds of that training are added to its own. Each result is a line
of a file in --out, and what is stored there is not done again. Prints tables of seconds, memory and of P@1, PSP@1 and
C@5 on test and P@1 on valid of the same trainings; with `--limit 0`, only these.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.splits import splits
from shared.tables import MEASURES, append_lines, read_lines
from shared.tables import table as markdown
from shared.timing import gpu_peak, reset_gpu


def trained(recipe: str, corpus: Any, folder: Path | None) -> dict[str, Any]:
    """Train a recipe once, save it where a folder is named, and measure it."""
    import longtail
    from longtail.metrics import evaluate
    from longtail.nn.training.checkpoint import checkpointing
    from longtail.nn.training.history import History

    train, valid, test = corpus
    reset_gpu()
    with tempfile.TemporaryDirectory() as kept, checkpointing(kept, every_seconds=1e9):
        model = longtail.Recipe.parse(recipe).fit(train, valid)
        lines = [line for place in Path(kept).rglob("history.jsonl") for line in History.read(place.parent).lines]
    if folder is not None:
        model.save(folder, overwrite=True)
    seconds = [line["seconds"] for line in lines]
    found: dict[str, Any] = {
        "seconds": sum(seconds), "epochs": len(lines), "fastest": min(seconds),
        "gib": gpu_peak() / 2**30,
    }  # fmt: skip
    for name, rows in (("test", test), ("valid", valid)):
        figures = evaluate(model.predict(rows.rows, 5, rows.excluded), rows)
        bins = {f"bin {part.name}": part.contribution for part in figures.bins}
        found[name] = {one: figures[one] for one in MEASURES} | bins
    return found


def recipes(options: argparse.Namespace, data: str) -> list[tuple[str, bool]]:
    """Of a data set: each recipe as it is trained, and whether it is the warm start."""
    name, found = Path(data).name, []
    for given, warm in [*((each, True) for each in options.warm), *((each, False) for each in options.tried)]:
        place, recipe = re.findall(r"^(?:(\w+):)?(.*)$", given)[0]
        if place in ("", name):
            begins = "" if "warm=" in recipe else f'encoder="{options.encoder}", '
            recipe = recipe.replace("(", f"({begins}measure_every=0, ", 1)
            found.append((recipe.replace("WARM", str(options.out / f"{name}-warm")), warm))
    return found


def run(options: argparse.Namespace, data: str, until: float) -> list[dict[str, Any]]:
    kept = options.out / f"{Path(data).name}-time.jsonl"
    lines = read_lines(kept)
    corpus = splits(data, options.rows) if options.limit > 0 else None
    compiled = set()
    for recipe, warm in recipes(options, data):
        if any(line["recipe"] == recipe for line in lines) or time.monotonic() > until:
            continue
        kind = recipe.split("(")[0]
        if kind not in compiled:
            compile_by(re.sub(r"epochs=\d+", "epochs=1", recipe), corpus)
            compiled.add(kind)
        folder = options.out / f"{Path(data).name}-warm" if warm else None
        line = {"recipe": recipe, "warm": warm, **trained(recipe, corpus, folder)}
        append_lines(kept, line)
        lines.append(line)
        print(f"{shown(recipe, options)}: {line['seconds']:.1f} s, P@1 {line['test']['P@1']:.2f}", flush=True)
    order = [recipe for recipe, _ in recipes(options, data)]
    return sorted((line for line in lines if line["recipe"] in order), key=lambda line: order.index(line["recipe"]))


def compile_by(recipe: str, corpus: Any) -> None:
    """A training over some rows that is not counted."""
    import longtail

    train, valid, _ = corpus
    longtail.Recipe.parse(recipe).fit(train.take(range(min(len(train), 20_000))), valid.take([]))


def shown(recipe: str, options: argparse.Namespace) -> str:
    name = recipe.replace(f'encoder="{options.encoder}", ', "").replace("measure_every=0, ", "")
    return re.sub(r"warm='[^']*'", "warm=WARM", name)


def table(lines: list[dict[str, Any]], options: argparse.Namespace) -> str:
    before = sum(line["seconds"] for line in lines if line["warm"])
    heads = ["epochs", "s, own", "s, with its warm start", "s an epoch at least", "GiB", "P@1", "PSP@1", "C@5"]
    heads.append("valid: P@1")
    out = []
    for line in lines:
        total = line["seconds"] + (before if "warm=" in line["recipe"] else 0)
        cells = [line["epochs"], line["seconds"], total, line["fastest"], line["gib"]]
        cells += [line["test"][name] for name in ("P@1", "PSP@1", "C@5")] + [line["valid"]["P@1"]]
        shape = [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells]
        out.append([f"`{shown(line['recipe'], options)}`", *shape])
    return markdown(["recipe", *heads], out)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--data", nargs="+", required=True, help="folders of data sets")
    parser.add_argument("--encoder", default="minilm", help="name or folder")
    parser.add_argument("--warm", nargs="+", default=[], help="[NAME:]RECIPE, trained first and saved")
    parser.add_argument("--try", dest="tried", nargs="+", default=[], help="[NAME:]RECIPE")
    parser.add_argument("--rows", type=int, help="only the first rows of each split, to try the script")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no training starts")
    parser.add_argument("--out", type=Path, default=Path("unidec"), help="folder of the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    from longtail.nn.encoders.token_cache import sharing_tokens

    until = time.monotonic() + options.limit
    with sharing_tokens():
        found = {data: run(options, data, until) for data in options.data}
    for data, lines in found.items():
        print(f"\n{Path(data).name}\n\n{table(lines, options)}")


if __name__ == "__main__":
    main()
