"""Claim: auxiliary vectors that labels share lift a dual encoder at no cost in model size and little in time.

    python benchmarks/gpu/dexa.py DATA [DATA ...] --tables 2 5 6 7 8 --encoders bag gru FOLDER ... [--seeds 2]
        [--workers 4] [--epochs 30] [--rows N] [--kept results.jsonl] [--figure K.svg]

Trains the dual encoders of the paper's tables 2 (baselines), 5 (encoders without and with auxiliary vectors), 6 and
figure 3 (number of vectors, with and without own vectors of the head) and 7 (how labels are clustered) on DATA, folders
of JSON lines, several at a time on one GPU. Table 0 trains the recipes of --recipes. Each result is a line of --kept,
and what is stored there is not done again. Prints the tables. Seconds of runs that share a GPU are not comparable, so
table 8 trains without and with the vectors in turns, in one process that has the GPU to itself, and compares the best
of each. With --examples the predictions for some test rows are stored, and the rows where only one recipe of a pair is
right are printed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.splits import splits
from shared.tables import MEASURES, append_lines, header, read_lines, row, table
from shared.timing import gpu_peak, reset_gpu
from shared.workers import worker_pool

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
                    found += [("2", data, f"siamesexml(seed={seed})"), ("2", data, f"dpr({own}, anchors='labels')")]
                    found += [("2", data, "bm25")] if seed == 0 else []
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


def one(data: str, recipe: str, rows: int | None, examples: int) -> dict[str, Any]:
    """Train and evaluate a recipe."""
    import longtail
    from longtail.metrics import evaluate

    train, valid, test = splits(data, rows)
    made = longtail.Recipe.parse(recipe)
    reset_gpu()
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
    return {
        "seconds": seconds,
        "predicting": predicting,
        "bytes": size,
        "gpu": gpu_peak(),
        **{name: measures[name] for name in MEASURES},
        "valid": {name: chosen_on[name] for name in MEASURES},
        "examples": predicted(found, test, examples),
    }


def predicted(found: Any, test: Any, number: int) -> list[dict[str, Any]]:
    """The predictions for some test rows, the same rows for all recipes."""
    rows = np.sort(np.random.default_rng(0).permutation(len(test))[:number])
    labels, targets = test.labels, test.targets
    return [
        {
            "text": test.texts[row],
            "right": [labels.word(label) for label in targets.indices[targets.indptr[row] : targets.indptr[row + 1]]],
            "said": [labels.word(label) for label in found.indices[row].tolist() if label >= 0],
        }
        for row in rows.tolist()
    ]


def overhead(data: str, recipe: str, rows: int | None, times: int = 2) -> dict[str, Any]:
    """Seconds of training and bytes of the model without and with auxiliary vectors, in turns. Texts are tokenised
    once for all trainings, because that time is the same for both and varies from run to run."""
    import longtail
    from longtail.nn.encoders.token_cache import sharing_tokens

    train, valid, _ = splits(data, rows)
    seconds: dict[str, list[float]] = {"": [], " + dexa": []}
    sizes = {}
    with sharing_tokens():
        for more in seconds:
            longtail.Recipe.parse(re.sub(r"epochs=\d+", "epochs=1", recipe) + more).fit(
                train, valid
            )  # compile, allocate
        for _ in range(times):
            for more, taken in seconds.items():
                begin = time.perf_counter()
                model = longtail.Recipe.parse(recipe + more).fit(train, valid)
                taken.append(time.perf_counter() - begin)
                print(f"{recipe}{more}: {taken[-1]:.2f} s", flush=True)
                with tempfile.TemporaryDirectory() as folder:
                    saved = model.save(Path(folder) / "model")
                    sizes[more] = sum(path.stat().st_size for path in saved.rglob("*.safetensors"))
    return {"without": seconds[""], "with": seconds[" + dexa"], "bytes": [sizes[""], sizes[" + dexa"]]}


def work(until: float, job: tuple[str, str], options: argparse.Namespace) -> dict[str, Any] | None:
    """A run in a worker; none where no time is left to start one."""
    if time.monotonic() > until:
        return None
    data, recipe = job
    line = {"data": Path(data).name, "recipe": recipe, "workers": options.workers}
    try:
        return line | one(data, recipe, options.rows, options.examples)
    except Exception as error:  # one run that fails must not take the others with it
        return line | {"error": f"{type(error).__name__}: {error}"[:1500]}


def run(todo: list[tuple[str, str]], options: argparse.Namespace) -> None:
    until = time.monotonic() + options.limit
    with worker_pool(options.workers, options.data, options.rows, options.encoders) as pool:
        for line in pool.imap_unordered(partial(work, until, options=options), todo):
            if line is None or "error" in line:
                print("no time was left" if line is None else f"{line['recipe']}: {line['error']}", flush=True)
                continue
            append_lines(options.kept, line)
            brief = " ".join(f"{line[name]:.1f}" for name in ("P@1", "P@5", "PSP@1", "PSP@5", "C@5"))
            print(f"{line['data']} {line['recipe']}: {brief}  {line['seconds']:.0f} s", flush=True)


def kept(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(line["data"], line["recipe"]): line for line in read_lines(path)}


def overheads(options: argparse.Namespace) -> str:
    """Table 8: each pair with the GPU to itself."""
    rows = []
    for data in options.data:
        for encoder in options.encoders:
            recipe = f"ngame(encoder='{encoder}', epochs={options.epochs}, classifiers=false)"
            found = overhead(data, recipe, options.rows)
            bare, moved = min(found["without"]), min(found["with"])
            sizes = [f"{size:,}" for size in found["bytes"]]
            rows.append([Path(data).name, recipe, f"{bare:.1f}", f"{moved:.1f}", f"{moved / bare - 1:+.1%}", *sizes])
    columns = ["data", "recipe", "s without", "s with", "more", "bytes without", "bytes with"]
    return f"\nTable 8: the best of several trainings in turns\n\n{table(columns, rows, words=2)}"


def examples(options: argparse.Namespace, shown: int = 3) -> str:
    """Rows for which only one of a recipe and the same with dexa has a label right that the other lacks: how many, and
    the first few of each kind."""
    found = kept(options.kept)
    lines = []
    for (data, recipe), bare in found.items():
        moved = found.get((data, f"{recipe} + dexa"))
        if moved is None or not bare.get("examples") or not moved.get("examples"):
            continue
        pairs = list(zip(bare["examples"], moved["examples"], strict=True))
        hits = [[set(row["said"]) & set(row["right"]) for row in pair] for pair in pairs]
        gained = [pair for pair, (less, more) in zip(pairs, hits, strict=True) if more - less and not less - more]
        lost = [pair for pair, (less, more) in zip(pairs, hits, strict=True) if less - more and not more - less]
        lines += ["", f"{data}, {recipe}: of {len(pairs)} rows, dexa has more right in {len(gained)}, ", ""]
        lines[-2] += f"less in {len(lost)}"
        shown_rows = []
        for one_row, other in gained[:shown] + lost[:shown]:
            cells = [
                one_row["text"][:80],
                *(", ".join(row) for row in (one_row["right"], one_row["said"], other["said"])),
            ]
            shown_rows.append([cell.replace("|", "/").replace("\n", " ") for cell in cells])
        lines.append(table(["text", "right", "without", "with"], shown_rows, words=4))
    return "\n".join(lines)


def figure(options: argparse.Namespace) -> str:
    """Figure 3: P@1 against the number of shared vectors, with and without the head's own, as SVG; of the first
    data set."""
    from longtail.drawing.axes import AxisScale, ticks
    from longtail.drawing.markup import tag

    wide, high, colours = 520, 320, ("#1f6fb2", "#c4521b")
    points: dict[str, list[tuple[int, float]]] = {"with the head's own": [], "without": []}
    for (data, recipe), line in kept(options.kept).items():
        if data == Path(options.data[0]).name and (
            match := re.search(r"classifiers=false\) \+ dexa\(clusters=(\d+)(, head=none)?\)$", recipe)
        ):
            points["without" if match[2] else "with the head's own"].append((int(match[1]), line["P@1"]))
    values = [value for line in points.values() for _, value in line]
    marks = ticks(min(values), max(values))
    across = AxisScale(np.log2(min(CLUSTERS)), np.log2(max(CLUSTERS)), 60, wide - 30)
    down = AxisScale(marks[0], marks[-1], high - 50, 40)
    parts = [tag("text", "P@1", x=20, y=24), tag("text", "shared vectors", x=wide - 30, y=high - 10, text_anchor="end")]
    for mark in marks:
        parts.append(tag("path", d=f"M60 {down(mark):.1f}H{wide - 30}", stroke="#ddd"))
        parts.append(tag("text", f"{mark:g}", x=52, y=round(down(mark) + 4, 1), text_anchor="end"))
    parts += [
        tag("text", f"{number:,}", x=round(across(np.log2(number)), 1), y=high - 30, text_anchor="middle")
        for number in CLUSTERS
    ]
    for place, (name, line) in enumerate(points.items()):
        spots = [(across(np.log2(number)), down(value)) for number, value in sorted(line)]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in spots)
        parts.append(tag("path", d=path, stroke=colours[place], stroke_width=2, fill="none"))
        parts += [tag("circle", cx=round(x, 1), cy=round(y, 1), r=4, fill=colours[place]) for x, y in spots]
        parts.append(tag("text", name, x=120 + 160 * place, y=24, fill=colours[place]))
    title = tag("title", "P@1 against the number of shared vectors")
    return str(
        tag(
            "svg", title, *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {wide} {high}", width=wide,
            height=high, style="background:#fff;font:12px system-ui,sans-serif",
        )
    )  # fmt: skip


def without_seed(recipe: str) -> str:
    return re.sub(r"\(seed=\d+\)|(?<=\()seed=\d+, |, seed=\d+", "", recipe)


def tables(options: argparse.Namespace) -> str:
    """Mean over seeds, with the difference between the largest and the smallest P@1."""
    found = kept(options.kept)
    lines = []
    for number in options.tables:
        for data in options.data:
            name = Path(data).name
            rows: dict[str, list[dict[str, Any]]] = {}
            for _, _, recipe in (job for job in jobs(options) if job[0] == number and job[1] == data):
                if (name, recipe) in found:
                    rows.setdefault(without_seed(recipe), []).append(found[name, recipe])
            if not rows:
                continue
            lines += ["", f"Table {number}, {name}", ""]
            lines += [header(["recipe", "seeds", *MEASURES, "P@1 spread", "s", "MB", "GPU GiB"])]
            for recipe, runs in rows.items():
                means = [f"{statistics.mean(one[measure] for one in runs):.1f}" for measure in MEASURES]
                spread = max(one["P@1"] for one in runs) - min(one["P@1"] for one in runs)
                seconds, size, memory = (
                    statistics.mean(one[key] for one in runs) for key in ("seconds", "bytes", "gpu")
                )
                costs = [f"{seconds:.0f}", f"{size / 1e6:.0f}", f"{memory / 2**30:.1f}"]
                lines.append(row([recipe, len(runs), *means, f"{spread:.1f}", *costs]))
    return "\n".join(lines)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="folders of data sets")
    parser.add_argument("--tables", nargs="+", default=["2", "5", "6", "7"], help="of the paper; 0: --recipes")
    parser.add_argument("--recipes", nargs="*", default=[], help="recipes of table 0")
    parser.add_argument("--encoders", nargs="+", default=["bag"], help="the last one serves tables 2, 6 and 7")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each recipe")
    parser.add_argument("--workers", type=int, default=4, help="trainings at a time")
    parser.add_argument("--epochs", type=int, default=30, help="of each training")
    parser.add_argument("--rows", type=int, help="only the first rows of each split, to try the script")
    parser.add_argument("--kept", type=Path, default=Path("dexa.jsonl"), help="file of the results")
    parser.add_argument("--examples", type=int, default=0, help="test rows whose predictions are stored")
    parser.add_argument("--figure", type=Path, help="draw figure 3 from the stored results to this file")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no run starts")
    options = parser.parse_args()
    before = kept(options.kept)
    todo = dict.fromkeys((data, recipe) for _, data, recipe in jobs(options) if (Path(data).name, recipe) not in before)
    if todo:
        run(list(todo), options)
    print(tables(options))
    print(examples(options))
    if "8" in options.tables:
        print(overheads(options))
    if options.figure:
        options.figure.write_text(figure(options) + "\n", "utf-8")


if __name__ == "__main__":
    main()
