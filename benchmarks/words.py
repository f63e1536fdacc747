"""Claim: forms of words lift learners over words on texts in several languages, and `lexical` finds what they do not.

    python benchmarks/words.py DATA [--rows 10000] [--test-rows 5000] [--samples 1] [--recipes "bm25" ...]

Prints, on the test split, every recipe with the measures and the processor seconds of training and of predicting.
--rows trains on so many documents, evenly spaced over train (0: all), --test-rows measures on so many of test. With
--samples above 1, each recipe is trained on as many samples of train that share no document, and the mean is printed
with the standard deviation between the samples. With --checkpoint FILE, results are stored as lines of a file, and what
is stored is not trained again.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from longtail.data import subsample
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


def sampled(corpus: Any, rows: int, test_rows: int, sample: int, samples: int) -> Any:
    """The corpus with so many documents, the next ones for each sample; counts are those of what is trained on."""
    size = len(corpus.train)
    places = subsample.evenly_spaced(size - samples + 1, rows or size) + sample
    train, test = corpus.train.take(places), evenly_spaced(corpus.test, test_rows)
    labels = corpus.labels.counted(train.targets)
    return replace(corpus, train=train.over(labels), valid=corpus.valid.over(labels), test=test.over(labels))


def shown(lines: list[dict[str, Any]]) -> list[str]:
    """The cells of a recipe: means over the samples, with the standard deviation of the measures."""
    means = {name: statistics.fmean(line[name] for line in lines) for name in [*MEASURES, *SECONDS]}
    found = cells(means, MEASURES)
    if len(lines) > 1:
        spread = cells({name: statistics.stdev(line[name] for line in lines) for name in MEASURES}, MEASURES)
        found = [f"{mean} ± {deviation}" for mean, deviation in zip(found, spread, strict=True)]
    return [*found, *cells(means, SECONDS, 0)]


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", help="name or folder of a data set")
    parser.add_argument("--rows", type=int, default=10_000, help="documents of train; 0: all")
    parser.add_argument("--test-rows", type=int, default=5_000, help="documents of test; 0: all")
    parser.add_argument("--samples", type=int, default=1, help="samples of train, without a document in common")
    parser.add_argument("--recipes", nargs="+", default=RECIPES, help="recipes to measure")
    parser.add_argument("--checkpoint", type=Path, help="file of results, which is gone on with")
    given = parser.parse_args()
    whole = with_test(given.data)
    most = len(whole.train) // given.rows if 0 < given.rows < len(whole.train) else 1
    if not 1 <= given.samples <= most:
        raise SystemExit(f"--samples must be 1 to {most}, so that no document is in two samples, got {given.samples}")
    stored = {
        (line["data"], line["rows"], line["sample"], line["recipe"]): line for line in read_lines(given.checkpoint)
    }
    corpora = [sampled(whole, given.rows, given.test_rows, one, given.samples) for one in range(given.samples)]
    train, test, labels = corpora[0].train, corpora[0].test, corpora[0].labels
    print(f"{whole.name}: {len(train):,} documents of train, {len(test):,} of test, {len(labels):,} labels\n")
    print(header(["recipe", *MEASURES, *SECONDS]))
    for recipe in given.recipes:
        lines = []
        for sample, corpus in enumerate(corpora):
            key = (corpus.name, len(corpus.train), f"{sample + 1} of {given.samples}", recipe)
            if key not in stored:
                given_key = dict(zip(("data", "rows", "sample", "recipe"), key, strict=True))
                stored[key] = {**given_key, **measured(recipe, corpus)}
                if given.checkpoint is not None:
                    append_lines(given.checkpoint, stored[key])
            lines.append(stored[key])
        print(row([f"`{recipe}`", *shown(lines)]), flush=True)


if __name__ == "__main__":
    main()
