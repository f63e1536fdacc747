"""Claim: the measures agree with four other tools to 0.01 points wherever the convention is the same.

    python benchmarks/measures_against_peers.py [DATA ...]

DATA is a folder of JSON lines, or 'wordnet'. longtail trains, predicts and evaluates. This script then runs itself
again in a new virtual environment, reads the data and the predictions with plain Python and computes the measures with
napkinXC, xCOLUMNs, scikit-learn and trec_eval. Checked first is a made-up data set with ties, short rankings, rows
without labels, labels that never occur in training and excluded pairs. Prints the largest difference of each measure
and tool. Exits with 1 where one is above 0.01.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import lzma
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shared.command import parser_for
from shared.tables import table

PEERS = ("napkinxc==0.7.2", "xcolumns==0.0.2", "scikit-learn==1.9.1", "pytrec-eval-terrier==0.5.11")
RECIPES, KS = ("centroid", "centroid + rerank", "bm25"), (1, 3, 5)
PLACES, ENOUGH = 20, 0.01  # 20, so that 5 are left where pairs are excluded; points


def lines(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    for path in folder.glob(f"{name}.jsonl*"):
        with {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)(path, "rt", encoding="utf-8") as file:
            yield from map(json.loads, file)


def make_odd(folder: Path) -> None:
    """Every awkward case, and predictions for it in which ties are in order of the label's row."""
    rng = random.Random(0)
    often = [1 / (label + 1) for label in range(300)]
    seen = [weight * (label % 9 > 0) for label, weight in enumerate(often)]  # every ninth: never

    def entry_of(name: str, weights: list[float]) -> dict[str, Any]:
        labels = {str(label) for label in rng.choices(range(300), weights, k=rng.choice((0, 1, 2, 4, 9)))}
        return {"id": name, "text": f"text {name}", "labels": sorted(labels)}

    test, predicted, exclude = [entry_of(f"test {number}", often) for number in range(500)], [], []
    for entry in test:
        guesses = {int(label) for label in entry["labels"] if rng.random() < 0.6}
        guesses.update(rng.choices(range(300), often, k=rng.choice((0, 1, 3, 12))))
        ranked = sorted((-rng.randrange(11) / 10, label) for label in guesses)
        predicted.append({"id": entry["id"], "labels": [{"id": str(one), "score": -minus} for minus, one in ranked]})
        exclude.append({"id": entry["id"], "labels": [str(one) for one in guesses if rng.random() < 0.1]})
    labels = [{"id": str(label), "text": f"label {label}"} for label in range(300)]
    train = [entry_of(f"train {number}", seen) for number in range(900)]
    for name, rows in {"labels": labels, "train": train, "test": test, "odd": predicted, "exclude": exclude}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in rows), "utf-8")


