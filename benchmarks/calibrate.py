"""Claim: `calibrate` turns scores into probabilities and changes the ranking little.

    python benchmarks/calibrate.py wordnet [DATA ...] [--learners "knn" "parabel" ...]

Trains each learner alone and with two kinds of calibration. Prints a table: calibration error (ECE), P and PSP on the
test split, and F1 at the threshold that is best on the valid split.
"""

from __future__ import annotations

import longtail
from shared.command import parser_for
from shared.splits import with_test
from shared.tables import cells, header, row

LEARNERS = ["knn", "centroid", "parabel"]
METHODS = ["", " + calibrate", ' + calibrate(curve="platt")']
MEASURES = ("ECE@1", "ECE@5", "P@1", "P@5", "PSP@1", "PSP@5")


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names or folders of data sets")
    parser.add_argument("--learners", nargs="+", default=LEARNERS, help="recipes without calibration")
    options = parser.parse_args()
    from longtail.metrics import at_threshold, best_threshold, evaluate
    from longtail.predictions import CANDIDATES

    print(header(["data", "recipe", *MEASURES, "threshold", "F1", "macro F1"], words=2))
    for data in options.data:
        corpus = with_test(data)
        for recipe in [learner + method for learner in options.learners for method in METHODS]:
            model = longtail.Recipe.parse(recipe).fit(corpus.train, corpus.valid)
            valid, test = (
                model.predict(split.rows, CANDIDATES, split.excluded) for split in (corpus.valid, corpus.test)
            )
            measures = evaluate(test, corpus.test).values
            chosen = at_threshold(test, corpus.test, best_threshold(valid, corpus.valid))
            figures = [
                *cells(measures, MEASURES),
                f"{chosen.threshold:.2f}",
                f"{chosen.f1:.1f}",
                f"{chosen.macro_f1:.1f}",
            ]
            print(row([corpus.name, f"`{recipe}`", *figures]), flush=True)


if __name__ == "__main__":
    main()
