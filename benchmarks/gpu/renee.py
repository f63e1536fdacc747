"""Claim: one-vs-all classifiers over all labels, trained end to end, win the head, and label rows win the tail too.

    python benchmarks/gpu/renee.py --data FOLDER --encoder FOLDER --part sweep|tables|given|precision
        [--workers 4] [--out DIR] [--warm "ngame(epochs=30)"] [--renee "head_rate=0.02, dropout=0.7"]
        [--try head_rate=0.01,0.02,0.05 dropout=0.6,0.7 ...] [--seeds 3] [--rows N] [--limit SECONDS]

Parts: `sweep` trains `renee` with one setting changed at a time (or with the product of what --try names) and evaluates
on valid only; `tables` trains the recipes of the result tables and evaluates on test; `given` does so with those of
--recipes; `precision` trains in bf16 and in fp32 with several seeds. Workers share the GPU, so minutes are comparable
only with `--workers 1`. Each result is a line of a file in --out, and what is stored there is not done again. The model
of the warm start is trained once and saved there. `+ rerank` needs no training of its own: it is evaluated on the model
that it re-ranks. Prints a table at the end.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.splits import reranked, splits
from shared.tables import MEASURES, append_lines, read_lines
from shared.tables import table as markdown
from shared.timing import gpu_peak, reset_gpu
from shared.workers import worker_pool

AROUND: dict[str, list[Any]] = {  # what the sweep tries, one setting at a time
    "head_rate": [0.002, 0.005, 0.01, 0.05, 0.1],
    "rate": [3e-5, 3e-4],
    "dropout": [0.4, 0.55, 0.8],
    "momentum": [0.9],
    "bias": ["auto", -4.0, "none"],
    "batch": [256, 1024],
    "epochs": [20, 80],
    "head_decay": [0.0, 1e-3],
    "positive": [2.0],
    "begin": ["texts"],
    "decay": ["cosine"],
}
BONUS = ["rows", "glas", "l2tie"]


def written(value: Any) -> str:
    if isinstance(value, str) and value in ("none", "true", "false"):
        return value
    return f'"{value}"' if isinstance(value, str) else repr(value)


def renee(base: dict[str, Any], **changed: Any) -> str:
    return "renee(" + ", ".join(f"{name}={written(value)}" for name, value in {**base, **changed}.items()) + ")"


def settings_of(text: str) -> dict[str, Any]:
    """Settings as a recipe writes them."""
    from longtail.grammar import parse

    return {setting.name: setting.value for setting in parse(f"renee({text})")[0].settings} if text.strip() else {}


def value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def jobs(options: argparse.Namespace) -> list[str]:
    """The recipes of a part."""
    from longtail.catalogue import TAIL_METHODS

    own = settings_of(options.renee)
    cold, warm = {"encoder": options.encoder, **own}, {"warm": str(options.out / "warm"), **own}
    base = warm if options.warm else cold
    if options.part == "sweep":
        if options.tried:
            names, values = zip(*(pair.split("=") for pair in options.tried), strict=True)
            tried = itertools.product(*([value_of(one) for one in some.split(",")] for some in values))
            return [renee(base, **dict(zip(names, chosen, strict=True))) for chosen in tried]
        single = [{name: value} for name, some in AROUND.items() for value in some]
        return [renee(base, validate_every=0, **changed) for changed in ({}, *single)]
    if options.part == "given":
        return [recipe.replace("WARM", str(options.out / "warm")) for recipe in options.recipes]
    if options.part == "precision":
        return [
            renee(base, head_precision=kind, validate_every=0, seed=seed)
            for kind in options.kinds
            for seed in range(options.seeds)
        ]
    methods = [bonus for bonus in BONUS if all(part in TAIL_METHODS for part in bonus.split(" + "))]
    found = ["bonsai(hard_negatives=0, max_iter=8)"] if options.bonsai else []
    found[:0] = [options.warm.replace("ENCODER", options.encoder)] if options.warm else []
    for start in (cold, warm) if options.warm else (cold,):
        found += [renee(start), *(f"{renee(start)} + {bonus}" for bonus in methods)]
    return found


def one(data: str, rows: int | None, recipe: str, on_test: bool, folder: str | None = None) -> list[dict[str, Any]]:
    """Train one recipe, save it where a folder is named, and measure it as it is and re-ranked."""
    import longtail
    from longtail.memory import measure_peak
    from longtail.metrics import evaluate

    train, valid, test = splits(data, rows)
    reset_gpu()
    begun = time.perf_counter()
    try:
        with measure_peak() as peak:
            model = longtail.Recipe.parse(recipe).fit(train, valid)
    except Exception as error:
        return [{"recipe": recipe, "error": f"{type(error).__name__}: {error}"[:500]}]
    seconds = time.perf_counter() - begun
    if folder:
        model.save(folder, overwrite=True)
    gpu = gpu_peak()
    norms = model.row_norms()
    asked = test if on_test else valid
    again = reranked(model)
    lines = []
    for name, measured in ((recipe, model), (f"{recipe} + rerank", again)):
        found = evaluate(measured.predict(asked.rows, 5, asked.excluded), asked)
        line = {"recipe": name, "seconds": seconds, "gib": (gpu or peak.bytes) / 2**30}
        line |= {measure: found[measure] for measure in MEASURES}
        line["bins"] = [
            [part.name, part.low, part.high, part.labels, part.recall, part.coverage] for part in found.bins
        ]
        line["length"] = None if norms is None else float(norms[norms == norms].mean())
        lines.append(line)
    return lines


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All jobs of a part, several at a time; those that were done before are read back."""
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / f"{options.part}.jsonl"
    done = {line["recipe"]: line for line in read_lines(kept) if "error" not in line}
    warm, folder = options.warm.replace("ENCODER", options.encoder), options.out / "warm"
    todo = [recipe for recipe in dict.fromkeys(jobs(options)) if recipe not in done]
    waiting = [] if (folder / "manifest.json").exists() else [recipe for recipe in todo if str(folder) in recipe]
    if waiting and warm not in todo:
        todo.insert(0, warm)
    begun = time.monotonic()
    with worker_pool(options.workers, [options.data], options.rows, [options.encoder]) as pool:

        def start(recipe: str) -> Any:
            place = str(folder) if recipe == warm else None
            return pool.apply_async(one, (options.data, options.rows, recipe, options.part != "sweep", place))

        under = {recipe: start(recipe) for recipe in todo if recipe not in waiting}
        while under or waiting:
            for recipe in [recipe for recipe, answer in under.items() if answer.ready()]:
                for line in under.pop(recipe).get():
                    append_lines(kept, line)
                    done[line["recipe"]] = line
                    print(summary(line, options), flush=True)
                if recipe == warm:
                    under |= {recipe: start(recipe) for recipe in waiting}
                    waiting = []
            if time.monotonic() - begun > options.limit:
                print(f"{len(under) + len(waiting)} of {len(todo)} jobs left when time was up", flush=True)
                break
            time.sleep(0.1)
    wanted = [name for recipe in jobs(options) for name in (recipe, f"{recipe} + rerank")]
    return [done[recipe] for recipe in wanted if "error" not in done.get(recipe, {"error": ""})]


