"""One-vs-all classifiers over all labels, trained end to end with an encoder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import real_name, require
from longtail.nn.heads.scorer import OneVsAllScorer
from longtail.nn.heads.settings import OvaSettings
from longtail.nn.settings import AT_RANDOM
from longtail.nn.towers import Reader, TowerScorer
from longtail.plan import Facts, Plan
from longtail.seams import Learner, Scorer, TailMethod, Teacher


@dataclass(frozen=True)
class Renee(OvaSettings):
    """An encoder and a classifier for every label, trained together over all labels in every step.

    No negative is sampled and no label is left out: scores of a chunk of labels become slopes in place, move that
    chunk's classifiers at once and are forgotten, so memory is the classifiers and one chunk. The encoder learns by
    AdamW, the classifiers by SGD on the sum over a batch, each at a rate of its own; much dropout on the vector. Rows
    without a label are trained on: everything is wrong for them.

    `warm` begins with an encoder that was trained before: a recipe, trained first on the same rows, or the folder of a
    saved model. It pays most where texts are short.

    Paper: Jain et al., Renée: end-to-end training of extreme classification models (MLSys 2023); Zhang et al., ELMO:
    efficiency via low-precision and peak memory optimization in large output spaces (ICML 2025).
    Needs: texts of rows. Soft targets are exact: half a target is half the pull.
    Costs: 6 x rows x labels x dimension operations an epoch; one vector a label (bf16 on a GPU), two with momentum.
    Prefer instead: `ngame` where labels come and go or most have hardly any rows; `bonsai` without a GPU.
    Example: longtail train wordnet "renee(encoder='bag', epochs=5)" --out model
    """

    warm: str | None = None  # recipe or folder of a model whose encoder it begins with; none: as `encoder` says

    summary: ClassVar[str] = "encoder and a classifier a label, trained together over all labels"
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows", "row_penalties"})
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts"})
    scorer: ClassVar[type[Scorer]] = OneVsAllScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.begin == "texts":
            object.__setattr__(self, "data_needs", frozenset({"texts", "label_texts"}))

    def begun_from(self, teacher: Teacher) -> Learner:
        return Warm(self, teacher)

    def reads_like(self, scorer: Scorer) -> bool:
        """Encoders that begin at random are made for the data, each for its own."""
        require("renee")
        from longtail.nn.encoders import same_make

        name = real_name(self.encoder)
        if name in AT_RANDOM or not isinstance(scorer, TowerScorer | OneVsAllScorer):
            return False
        return same_make(name, self.dimension, scorer.reader.settings, scorer.reader.definition.tobytes())

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> OneVsAllScorer:
        return self.fit_from(None, train, valid, parts)

    def fit_from(
        self, reader: Reader | None, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]
    ) -> OneVsAllScorer:
        """Begin with an encoder that was trained before, or with that of the settings."""
        require("renee")
        from longtail.nn.heads.fit import OneVsAllFit

        fit = OneVsAllFit.begin(self, train, valid, parts, reader)
        fit.learn()
        return fit.scorer()


@dataclass(frozen=True)
class Warm:
    """`renee` with the model it begins from."""

    settings: Renee
    teacher: Teacher

    summary: ClassVar[str] = Renee.summary
    offers: ClassVar[frozenset[str]] = Renee.offers
    data_needs: ClassVar[frozenset[str]] = Renee.data_needs
    scorer: ClassVar[type[Scorer]] = OneVsAllScorer

    def __post_init__(self) -> None:
        if not issubclass(self.teacher.leaves, TowerScorer | OneVsAllScorer):
            raise RecipeError(
                f"renee begins with the encoder of another model, and {self.settings.warm!r} has none: name a dual "
                "encoder such as 'ngame' or 'dpr', or leave warm out"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> OneVsAllScorer:
        require("renee")
        from longtail.nn.heads.ranks import Ranks

        assert train.origins is not None
        given = np.flatnonzero(train.origins == 0)  # what tail methods added is for the classifiers
        # Where a tail method left none of the given rows, what it made of them is all there is to begin on.
        begun = train if len(given) in (0, len(train)) else train.take(given)

        def reader() -> Reader:
            scorer = self.teacher.fit(begun, valid).scorer
            assert isinstance(scorer, TowerScorer | OneVsAllScorer)
            return scorer.reader

        return self.settings.fit_from(Ranks.here().made_by_first(reader), train, valid, parts)

    def plan(self, facts: Facts) -> Plan:
        before, after = self.teacher.plan(facts), self.settings.plan(facts)
        return replace(
            after,
            train_bytes=max(before.train_bytes, after.train_bytes),
            train_seconds=before.train_seconds + after.train_seconds,
        )
