"""What `calibrate` does to scores: the calibration error before and after, what it costs in ranking, and F1 at the
threshold that valid chooses.

    python benchmarks/calibrate.py wordnet [DATA ...] [--learners "knn" "parabel" ...]
"""

from __future__ import annotations

import argparse

import longtail
from longtail.metrics import at_threshold, best_threshold, evaluate
from longtail.predictions import CANDIDATES

LEARNERS = ["knn", "centroid", "parabel"]
METHODS = ["", " + calibrate", ' + calibrate(curve="platt")']
MEASURES = ("ECE@1", "ECE@5", "P@1", "P@5", "PSP@1", "PSP@5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--learners", nargs="+", default=LEARNERS)
    options = parser.parse_args()
    columns = [*MEASURES, "threshold", "F1", "macro F1"]
    print(f"| data | recipe | {' | '.join(columns)} |")
    print("| --- | --- " + "| --: " * len(columns) + "|")
    for data in options.data:
        corpus = longtail.load(data, test_share=0.1)
        for recipe in [learner + method for learner in options.learners for method in METHODS]:
            model = longtail.Recipe.parse(recipe).fit(corpus.train, corpus.valid)
            valid, test = (
                model.predict(split.rows, CANDIDATES, split.excluded) for split in (corpus.valid, corpus.test)
            )
            measures = evaluate(test, corpus.test).values
            chosen = at_threshold(test, corpus.test, best_threshold(valid, corpus.valid))
            cells = [f"{measures[name]:.1f}" if name in measures else "" for name in MEASURES]
            cells += [f"{chosen.threshold:.2f}", f"{chosen.f1:.1f}", f"{chosen.macro_f1:.1f}"]
            print(f"| {corpus.name} | `{recipe}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