def summary(line: dict[str, Any], options: argparse.Namespace) -> str:
    figures = " ".join(f"{name} {line[name]:.1f}" for name in ("P@1", "P@5", "PSP@1", "C@5") if name in line)
    return f"{short(line['recipe'], options)}: {line.get('error', figures)}  {line.get('seconds', 0):.0f} s"


def short(recipe: str, options: argparse.Namespace) -> str:
    for long, brief in ((str(options.out / "warm"), "WARM"), (options.encoder, Path(options.encoder).name)):
        recipe = recipe.replace(long, brief)
    return recipe


def table(lines: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """Mean over seeds; the sweep's best first."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault(re.sub(r", seed=\d+|seed=\d+, ", "", line["recipe"]), []).append(line)
    rows = list(groups.items())
    if options.part == "sweep":
        rows.sort(key=lambda row: -statistics.mean(line["P@1"] for line in row[1]))
    shown = []
    for recipe, some in rows:
        means = [f"{statistics.mean(line[name] for line in some):.2f}" for name in MEASURES]
        spread = max(line["P@1"] for line in some) - min(line["P@1"] for line in some)
        minutes, gib = (statistics.mean(line[name] for line in some) for name in ("seconds", "gib"))
        length = "" if some[0]["length"] is None else f"{some[0]['length']:.2f}"
        costs = [f"{spread:.2f}", f"{minutes / 60:.2f}", f"{gib:.2f}", length]
        shown.append([f"`{short(recipe, options)}`", len(some), *means, *costs])
    out = [markdown(["recipe", "runs", *MEASURES, "P@1 spread", "min", "GiB", "row norm"], shown)]
    if options.part in ("tables", "given") and lines:
        out += ["", "Recall@5 / coverage@5 by label frequency, most frequent first", ""]
        heads = [f"{name} ({low} to {high} rows)" for name, low, high, *_ in lines[0]["bins"]]
        bins = [
            [f"`{short(line['recipe'], options)}`",
             *(f"{recall:.1f} / {coverage:.1f}" for *_, recall, coverage in line["bins"])]
            for line in lines
        ]  # fmt: skip
        out.append(markdown(["recipe", *heads], bins))
    rows = [row for row in rows if not row[0].endswith("rerank")]
    if options.part == "precision" and len(rows) == len(options.kinds):
        means = [{name: statistics.mean(line[name] for line in some) for name in MEASURES} for _, some in rows]
        for kind, mean in zip(options.kinds[1:], means[1:], strict=True):
            gaps = ", ".join(f"{name} {mean[name] - means[0][name]:+.2f}" for name in MEASURES)
            out += ["", f"{kind} less {options.kinds[0]}: {gaps}"]
    return "\n".join(out)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--data", required=True, help="folder of a data set")
    parser.add_argument("--encoder", default="minilm", help="name or folder")
    parser.add_argument(
        "--part", choices=("sweep", "tables", "given", "precision"), required=True, help="what to train"
    )
    parser.add_argument("--workers", type=int, default=4, help="trainings at a time")
    parser.add_argument("--out", type=Path, default=Path("renee"), help="folder of the results")
    parser.add_argument(
        "--warm",
        default='ngame(encoder="ENCODER", epochs=30, classifiers=false)',
        help='recipe of the warm start; "" for none',
    )
    parser.add_argument("--renee", default="", help="settings of renee in every job")
    parser.add_argument("--try", dest="tried", nargs="*", default=[], help="setting=value,value ...")
    parser.add_argument("--recipes", nargs="*", default=[], help="WARM stands for the folder of the warm start")
    parser.add_argument("--kinds", nargs="+", default=["fp32", "bf16"], help="precisions of the head to compare")
    parser.add_argument("--seeds", type=int, default=3, help="of the part precision")
    parser.add_argument("--rows", type=int, help="only the first rows of each split, to try the script")
    parser.add_argument("--limit", type=float, default=540, help="seconds after which the table is printed as it is")
    parser.add_argument("--no-bonsai", dest="bonsai", action="store_false", help="tables without bonsai")
    options = parser.parse_args()
    lines = run(options)
    print(table(lines, options))


if __name__ == "__main__":
    main()
