"""Tables and figures of the results that `lever.py` has stored.

    python benchmarks/gpu/lever_tables.py lever.jsonl [more.jsonl ...] [--figures docs/results]
    python benchmarks/gpu/lever_tables.py --links DATA --teacher FOLDER
    python benchmarks/gpu/lever_tables.py --curves DATA --teacher FOLDER
    python benchmarks/gpu/lever_tables.py --twins DATA [DATA ...]

Prints tables for each part and data set: measures, macro measures, points of P@5 from each frequency bin, the same
models with predictions re-ranked, and the seconds of LEVER. The figures show recall at 5 by frequency decile, one panel
for each data set: lever-deciles.svg of the first learner (plain, with label rows, with LEVER, and the teacher), and
lever-settings.svg of settings of LEVER on it. `--links` prints how often a held-out row that has a label also has the
labels that a saved teacher places nearest to it, which is what soft labels on label texts assume. `--curves` prints how
often the labels nearest to a held-out row are right, by cosine and by the number of rows of the label. `--twins` counts
training rows whose text is that of a label, and how often such a row has the label.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from lever import MACRO, PARTS

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from longtail.drawing.axes import AxisScale, Box, ticks
from longtail.drawing.markup import Safe, tag
from longtail.report.shapes import rules
from shared.command import parser_for
from shared.figures import entry, svg
from shared.figures import line as drawn
from shared.tables import MEASURES, read_lines
from shared.tables import table as markdown

WIDE, HIGH, LINE = 380, 300, 18  # of a panel, and of a line of the legend above them
ESTIMATES = ("cosine", "logistic", "isotonic")
Runs = dict[str, list[dict[str, Any]]]  # by what a table calls them; a run a seed


def runs_of(lines: Sequence[dict[str, Any]], part: str, data: str) -> Runs:
    found: Runs = {}
    for line in lines:
        if line["data"] == data and part in line["parts"]:
            found.setdefault(line["parts"][part], []).append(line)
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["", markdown(head, rows)]


def mean(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.1f}"


def tables(title: str, runs: Runs) -> list[str]:
    seeds = {len(some) for some in runs.values()}
    lines = ["", f"### {title}" + (f" (up to {max(seeds)} seeds)" if seeds != {1} else "")]
    rows = [[f"`{name}`", *(mean([run[each] for run in some]) for each in MEASURES)] for name, some in runs.items()]
    lines += table(["recipe", *MEASURES], rows)
    lines += ["", "On valid, and macro measures on test:"]
    bins = next(iter(runs.values()))[0]["bins"]
    rarest = max(place for place, each in enumerate(bins) if each[0].isdigit())
    place = 4 + rarest  # behind the four brief measures
    brief = ("P@1", "PSP@1", "PSP@5", "C@5")
    rows = [
        [
            f"`{name}`",
            *(mean([run["valid"][each] for run in some]) for each in brief),
            mean([run["valid"]["bins"][rarest][3] for run in some]),
            *(mean([run[each] for run in some]) for each in MACRO),
        ]
        for name, some in runs.items()
    ]
    lines += table(["recipe", *(f"valid {each}" for each in (*brief, "rarest bin")), *MACRO], rows)
    names = [f"{low:,} to {high:,}" if name.isdigit() else name for name, low, high, *_ in bins]
    lines += ["", "Points of P@5 by training rows of a label:"]
    rows = [
        [f"`{name}`", *(mean([run["bins"][place][3] for run in some]) for place in range(len(bins)))]
        for name, some in runs.items()
    ]
    lines += table(["recipe", *names], rows)
    if all("nudged" in some[0] for some in runs.values()):
        lines += ["", "Re-ranked by a power of inverse propensity, with the points of P@5 of the rarest bin:"]
        rows = [
            [f"`{name} + rerank(strength={strength})`",
             *(f"{value:.1f}" for each in (held, seen) for value in (*each[:4], each[place]))]
            for name, some in runs.items() for strength, held, seen in some[0]["nudged"]
        ]  # fmt: skip
        lines += table(["recipe", *(f"valid {each}" for each in (*brief, "rarest")), *brief, "rarest"], rows)
    lines += ["", "Re-ranked:"]
    rows = [
        [f"`{name}`", *(mean([run["reranked"][each] for run in some]) for each in MEASURES)]
        for name, some in runs.items()
    ]
    lines += table(["recipe", *MEASURES], rows)
    taught = {name: some[0]["teaching"] for name, some in runs.items() if some[0].get("teaching")}
    if taught:
        lines += ["", "Seconds, soft labels, and how far relevances are off (ECE in percent):"]
        rows = [
            [f"`{name}`", *(f"{facts['seconds'][each]:.1f}" for each in ("soft labels", "student")),
             f"{facts['entries']:,}", *(f"{facts['ece'].get(each, float('nan')):.1f}" for each in ESTIMATES)]
            for name, facts in taught.items()
        ]  # fmt: skip
        lines += table(["recipe", "soft labels s", "student s", "soft labels", *ESTIMATES], rows)
    for name, facts in taught.items():
        curve = ", ".join(f"{score:.2f}: {100 * rate:.1f}%" for score, rate, _ in facts["curves"]["cosine"])
        lines += ["", f"`{name}`, how many of a valid row's candidates are right by (1 + cosine) / 2: {curve}"]
    for name, some in runs.items():
        lines += [f"- `{name}`: {line}" for line in some[0]["tries"]]
    return lines


def figure(panels: dict[str, Runs], legend: Sequence[str]) -> str:
    """A panel for each data set: recall at 5 by decile, the most frequent labels left."""
    parts = [part for number, name in enumerate(legend) for part in entry(name, 46, LINE * (number + 1), number)]
    above = LINE * (len(legend) + 1)
    for number, (data, runs) in enumerate(panels.items()):
        frame = Box(WIDE * number + 40, above + 26, WIDE * (number + 1) - 16, above + HIGH - 40)
        parts += [tag("text", f"{data}: recall at 5, %", x=frame.left, y=frame.top - 10), *_panel(frame, runs)]
    wide = max(WIDE * len(panels), 58 + 7 * max(map(len, legend)))
    return svg(parts, wide, HIGH + above, "Recall at 5 by frequency decile of the labels")


def _panel(frame: Box, runs: Runs) -> list[Safe]:
    deciles = [place for place, each in enumerate(next(iter(runs.values()))[0]["deciles"]) if each[0].isdigit()]
    values = [
        [statistics.mean(run["deciles"][place][4] for run in some) for place in deciles] for some in runs.values()
    ]
    marks = ticks(0, max(max(some) for some in values))
    across = AxisScale(0, len(deciles) - 1, frame.left + 14, frame.right - 14)
    down = AxisScale(marks[0], marks[-1], frame.bottom, frame.top)
    parts = [rules(marks, down, frame)]
    parts += [
        tag("text", str(place + 1), x=across(place), y=frame.bottom + 16, text_anchor="middle") for place in deciles
    ]
    under = "tenths of the training positives, frequent labels first"
    parts.append(tag("text", under, x=frame.right, y=frame.bottom + 34, text_anchor="end"))
    for number, some in enumerate(values):
        parts.append(drawn([(across(place), down(one)) for place, one in enumerate(some)], number, 3))
    return parts


def figures(lines: Sequence[dict[str, Any]], learner: str, settings: Sequence[str], folder: Path) -> None:
    sets = list(dict.fromkeys(line["data"] for line in lines))
    wanted = [learner, f"{learner} + rows", f"{learner} + lever", "the teacher"]
    for name, shown in (("lever-deciles", wanted), ("lever-settings", list(settings))):
        parts = [part for part in PARTS if part != "main"] + ["main"]  # main last: it has the most seeds
        found = {data: {k: v for part in parts for k, v in runs_of(lines, part, data).items()} for data in sets}
        panels = {
            data: {each: runs[each] for each in shown}
            for data, runs in found.items()
            if shown and set(shown) <= set(runs)
        }
        if panels:
            (folder / f"{name}.svg").write_text(figure(panels, shown) + "\n")


def links(data: str, folder: Path, number: int = 14) -> None:
    """By similarity of two labels: how often valid rows that have the one have the other."""
    import numpy as np

    import longtail
    from longtail.search.soft import index_of, other_labels

    corpus, model = longtail.load(data), longtail.load_model(folder)
    vectors = model.scorer.label_vectors[model.labels.rows(corpus.labels.ids)]  # type: ignore[attr-defined]
    near = other_labels(index_of(vectors, len(vectors), "exact"), vectors, number)
    targets = corpus.valid.targets
    rows = np.repeat(np.arange(targets.shape[0]), np.diff(targets.indptr))
    known = np.sort(rows * np.int64(targets.shape[1]) + targets.indices)
    pairs = rows[:, None] * np.int64(targets.shape[1]) + near.rows[targets.indices]
    right = known[np.minimum(np.searchsorted(known, pairs), len(known) - 1)] == pairs
    similar = (1 + near.cosines[targets.indices]) / 2
    bounds = (0.0, 0.6, 0.7, 0.8, 0.9, 1.01)
    cells = []
    for low, high in pairwise(bounds):
        here = (similar >= low) & (similar < high)
        if not here.any():
            continue
        cells.append([f"{low:g} to {min(high, 1):g}", f"{here.sum():,}", f"{100 * right[here].mean():.1f}%"])
    print("\n".join(table(["(1 + cosine) / 2 of the two labels", "pairs", "the row has both"], cells)))


def curves(data: str, folder: Path, rows: int = 2000, places: int = 100) -> None:
    """By cosine and training rows of the label: how many of the labels nearest to held-out rows are right."""
    import numpy as np

    import longtail
    from longtail.data.subsample import evenly_spaced
    from longtail.predictions import Predictions
    from longtail.search.soft import index_of

    corpus, model = longtail.load(data), longtail.load_model(folder)
    valid = corpus.valid.take(evenly_spaced(len(corpus.valid), rows))
    vectors = model.scorer.label_vectors[model.labels.rows(corpus.labels.ids)]  # type: ignore[attr-defined]
    asked = model.scorer.row_vectors(valid.rows)  # type: ignore[attr-defined]
    near = Predictions(valid.labels, *index_of(vectors, len(valid), "exact").top(asked, places)).without(valid.excluded)
    right, there = near.hits(valid.targets), near.indices >= 0
    counts = np.bincount(corpus.train.targets.indices, minlength=len(corpus.labels))[np.maximum(near.indices, 0)]
    bounds = (-1.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.01)
    cells = []
    for low, high in ((0, 4), (5, 14), (15, 49), (50, 10**9)):
        some = there & (counts >= low) & (counts <= high)
        line = [f"{low} to {high} rows" if high < 10**9 else f"{low} rows and more"]
        for least, most in pairwise(bounds):
            here = some & (near.scores >= least) & (near.scores < most)
            line.append(f"{100 * right[here].mean():.1f}% of {here.sum():,}" if here.any() else "")
        cells.append(line)
    heads = ["below 0.3", *(f"{low:g} to {min(high, 1):g}" for low, high in pairwise(bounds[1:]))]
    print("\n".join(table(["labels with", *heads], cells)))


def twins(data: Sequence[str]) -> None:
    """Training rows that are a label themselves: known from excluded pairs, or from having its text."""
    import numpy as np

    import longtail

    cells = []
    for folder in data:
        corpus = longtail.load(folder)
        train, named = corpus.train, {}
        for label, text in enumerate(corpus.labels.texts):
            named.setdefault(text.strip().lower(), []).append(label)
        texts = train.texts or ()
        pairs = [(row, label) for row, text in enumerate(texts) for label in named.get(text.strip().lower(), ())]
        spans = [set(train.targets.indices[begin:end].tolist()) for begin, end in pairwise(train.targets.indptr)]
        have = sum(label in spans[row] for row, label in pairs)
        excluded = train.excluded
        about = 0 if excluded is None else len(np.unique(excluded.indices))
        cells.append([Path(folder).name, f"{len(train):,}", f"{len(corpus.labels):,}", f"{about:,}", f"{len(pairs):,}",
                      f"{100 * have / len(pairs):.1f}%" if pairs else ""])  # fmt: skip
    heads = ["data", "rows", "labels", "labels with rows that are excluded for them", "rows with a label's very text"]
    print("\n".join(table([*heads, "of them have it"], cells)))


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("kept", nargs="*", type=Path, help="files of lever.py")
    parser.add_argument("--links", metavar="DATA", help="how often linked labels occur together")
    parser.add_argument("--curves", metavar="DATA", help="how often near labels are right")
    parser.add_argument("--twins", nargs="+", metavar="DATA", help="rows with the text of a label")
    parser.add_argument("--teacher", type=Path, help="folder of a saved model, for --links and --curves")
    parser.add_argument("--figures", type=Path, help="folder of the figures")
    parser.add_argument("--learner", default="renee", help="of the figures")
    parser.add_argument("--settings", nargs="*", default=[], help="lines of lever-settings.svg")
    options = parser.parse_args()
    if options.links:
        links(options.links, options.teacher)
        return
    if options.curves:
        curves(options.curves, options.teacher)
        return
    if options.twins:
        twins(options.twins)
        return
    lines = [line for path in options.kept for line in read_lines(path)]
    for part in PARTS:
        for data in dict.fromkeys(line["data"] for line in lines):
            runs = runs_of(lines, part, data)
            if runs:
                print("\n".join(tables(f"{part}, {data}", runs)))
    if options.figures:
        figures(lines, options.learner, options.settings, options.figures)


if __name__ == "__main__":
    main()