def ask_peers(folder: Path, predicted: Path) -> dict[str, dict[str, float]]:
    """The measures of each tool, in fractions. A name with a star is its value in longtail's convention."""
    import numpy as np
    import pytrec_eval
    from napkinxc import metrics as napkin
    from scipy.sparse import csr_matrix
    from sklearn.metrics import precision_recall_fscore_support as scores
    from xcolumns import metrics as xcolumns

    row_of = {entry["id"]: row for row, entry in enumerate(lines(folder, "labels"))}
    banned = {entry["id"]: set(entry["labels"]) for entry in lines(folder, "exclude")}
    given = {entry["id"]: [one["id"] for one in entry["labels"]] for entry in lines(predicted.parent, predicted.stem)}
    trained = [[row_of[label] for label in entry["labels"]] for entry in lines(folder, "train")]
    truth, ranked = [], []
    for entry in lines(folder, "test"):
        truth.append([row_of[label] for label in entry["labels"]])
        ranked.append([row_of[one] for one in given[entry["id"]] if one not in banned.get(entry["id"], ())])
    number, present = len(row_of), {label for row in truth for label in row}

    def matrix(rows: list[list[int]]) -> Any:
        columns, starts = [label for row in rows for label in sorted(row)], np.cumsum([0, *map(len, rows)])
        return csr_matrix((np.ones(len(columns), np.int64), columns, starts), shape=(len(rows), number))

    computed: dict[str, dict[str, float]] = {tool: {} for tool in ("napkinXC", "xCOLUMNs", "scikit-learn", "trec_eval")}
    words = {"P": "precision", "R": "recall", "nDCG": "ndcg", "C": "coverage"}
    words |= {"macroP": "macro_precision", "macroR": "macro_recall", "macroF1": "macro_f1_measure"}
    found = {name: getattr(napkin, f"{word}_at_k")(truth, ranked) for name, word in words.items()}
    weights = np.ravel(napkin.Jain_et_al_inverse_propensity(matrix(trained)))
    found["PSP"] = napkin.psprecision_at_k(truth, ranked, weights)
    found["PSnDCG"] = napkin.psndcg_at_k(truth, ranked, weights)
    relevant = {str(row): {str(label): 1 for label in labels} for row, labels in enumerate(truth) if labels}
    runs = {str(row): {str(label): -float(place) for place, label in enumerate(top)} for row, top in enumerate(ranked)}
    trec = pytrec_eval.RelevanceEvaluator(relevant, {"P.1,3,5", "recall.1,3,5", "ndcg_cut.1,3,5"}).evaluate(runs)
    true = matrix(truth)
    for k in KS:
        top = matrix([row[:k] for row in ranked])
        last = max(*present, int(top.indices.max()))  # napkinXC's macro means go up to the largest label row it saw
        computed["napkinXC"] |= {f"{name}@{k}": values[k - 1] for name, values in found.items()}
        computed["xCOLUMNs"][f"P@{k}"] = xcolumns.precision_at_k(true, top, k=k)
        computed["xCOLUMNs"][f"C@{k}"] = xcolumns.coverage(true, top)  # over all labels, also those without a positive
        computed["xCOLUMNs"][f"C*@{k}"] = xcolumns.coverage(true, top) * number / len(present)
        calls = (xcolumns.macro_precision, xcolumns.macro_recall, xcolumns.macro_f1_score)
        macro = scores(true, top, average="macro", zero_division=0)[:3]
        for name, call, value in zip(("macroP", "macroR", "macroF1"), calls, macro, strict=True):
            computed["napkinXC"][f"{name}*@{k}"] = found[name][k - 1] * (last + 1) / number
            computed["xCOLUMNs"][f"{name}@{k}"] = call(true, top)  # adds 1e-6 to counts that it has divided by the rows
            computed["xCOLUMNs"][f"{name}*@{k}"] = call(true, top, epsilon=1e-15)
            computed["scikit-learn"][f"{name}@{k}"] = value
        computed["scikit-learn"][f"R@{k}"] = scores(true, top, average="samples", zero_division=0)[1]
        for name, key in (("P", f"P_{k}"), ("R", f"recall_{k}"), ("nDCG", f"ndcg_cut_{k}")):
            computed["trec_eval"][f"{name}@{k}"] = sum(row[key] for row in trec.values()) / len(truth)
    return computed


def run(command: str, *words: object) -> str:
    done = subprocess.run([command, *map(str, words)], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else sys.exit(done.stderr)


def compare(names: list[str], place: Path) -> None:
    python, longtail = str(place / "bin" / "python"), str(Path(sys.executable).with_name("longtail"))
    run(sys.executable, "-m", "venv", place)
    run(python, "-m", "pip", "install", *PEERS)
    make_odd(place)
    package = Path(run(sys.executable, "-c", "import longtail; print(longtail.__path__[0])").strip())
    cases = [(place, place / "odd.jsonl", place / "odd.jsonl")]  # data, what longtail evaluates, the same as a file
    for name, recipe in itertools.product(names, RECIPES):
        folder = package / "data" / "wordnet" if name == "wordnet" else Path(name)
        model = place / f"{folder.name} {recipe}"
        run(longtail, "train", folder, recipe, "--out", model)
        run(longtail, "predict", model, *folder.glob("test.jsonl*"), "-k", PLACES, "--out", f"{model}.jsonl")
        cases.append((folder, model, Path(f"{model}.jsonl")))
    worst: dict[tuple[str, str], float] = {}
    for folder, source, predicted in cases:
        ours = json.loads(run(longtail, "evaluate", source, folder, "--json"))
        for tool, values in json.loads(run(python, __file__, "--ask", folder, predicted)).items():
            for key, value in values.items():
                name, difference = (key.partition("@")[0], tool), abs(100 * value - ours[key.replace("*", "")])
                worst[name] = difference if not difference <= worst.get(name, 0) else worst.get(name, 0)  # NaN stays
    same = {name: worst.get((name[0] + "*", name[1]), value) for name, value in worst.items() if "*" not in name[0]}
    rows = [[*name, f"{worst[name]:.1e}", f"{difference:.1e}"] for name, difference in sorted(same.items())]
    print(table(["measure", "tool", "largest difference", "in longtail's convention"], rows, words=2))
    sys.exit(not all(difference <= ENOUGH for difference in same.values()))


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="*", help="folders of JSON lines, or 'wordnet'")
    parser.add_argument("--ask", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(ask_peers(*options.ask), default=float))
        return
    with tempfile.TemporaryDirectory() as place:
        compare(options.data, Path(place))


if __name__ == "__main__":
    main()
