"""Soft labels from a teacher that knows the tail."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, cast

import numpy as np

from longtail.arrays import Longs
from longtail.data.corpus import held_out
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.lesson import Lesson, Wanted, learn_from
from longtail.nn.read_once import reading_once
from longtail.nn.relevance import Asked, enough
from longtail.nn.settings import Search
from longtail.plan import Facts, Plan
from longtail.predictions import Predictions
from longtail.progress import note, stage, tell
from longtail.seams import Learner, Ready, Scorer, TailMethod, Taught, Teacher, WarmStarts
from longtail.threads import thread_count

TAUS = (1, 4, 15, 40)  # tried by tau="auto": 1 is the label alone, which its neighbours have to beat
BLENDS = (0.0, 0.5, 0.75)  # tried by blend="auto"
HELD_OUT = 0.05  # of the training rows, where there is no valid split to choose on
LOOKED_AT = 4000  # valid rows that a try is measured on
PLACES = (1, 3, 5)


@dataclass(frozen=True)
class Lever:
    """Add label texts as rows, and soft labels from a teacher that is good at rare labels.

    The teacher is an encoder trained label by label, so that rare labels count as much as common ones. The row of a
    label's text gets the label itself and its nearest labels, `tau` in all; labels with fewer than `documents` rows are
    given to the documents nearest to them, until they have so many. A given label y and the teacher's relevance p make
    the target blend x y + (1 - blend) x p; where y is 1, p is too. What a cosine is worth is learned from valid rows;
    with `estimate="cosine"`, or where there are none, it is the similarity (1 + cosine) / 2 itself, from `floor` on.
    Where rows are a label themselves and so must not have it (excluded pairs), the row of its text gets their labels as
    well, which it would contradict otherwise; `twins=false` leaves that out.
    A student that would begin with an encoder of the teacher's make begins with the teacher's, unless it is told to
    begin elsewhere (`warm`, in `renee`) or `begin=false`.

    `tau=1, documents=0, twins=false` is plain label rows. With "auto", tau and then blend are chosen by P + PSP at 1, 3
    and 5 on valid (or on a twentieth of train where there is none): a training of the learner for each try, which tells
    how it did. The paper's data are `documents=0, blend=0.5, estimate="cosine", twins=false`. For more of the tail from
    a label tree, at some cost to common labels, take `propensity=0.3`; `renee` weighs rare labels itself: there
    take `blend=0.33`, and a little re-ranking behind it, `+ rerank(strength=0.2)`.

    Paper: Buvanesh et al., Enhancing tail performance in extreme classifiers by label variance reduction (ICLR 2024).
    Needs: texts of rows and labels, torch for the teacher. The teacher is a recipe whose model puts rows and labels
    into one space (dpr, ngame, ...), or the folder of a saved one, which then serves many students.
    Costs: the teacher's training, its pass over the documents, a search over labels, and label rows to train on.
    Predicting costs what it did.
    Prefer instead: `rows` where the teacher finds little; `ensemble` or the teacher alone if mostly the tail counts.
    Example: longtail compare wordnet "parabel" "parabel + lever(teacher='dpr(encoder=\\"bag\\", epochs=3)')"
    """

    teacher: str = "dpr(rows='labels', epochs=60)"
    tau: int | Literal["auto"] = 15  # tau_l: labels of a label's row, itself counted
    documents: int = 15  # tau_d: rows that a label has at least, its own text counted
    floor: float | Literal["auto"] = "auto"  # least similarity; auto: 0.8 where it is the relevance, else none
    blend: float | Literal["auto"] = 0.0  # lambda: the part of what was given
    estimate: Asked = "auto"  # "isotonic" or "logistic": learned on valid; "cosine": the cosine itself; auto: isotonic
    # where valid has enough labels
    propensity: float = 0.0  # relevances grow by this power of a label's inverse propensity, up to 1
    twins: bool = True  # what is excluded for a row is the row itself, as a label
    begin: bool = True  # with the teacher's encoder, where the student's is of the same make and begins nowhere else
    search: Search = "auto"

    summary: ClassVar[str] = "label texts as rows with soft labels from a teacher that is good at rare labels"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts", "label_texts"})

    def __post_init__(self) -> None:
        if self.tau != "auto" and self.tau < 1:
            raise RecipeError(f"setting 'tau' of lever is at least 1, the label itself, or \"auto\", got {self.tau}")
        if self.documents < 0:
            raise RecipeError(f"setting 'documents' of lever is at least 0, got {self.documents}")
        for name in ("floor", "blend", "propensity"):
            value = getattr(self, name)
            if value != "auto" and not 0 <= value <= 1:
                raise RecipeError(f"setting '{name}' of lever lies between 0 and 1, got {value:g}")

    @property
    def taus(self) -> tuple[int, ...]:
        return TAUS if self.tau == "auto" else (self.tau,)

    @property
    def blends(self) -> tuple[float, ...]:
        return BLENDS if self.blend == "auto" else (self.blend,)

    @property
    def tries(self) -> int:
        """Trainings of the learner."""
        return len(self.taus) + len(self.blends) - 1

    def wrap_with(self, learner: Learner, teacher: Teacher) -> Learner:
        if not hasattr(teacher.leaves, "label_vectors"):
            raise RecipeError(
                f"the teacher of lever must put rows and labels into one space, and {self.teacher!r} does not; "
                "take one with an encoder for both, such as dpr or ngame"
            )
        return cast(Learner, Distilled(learner, self, teacher))  # what it offers depends on the learner


@dataclass(frozen=True)
class Try:
    """A student that was trained to choose settings by, and how it did on valid."""

    tau: int
    blend: float
    value: float
    words: str

    def __str__(self) -> str:
        return f"tau={self.tau}, blend={self.blend:g}: {self.words}"


@dataclass(frozen=True)
class Distilled:
    """A learner that learns from its rows and from what a teacher makes of them."""

    learner: Learner
    method: Lever
    teacher: Teacher

    summary: ClassVar[str] = Lever.summary

    @property
    def offers(self) -> frozenset[str]:
        return self.learner.offers

    @property
    def data_needs(self) -> frozenset[str]:
        return self.learner.data_needs

    @property
    def scorer(self) -> type[Scorer]:
        return self.learner.scorer

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Scorer:
        with reading_once():  # the teacher to learn and to teach, then the student: mostly the same texts
            return self._fit(train, valid, parts)

    def _fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Scorer:
        own = self.method
        seen = np.arange(len(train))  # the rows that tries learn from
        if own.tries > 1 and valid.targets.nnz == 0:
            away = held_out(train.ids, HELD_OUT, "lever")
            seen, valid = np.flatnonzero(~away), train.take(away)
        enough(valid.targets.nnz, own.estimate)
        begin = time.perf_counter()
        with stage(f"training the teacher: {own.teacher}"):
            assert train.origins is not None
            given = seen[train.origins[seen] == 0]  # not what other tail methods made of the rows
            taught = self.teacher.fit(train.take(given), valid)
        trained = time.perf_counter()
        with stage("finding soft labels"):
            wanted = Wanted(
                max(own.taus), own.documents, own.floor, own.estimate, own.search, own.twins, own.propensity
            )
            lesson = learn_from(taught, train, valid, wanted, seen)
        found = time.perf_counter()
        learner = self._begun(taught)
        del taught
        scorer, tau, blend = self._students(learner, lesson, train, valid, seen, parts)
        tell(
            replace(
                lesson.teaching,
                chosen={"tau": tau, "documents": own.documents, "floor": lesson.floor, "blend": blend},
                entries=lesson.entries(train, tau) if blend < 1 else 0,
                seconds={
                    "teacher": trained - begin,
                    "soft labels": found - trained,
                    "student": time.perf_counter() - found,
                },
            )
        )
        return scorer

    def _begun(self, taught: Taught) -> Learner:
        """The learner, at the teacher's encoder where that is of the make it would begin with."""
        own = self.learner
        if self.method.begin and isinstance(own, WarmStarts) and own.warm is None and own.reads_like(taught.scorer):
            note("lever: the student begins with the teacher's encoder")
            return own.begun_from(Ready(taught))
        return own

    def _students(
        self,
        learner: Learner,
        lesson: Lesson,
        train: Dataset,
        valid: Dataset,
        seen: Longs,
        parts: tuple[TailMethod, ...],
    ) -> tuple[Scorer, int, float]:
        """The student with the tau and the blend that are best on valid, or with the only ones."""
        own = self.method

        def student(tau: int, blend: float, rows: Longs) -> Scorer:
            data = lesson.softened(train, tau, blend)
            if len(rows) < len(train):
                data = data.take(np.concatenate([rows, np.arange(len(train), len(data))]))
            return learner.fit(data, valid, parts)

        if own.tries == 1:
            return student(own.taus[0], own.blends[0], seen), own.taus[0], own.blends[0]
        tried: dict[tuple[int, float], float] = {}
        best: list[Scorer] = []

        def value(tau: int, blend: float) -> float:
            if (tau, blend) not in tried:
                with stage(f"trying tau={tau}, blend={blend:g}"):
                    scorer = student(tau, blend, seen)
                    told = Try(tau, blend, *worth(scorer, valid))
                note(f"lever: {told}")
                tell(told)
                if told.value > max(tried.values(), default=-1.0):
                    best[:] = [scorer]
                tried[tau, blend] = told.value
            return tried[tau, blend]

        tau = max(own.taus, key=lambda one: value(one, own.blends[0]))
        soft = tau > 1 or own.documents > 1  # without soft labels there is nothing to blend
        blend = max(own.blends, key=lambda one: value(tau, one)) if soft else own.blends[0]
        note(f"lever: chosen tau={tau}, blend={blend:g}")
        if len(seen) < len(train):
            return student(tau, blend, np.arange(len(train))), tau, blend
        return best[0], tau, blend

    def plan(self, facts: Facts) -> Plan:
        """The teacher, the search, then the student on label rows and soft labels, as often as it is trained."""
        own = self.method
        teacher, dimension = self.teacher.plan(facts), 384
        soft = facts.labels * (max(own.taus) - 1) + max(own.documents - 1, 0) * facts.labels // 2
        rows = facts.rows + facts.labels
        student = self.learner.plan(
            replace(
                facts,
                rows=rows,
                positives=facts.positives + facts.labels + soft,
                terms_per_row=(facts.row_terms + facts.labels * facts.terms_per_label) / max(rows, 1),
                mean_terms=int(facts.mean_terms + soft * facts.terms_per_label),
                characters=int(facts.characters + 8 * facts.labels * facts.terms_per_label),
                empty=0.0,
            )
        )
        vectors = 4 * dimension * (2 * facts.labels + (facts.rows if own.documents > 1 else 0))
        entries = 24 * soft + 16 * (facts.labels + facts.positives)  # neighbours, and targets while they are joined
        speed = 5e13 if Path("/dev/nvidia0").exists() else 6e10 * thread_count()  # operations a second
        searched = 2 * facts.labels * dimension * (facts.labels + (facts.rows if own.documents > 1 else 0))
        return Plan(
            train_bytes=max(teacher.train_bytes, vectors + entries, entries + student.train_bytes),
            model_bytes=student.model_bytes,
            train_seconds=teacher.train_seconds + searched / speed + own.tries * student.train_seconds,
            predict_seconds=student.predict_seconds,
            steps=(
                *((f"{name} of the teacher", size) for name, size in teacher.steps),
                ("soft labels", vectors + entries),
                *student.steps,
            ),
        )


def worth(scorer: Scorer, valid: Dataset) -> tuple[float, str]:
    """P + PSP at 1, 3 and 5 on some rows of valid, and what there is to say of them."""
    from longtail.metrics.evaluate import evaluate

    rows = np.unique(np.linspace(0, len(valid) - 1, min(len(valid), LOOKED_AT)).astype(np.int64))
    some = valid.take(rows)
    spare = 0 if some.excluded is None else int(np.diff(some.excluded.indptr).max(initial=0))
    wanted = min(PLACES[-1] + spare, len(some.labels))
    found = Predictions(some.labels, *scorer.top(some.rows, wanted)).without(some.excluded)
    figures = evaluate(found, some, ks=PLACES)
    value = sum(figures[f"{name}@{k}"] for name in ("P", "PSP") for k in PLACES)
    return value, ", ".join(f"{name} {figures[name]:.1f}" for name in ("P@1", "PSP@1", "PSP@5", "C@5"))
