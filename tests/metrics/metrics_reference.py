"""Every measure written the slow, obvious way, row by row and label by label, from the definitions."""

from __future__ import annotations

import math

from longtail.data.dataset import Dataset
from longtail.predictions import Predictions


def weights_of(data: Dataset) -> list[float]:
    labels = data.labels
    a, b = labels.propensity.a, labels.propensity.b
    big = (math.log(labels.train_rows) - 1) * (b + 1) ** a if labels.train_rows >= 3 else 0.0
    return [1 + big * (count + b) ** -a for count in labels.counts.tolist()]


def truths_of(data: Dataset) -> list[set[int]]:
    dense = data.targets.toarray()
    return [{label for label in range(dense.shape[1]) if dense[row, label] > 0} for row in range(len(data))]


def rankings_of(predictions: Predictions, data: Dataset) -> list[list[tuple[int, float]]]:
    """(label, score) of each row, without empty places, excluded pairs and repetitions."""
    banned = None if data.excluded is None else data.excluded.toarray()
    rankings = []
    for row in range(len(data)):
        kept: list[tuple[int, float]] = []
        for label, score in zip(predictions.indices[row].tolist(), predictions.scores[row].tolist(), strict=True):
            if label == -1 or (banned is not None and banned[row, label]):
                continue
            if label not in [before for before, _ in kept]:
                kept.append((label, score))
        rankings.append(kept)
    return rankings


def dcg(gains: list[float]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains, start=1))


def reference(predictions: Predictions, data: Dataset, k: int) -> dict[str, float]:
    """All measures at k, in percent."""
    weights, truths, rankings = weights_of(data), truths_of(data), rankings_of(predictions, data)
    rows, labels = len(data), len(data.labels)
    tops = [[label for label, _ in ranking[:k]] for ranking in rankings]
    p = ndcg = recall = rp = f1 = mrr = 0.0
    gain = best_gain = scaled = best_scaled = 0.0
    for top, truth in zip(tops, truths, strict=True):
        if not truth:
            continue
        hits = sum(label in truth for label in top)
        ideal = dcg([1.0] * min(k, len(truth)))
        p += hits / k
        recall += hits / len(truth)
        rp += hits / min(k, len(truth))
        precision, found = hits / max(len(top), 1), hits / len(truth)
        f1 += 2 * precision * found / (precision + found) if hits else 0.0
        mrr += next((1 / place for place, label in enumerate(top, start=1) if label in truth), 0.0)
        ndcg += dcg([1.0 if label in truth else 0.0 for label in top]) / ideal
        gains = [weights[label] if label in truth else 0.0 for label in top]
        best = sorted((weights[label] for label in truth), reverse=True)[:k]
        gain, best_gain = gain + sum(gains), best_gain + sum(best)
        scaled, best_scaled = scaled + dcg(gains) / ideal, best_scaled + dcg(best) / ideal
    macro_p = macro_r = macro_f1 = 0.0
    covered = possible = 0
    for label in range(labels):
        tp = sum(label in top and label in truth for top, truth in zip(tops, truths, strict=True))
        fp = sum(label in top and label not in truth for top, truth in zip(tops, truths, strict=True))
        fn = sum(label not in top and label in truth for top, truth in zip(tops, truths, strict=True))
        covered += tp > 0
        possible += tp + fn > 0
        macro_p += tp / (tp + fp) if tp + fp else 0
        macro_r += tp / (tp + fn) if tp + fn else 0
        macro_f1 += 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0
    values = {
        "P": p / rows,
        "nDCG": ndcg / rows,
        "PSP": gain / best_gain if best_gain else 0.0,
        "PSnDCG": scaled / best_scaled if best_scaled else 0.0,
        "R": recall / rows,
        "RP": rp / rows,
        "F1": f1 / rows,
        "MRR": mrr / rows,
        "C": covered / possible if possible else 0.0,
        "macroP": macro_p / labels,
        "macroR": macro_r / labels,
        "macroF1": macro_f1 / labels,
    }
    scores = zip(predictions.indices.ravel().tolist(), predictions.scores.ravel().tolist(), strict=True)
    if all(0 <= score <= 1 for label, score in scores if label >= 0):
        values["ECE"] = calibration_error(rankings, truths, k)
    return {f"{name}@{k}": 100 * value for name, value in values.items()}


def calibration_error(rankings: list[list[tuple[int, float]]], truths: list[set[int]], k: int) -> float | None:
    pairs = [
        (score, label in truth) for ranking, truth in zip(rankings, truths, strict=True) for label, score in ranking[:k]
    ]
    error = 0.0
    for number in range(15):
        inside = [
            (score, hit) for score, hit in pairs if number <= 15 * score < number + 1 or (number == 14 and score == 1)
        ]
        if inside:
            mean = sum(score for score, _ in inside) / len(inside)
            rate = sum(hit for _, hit in inside) / len(inside)
            error += len(inside) / len(pairs) * abs(mean - rate)
    return error
