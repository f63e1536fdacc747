"""Claim: forms of words lift learners over words on texts in several languages, and `lexical` finds what they do not.

    python benchmarks/words.py DATA [--rows 10000] [--test-rows 5000] [--recipes "bm25" ...] [--checkpoint FILE]

Prints, on the test split, every recipe with the measures and the processor seconds of training and of predicting.
--rows trains on so many documents, evenly spaced over train (0: all), --test-rows measures on so many of test. With
--checkpoint, results are stored as lines of a file, and what is stored is not trained again.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from shared.command import parser_for
from shared.splits import evenly_spaced, with_test
from shared.tables import append_lines, cells, header, read_lines, row

FORMS = ("stem", "lemma", "plain+compounds", "stem+compounds", "stem+chars")
LEARNERS = ("bm25", "parabel", "bonsai")
RECIPES = [one for name in LEARNERS for one in (name, *(f"{name}(words='{form}')" for form in FORMS))]
MEASURES = ["P@1", "P@5", "nDCG@5", "nDCG@20", "PSP@5", "C@5"]
SECONDS = ["train s", "predict s"]


def measured(recipe: str, corpus: Any) -> dict[str, float]:
    """The measures of a recipe, and its processor seconds."""
    import longtail
    from longtail import evaluate

    begin = time.process_time()
    model = longtail.Recipe.parse(recipe).fit(corpus.train, corpus.valid)
    trained = time.process_time()
    found = model.predict(corpus.test.rows, 20, corpus.test.excluded)
    done = time.process_time()
    values = evaluate(found, corpus.test, ks=(1, 3, 5, 20)).values
    return {**{name: values[name] for name in MEASURES}, "train s": trained - begin, "predict s": done - trained}


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", help="name or folder of a data set")
    parser.add_argument("--rows", type=int, default=10_000, help="documents of train; 0: all")
    parser.add_argument("--test-rows", type=int, default=5_000, help="documents of test; 0: all")
    parser.add_argument("--recipes", nargs="+", default=RECIPES, help="recipes to measure")
    parser.add_argument("--checkpoint", type=Path, help="file of results, which is gone on with")
    given = parser.parse_args()
    corpus = with_test(given.data)
    train, test = evenly_spaced(corpus.train, given.rows), evenly_spaced(corpus.test, given.test_rows)
    labels = corpus.labels.counted(train.targets)  # propensities and counts are those of what is trained on
    corpus = replace(corpus, train=train.over(labels), valid=corpus.valid.over(labels), test=test.over(labels))
    stored = {(line["data"], line["rows"], line["recipe"]): line for line in read_lines(given.checkpoint)}
    print(f"{corpus.name}: {len(train):,} documents of train, {len(test):,} of test, {len(labels):,} labels\n")
    print(header(["recipe", *MEASURES, *SECONDS]))
    for recipe in given.recipes:
        key = (corpus.name, len(train), recipe)
        if key not in stored:
            line = {"data": corpus.name, "rows": len(train), "recipe": recipe, **measured(recipe, corpus)}
            stored[key] = line
            if given.checkpoint is not None:
                append_lines(given.checkpoint, line)
        print(row([f"`{recipe}`", *cells(stored[key], MEASURES), *cells(stored[key], SECONDS, 0)]), flush=True)


if __name__ == "__main__":
    main()
