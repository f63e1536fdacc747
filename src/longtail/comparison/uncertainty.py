"""How sure a comparison is: intervals, differences to the first recipe, and measures on clean documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from longtail.arrays import Bools
from longtail.data.corpus import Corpus
from longtail.inspection import Concern, concerns
from longtail.metrics.generalised import evaluate_split
from longtail.metrics.measures import Measures
from longtail.metrics.significance import significance
from longtail.predictions import Predictions
from longtail.progress import stage
from longtail.report.result import Result, mean_measures
from longtail.search.blas_threads import single_threaded_blas

CLEAN_FROM = 0.01  # measures on clean documents are added where more than this share has a problem


def judged(results: Sequence[Result], corpus: Corpus, ks: Sequence[int] = (1, 3, 5)) -> list[Result]:
    """Add what follows from all results together.

    Args:
        results: one a recipe; the others are compared with the first.
        corpus: the data that they were measured on.
        ks: the k of the measures.

    Returns:
        The results with intervals, differences to the first, and measures on clean documents where needed.
    """
    if not results:
        return []
    clean = clean_rows(corpus, concerns(corpus))
    with stage("resampling"), single_threaded_blas():  # small products: threads would wait for each other
        sure = significance([result.all_predictions for result in results], corpus.test, ks)
    return [
        replace(
            result,
            intervals=intervals,
            against_first=differences,
            clean=None if clean is None else _measured_on(result, corpus, clean, ks),
        )
        for result, intervals, differences in zip(results, sure.intervals, sure.differences, strict=True)
    ]


def clean_rows(corpus: Corpus, found: Sequence[Concern]) -> Bools | None:
    """Choose the documents without a problem.

    Args:
        corpus: the data.
        found: problems of its test rows.

    Returns:
        (test rows,) the clean ones; None where at most 1% have a problem, or none would be left.
    """
    touched = np.zeros(len(corpus.test), dtype=np.bool_)
    for concern in found:
        touched |= concern.rows
    share = touched.mean() if len(touched) else 0.0
    return None if share <= CLEAN_FROM or share == 1 else ~touched


def _measured_on(result: Result, corpus: Corpus, rows: Bools, ks: Sequence[int]) -> Measures:
    data = corpus.test.take(rows)
    taken = (Predictions(one.labels, one.indices[rows], one.scores[rows]) for one in result.all_predictions)
    return mean_measures([evaluate_split(one, data, ks, corpus.held_out_labels) for one in taken])
