"""What the members of a combination answer for a data set, kept in a folder, so that members are fitted once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

KEPT_PLACES = 40  # labels of a row that are kept: as many as `fuse` uses


class MemberAnswers:
    """A data set and what recipes answer for it. Seconds are those of the processor.

    Args:
        data: name or folder of a data set.
        rows: training rows, evenly spaced; 0: all.
        asked: rows of valid and of test, evenly spaced; 0: all.
        keep: folder of kept answers; None: nothing is kept.
    """

    def __init__(self, data: str, rows: int, keep: Path | None, asked: int = 0) -> None:
        from shared.splits import evenly_spaced, with_test

        corpus = with_test(data)
        train = evenly_spaced(corpus.train, rows)
        if len(train) < len(corpus.train):
            train = train.over(corpus.labels.counted(train.targets))
        self.name = f"{corpus.name}, {rows:,} rows" if len(train) < len(corpus.train) else corpus.name
        self.labels, self.train = train.labels, train
        self.valid, self.test = (evenly_spaced(part, asked).over(self.labels) for part in (corpus.valid, corpus.test))
        self.name += f", {asked:,} asked" if asked else ""
        self._keep, self._stem = keep, f"{corpus.name}{rows or ''}{f'-{asked}' if asked else ''}"
        self._known: dict[str, dict[str, Any]] = {}

    def of(self, recipe: str) -> dict[str, Any]:
        """`valid` and `test`: labels and scores (rows, places); `seconds` to fit and `asking` for the test rows."""
        return self._found(recipe, "", lambda: self._fitted(recipe))

    def out_of_fold(self, recipe: str, folds: int) -> dict[str, Any]:
        """`train`: labels and scores by members that did not see the row; `seconds` to fit, `asking` for the rows."""
        return self._found(recipe, f"-folds{folds}", lambda: self._folded(recipe, folds))

    def _found(self, recipe: str, suffix: str, make: Any) -> dict[str, Any]:
        import numpy as np

        name = f"{recipe}{suffix}"
        if name not in self._known:
            path = None if self._keep is None else answers_path(self._keep, self._stem, recipe, suffix)
            if path is not None and path.exists():
                with np.load(path) as found:
                    stored = dict(found)
            else:
                stored = make()
                if path is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    np.savez_compressed(path, **stored)
            splits = {one.removesuffix("_labels") for one in stored if one.endswith("_labels")}
            self._known[name] = {split: (stored[f"{split}_labels"], stored[f"{split}_scores"]) for split in splits} | {
                one: float(stored[one]) for one in ("seconds", "asking")
            }
        return self._known[name]

    def _fitted(self, recipe: str) -> dict[str, Any]:
        return answered(*self._fit(recipe, self.train), self.valid, self.test, KEPT_PLACES)

    def _folded(self, recipe: str, folds: int) -> dict[str, Any]:
        import numpy as np

        from longtail.learners.fuse import fold_rows
        from longtail.seams import FittedMember

        labels = np.full((len(self.train), KEPT_PLACES), -1, dtype=np.int32)
        scores = np.zeros(labels.shape, dtype=np.float32)
        fitting = asking = 0.0
        for seen, unseen in fold_rows(self.train, folds, 0):
            model, seconds = self._fit(recipe, self.train.take(seen))
            fitting += seconds
            start = time.process_time()
            best = FittedMember.of(model, self.labels).top(self.train.take(unseen).rows, KEPT_PLACES, self.labels)
            asking += time.process_time() - start
            for whole, part in zip((labels, scores), best, strict=True):
                whole[unseen, : part.shape[1]] = part
        return {"train_labels": labels, "train_scores": scores, "seconds": fitting, "asking": asking}

    def _fit(self, recipe: str, train: Any) -> tuple[Any, float]:
        import longtail

        start = time.process_time()
        model = longtail.Recipe.parse(recipe).fit(train, self.valid)
        return model, time.process_time() - start


def answers_path(folder: Path, stem: str, recipe: str, suffix: str = "") -> Path:
    """Where the answers of a recipe are kept; `stem` names the data set."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in recipe)
    return folder / f"{stem}-{plain}{suffix}.npz"


def answered(model: Any, seconds: float, valid: Any, test: Any, places: int) -> dict[str, Any]:
    """What a model answers for valid and test, as it is kept: arrays by name."""
    from longtail.seams import FittedMember

    member = FittedMember.of(model, test.labels)
    found: dict[str, Any] = {"seconds": seconds}
    for split, data in (("valid", valid), ("test", test)):
        start = time.process_time()
        found[f"{split}_labels"], found[f"{split}_scores"] = member.top(data.rows, places, test.labels)
        found["asking"] = time.process_time() - start
    return found


def cut(answers: tuple[Any, Any], places: int, rows: Any = None) -> tuple[Any, Any]:
    """The first places of some rows, or of all."""
    labels, scores = answers
    chosen = slice(None) if rows is None else rows
    return labels[chosen, :places], scores[chosen, :places]
