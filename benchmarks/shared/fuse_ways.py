"""Other ways to combine the answers of members: means, reciprocal ranks, linear models over their numbers, and one
member for frequent and one for rare labels.

Each takes the members' answers for valid and test, learns on valid alone, and returns labels and scores for test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OFFSET = 60.0  # of reciprocal rank fusion, as in its paper
SHRINK = 10.0  # examples that the weights of all labels count for in those of one label
WEIGHTS = (0.0, 0.25, 0.5, 2.0, 4.0)  # factors that are tried for each member's weight, twice in turn
KEPT = 100  # labels of a row

Ranking = tuple[Any, Any]


def ranked_candidates(candidates: Any, scores: Any) -> Ranking:
    """The best candidates of each row, as (rows, places)."""
    import numpy as np

    from longtail.linear.fusion.fuse_scorer import best_candidates

    return best_candidates(candidates, np.maximum(scores, 1e-9).astype(np.float32), KEPT)


def right_of(candidates: Any, data: Any) -> Any:
    """(candidates,) whether each is right."""
    from longtail.linear.fusion.combiner import _held

    return _held(candidates, data.targets)


def ways(
    valid_answers: Any, test_answers: Any, valid: Any, test: Any, places: int, judge: Callable[[Ranking], float]
) -> Any:
    """Name and ranking of the test rows by each way.

    Args:
        valid_answers: labels and scores of each member for valid.
        test_answers: and for test.
        valid: the split to learn on.
        test: its rows; what is right in them is not looked at.
        places: labels that a member names at most.
        judge: how good a ranking of valid is.

    Yields:
        Name, and labels and scores (rows, places).
    """
    import numpy as np

    from longtail.linear.fusion.candidate_numbers import member_numbers
    from longtail.linear.fusion.candidates import CandidateLists
    from longtail.linear.solvers.logistic import newton_logistic

    held, asked = CandidateLists.joined(valid_answers), CandidateLists.joined(test_answers)
    shares = [found.scores / found.best[found.rows] for found in (held, asked)]
    members = shares[0].shape[1]
    yield "mean", ranked_candidates(asked, shares[1].mean(axis=1))
    yield (
        "reciprocal rank fusion",
        ranked_candidates(asked, np.where(asked.places >= 0, 1 / (OFFSET + asked.places + 1), 0).sum(axis=1)),
    )
    weights, best = np.ones(members), judge(ranked_candidates(held, shares[0].mean(axis=1)))
    for member in [*range(members)] * 2:
        for factor in WEIGHTS:
            tried = weights.copy()
            tried[member] *= factor
            value = judge(ranked_candidates(held, shares[0] @ tried / members))
            if value > best:
                best, weights = value, tried
    yield "best weighted mean", ranked_candidates(asked, shares[1] @ weights / members)
    right = right_of(held, valid).astype(np.float64)
    inputs, outputs = (
        np.concatenate([member_numbers(found, places)[0], np.ones((len(found.labels), 1))], axis=1).astype(np.float64)
        for found in (held, asked)
    )
    fitted = newton_logistic(inputs, right)
    yield "logistic model", ranked_candidates(asked, 1 / (1 + np.exp(-np.clip(outputs @ fitted, -30, 30))))
    inputs, outputs = (np.concatenate([found, np.ones((len(found), 1))], axis=1) for found in shares)
    own = _label_weights(inputs, right, held.labels, len(valid.labels))
    yield "linear model a label", ranked_candidates(asked, np.einsum("ij,ij->i", outputs, own[asked.labels]))
    yield "ensemble", _ensemble(valid_answers, test_answers, valid, test, judge)


def _ensemble(
    valid_answers: Any, test_answers: Any, valid: Any, test: Any, judge: Callable[[Ranking], float]
) -> Ranking:
    """As `ensemble` joins two models: the pair of members for frequent and for rare labels that is best on valid."""
    from dataclasses import replace
    from itertools import permutations

    import numpy as np

    from longtail.tail.ensemble import Ensemble, EnsembleLearner, EnsembleScorer

    of_valid = [_kept_answers(one, valid.ids) for one in valid_answers]
    learner, best = EnsembleLearner(None, Ensemble(), None), (-1.0, None, 0, 0)  # type: ignore[arg-type]
    single = [judge(answers) for answers in valid_answers]
    strong = sorted(range(len(single)), key=lambda one: -single[one])[:4]  # more would take long and win nothing
    for common, rare in permutations(strong, 2):
        both = EnsembleScorer(of_valid[common], of_valid[rare], np.zeros(0, bool), "member")
        learned = learner._with_threshold(both, valid)
        value = judge(learned.top(valid.rows, KEPT))
        best = max(best, (value, learned, common, rare), key=lambda one: one[0])
    _, learned, common, rare = best
    sides = {
        "common": _kept_answers(test_answers[common], test.ids),
        "rare": _kept_answers(test_answers[rare], test.ids),
    }
    found: Ranking = replace(learned, **sides).top(test.rows, KEPT)
    return found


def _kept_answers(answers: Ranking, ids: tuple[str, ...]) -> Any:
    """A scorer that has these answers for the rows of these ids."""
    import numpy as np

    from longtail.learners.predictions import PredictionsScorer

    labels, scores = answers
    filled = labels >= 0
    starts = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
    return PredictionsScorer(tuple(ids), starts, labels[filled], scores[filled], "kept answers", False)


def _label_weights(inputs: Any, right: Any, labels: Any, number: int) -> Any:
    """(labels, numbers) least squares of each label, drawn to the weights of all labels as by SHRINK more examples."""
    import numpy as np

    inputs = inputs.astype(np.float64)
    width = inputs.shape[1]
    whole = np.linalg.lstsq(inputs, right, rcond=None)[0]
    squares = np.empty((number, width, width))
    products = np.empty((number, width))
    for one in range(width):
        products[:, one] = np.bincount(labels, weights=inputs[:, one] * right, minlength=number)
        for other in range(width):
            squares[:, one, other] = np.bincount(labels, weights=inputs[:, one] * inputs[:, other], minlength=number)
    squares += SHRINK * np.eye(width)
    return np.linalg.solve(squares, (products + SHRINK * whole)[:, :, None])[:, :, 0]
