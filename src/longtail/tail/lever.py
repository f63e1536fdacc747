"""Soft labels from a teacher that knows the tail.

A learner without `init_from` starts from the teacher's encoder where its own has the same architecture
(`same_architecture`). Another encoder is never put in its place, so predicting costs what it did.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from longtail.arrays import Longs
from longtail.data.corpus import held_out
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.distill.relevance import Asked, check_enough_hits
from longtail.nn.distill.soft_labels import DistillSettings, SoftLabels, learn_from
from longtail.nn.distill.student_choice import SoftLabelSettings, Try, validation_value
from longtail.nn.dual.dual_settings import Search
from longtail.nn.encoders.token_cache import sharing_tokens
from longtail.papers import LEVER, Paper, Preset
from longtail.plan import DataFacts, Plan
from longtail.progress import emit, note, stage
from longtail.seams import (
    FittedTeacher,
    Learner,
    Scorer,
    TailMethod,
    Teacher,
    TeacherModel,
    WarmStarts,
    WrappedLearner,
)
from longtail.threads import thread_count

Tried: TypeAlias = Literal["auto"]  # as the value of a setting: chosen by trying a few on valid

TAUS = (1, 4, 15, 40)  # tried by tau="auto"; 1 is the label without neighbours, which the others have to beat
DOCUMENTS = (0, 15)  # tried by min_documents="auto"
BLENDS = (0.0, 0.5, 0.75)  # tried by blend="auto"
HELD_OUT = 0.05  # of the training rows, where there is no valid split to choose on
DIMENSION = 384  # of the teacher's vectors, where a plan cannot know it


def _published(
    tau: int, documents: int, tokens: int, cluster: int | None, margin: float, batch: int, epochs: int
) -> Preset:
    """A line of the paper's tables 16, the teacher's, and 22."""
    mining = "mining_start=1.0" if cluster is None else f"max_cluster_size={cluster}, refresh_every=5"
    teacher = (
        "ngame(encoder='distilbert/distilbert-base-uncased', anchors='labels', loss='logistic', classifiers=false, "
        f"margin={margin}, {mining}, learning_rate=0.0002, batch_size={batch}, epochs={epochs}, max_tokens={tokens})"
    )
    settings = {
        "teacher": teacher,
        "tau": tau,
        "min_documents": documents,
        "blend": 0.5,
        "calibration": "cosine",
        "min_relevance": 0.8,
        "excluded_is_self": False,
        "guard": False,
    }
    elsewhere = {"teacher": "table 16, equation 9", "blend": "appendix D.7: lambda = 0.5", "calibration": "theorem 3"}
    elsewhere |= {"excluded_is_self": "the paper has no such step", "guard": "the paper has no such step"}
    elsewhere |= {"min_relevance": "the published code"}
    differs = "appendix D.7 says tau_d = 12 where table 22 says 15" if documents else ""
    return Preset(settings, "table 22", elsewhere, differs)


PRESETS = {
    "auto": Preset(
        dict.fromkeys(("tau", "min_documents", "excluded_is_self", "blend"), "auto"), "ours: chosen on valid"
    ),
    "paper": _published(15, 0, 32, 8, 0.3, 1600, 300),
    "LF-AmazonTitles-131K": _published(15, 0, 32, 8, 0.3, 1600, 300),
    "LF-Amazon-131K": _published(20, 0, 128, 512, 0.3, 700, 400),
    "LF-AOL-270K": _published(100, 0, 32, None, 0.05, 3200, 300),
    "LF-WikiSeeAlso-320K": _published(4, 0, 128, 512, 0.3, 1024, 300),
    "LF-Wikipedia-500K": _published(60, 15, 256, 16, 0.3, 512, 40),
    "LF-WikiHierarchy-1M": _published(4, 0, 32, 1024, 0.3, 6400, 300),
    "LF-AmazonTitles-1.3M": _published(15, 0, 32, 8, 0.3, 1600, 400),
}


@dataclass(frozen=True)
class Lever:
    """Add label texts as training examples, and soft labels from a teacher that is good at rare labels.

    The teacher is an encoder trained label by label, so that rare labels count as much as common ones. The example of a
    label's text gets the label itself and its nearest labels, `tau` in all. A label with fewer than `min_documents`
    documents is added to those nearest to it until it has so many. Given label y and the teacher's relevance p, the
    target is blend x y + (1 - blend) x p; where y is 1, p is 1 too. How relevant a cosine is, is learned from valid;
    with `calibration="cosine"`, or where there is none, the relevance is (1 + cosine) / 2 itself, from
    `min_relevance` on. Where pairs are excluded because a document is the label itself, the label's text also
    gets the labels of that document, which it would contradict otherwise; `excluded_is_self=false` leaves that out, and
    "auto" tries both on valid, which is one more training of the learner where pairs are excluded.
    A student whose encoder has the architecture of the teacher's starts from the teacher's encoder, unless
    `init_from` (in `renee`) names another model or `init_student=false`.

    `tau=1, min_documents=0, excluded_is_self=false` is `rows`. A teacher that knows little costs precision, so the
    learner is also trained on label texts alone, and what is better in P + PSP at 1, 3 and 5 on valid is kept (or on a
    twentieth of train where there is none); `guard=false` saves that training. With "auto", tau, documents,
    `excluded_is_self` and blend are chosen in turn by the same measures: one training of the learner for each value
    tried, and a logged line with its measures. `lever:auto` chooses all four. For more of the
    tail from a label tree, at some cost to common labels, take `propensity_power=0.3`; `renee` weighs rare labels
    itself: there take `blend=0.33`, and a little re-ranking behind it, `+ rerank(strength=0.2)`.

    Published form: `lever:paper`.
    Needs: texts of documents and labels, torch for the teacher. The teacher is a recipe whose model puts both
    into one space (dpr, ngame, ...), or the folder of a saved one, which then serves many students.
    Costs: the teacher's training, its pass over the documents, a search over labels, one more example a label, and
    a second training of the learner for the guard. Predicting costs what it did.
    Prefer instead: `rows` where the teacher finds little; `ensemble` or the teacher alone if mostly the tail counts.
    Example: longtail compare wordnet "parabel" "parabel + lever(teacher='dpr(encoder=\\"bag\\", epochs=3)')"
    """

    # Recipe or folder of the model whose neighbours become soft labels.
    teacher: str = "dpr(anchors='labels', epochs=60)"
    tau: int | Tried = 15  # tau_l: labels of a label's text, itself counted
    min_documents: int | Tried = 15  # tau_d: documents that a label has at least, its own text counted
    min_relevance: float | Literal["auto"] = "auto"  # (1 + cosine) / 2; auto: 0.8 with calibration="cosine", else 0
    blend: float | Tried = 0.0  # lambda: weight of the given label in a target
    calibration: Asked = "auto"  # isotonic, logistic: learned on valid; cosine; auto: isotonic where valid has enough
    propensity_power: float = 0.0  # relevances are multiplied by this power of the inverse propensity, up to 1
    excluded_is_self: bool | Tried = "auto"  # what is excluded for a document is the document itself, as a label
    guard: bool = True  # train on label texts alone too, and keep what is better on valid
    init_student: bool = True  # start from the teacher's encoder, where architectures match and init_from is none
    search: Search = "auto"  # of neighbours: exact, approximate, or auto

    summary: ClassVar[str] = "soft labels from a teacher that is good at rare labels"
    # The paper's names of settings.
    symbols: ClassVar[Mapping[str, str]] = {"lambda": "blend", "tau_l": "tau", "tau_d": "min_documents"}
    papers: ClassVar[tuple[Paper, ...]] = (LEVER,)
    presets: ClassVar[Mapping[str, Preset]] = PRESETS
    needs: ClassVar[frozenset[str]] = frozenset()
    only_changes_rows: ClassVar[bool] = True
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts", "label_texts"})

    def __post_init__(self) -> None:
        if self.tau != "auto" and self.tau < 1:
            raise RecipeError(f"setting 'tau' of lever is at least 1, the label itself, or \"auto\", got {self.tau}")
        if self.min_documents != "auto" and self.min_documents < 0:
            raise RecipeError(f"setting 'min_documents' of lever is at least 0, got {self.min_documents}")
        for name in ("min_relevance", "blend", "propensity_power"):
            value = getattr(self, name)
            if value != "auto" and not 0 <= value <= 1:
                raise RecipeError(f"setting '{name}' of lever lies between 0 and 1, got {value:g}")

    def choices(self, excluded: bool) -> dict[str, tuple[int | float, ...]]:
        """List the values to try of each setting, in the order in which they are chosen.

        Args:
            excluded: whether pairs of the training rows are excluded.

        Returns:
            Values to try by setting; a single one where the setting is fixed. Where all settings are tried, the first
            values together mean plain label rows.
        """
        itself = (False, True) if excluded else (False,)
        return {
            "tau": TAUS if self.tau == "auto" else (self.tau,),
            "min_documents": DOCUMENTS if self.min_documents == "auto" else (self.min_documents,),
            "excluded_is_self": itself if self.excluded_is_self == "auto" else (self.excluded_is_self,),
            "blend": BLENDS if self.blend == "auto" else (self.blend,),
        }

    def trainings(self, excluded: bool) -> int:
        """Count the trainings of the learner that choosing on valid takes.

        Args:
            excluded: whether pairs of the training rows are excluded.

        Returns:
            How many; 1 where nothing is chosen.
        """
        values = self.choices(excluded).values()
        first = SoftLabelSettings(*(some[0] for some in values))  # type: ignore[arg-type]
        return sum(map(len, values)) - len(values) + 1 + (self.guard and first.soft)

    def wrap_with(self, learner: Learner, teacher: Teacher) -> Learner:
        """See `HasTeacher.wrap_with`."""
        if not hasattr(teacher.scorer_class, "label_vectors"):
            raise RecipeError(
                f"the teacher of lever must put documents and labels into one space, and {self.teacher!r} does not; "
                "take one with an encoder for both, such as dpr or ngame"
            )
        return DistilledLearner(learner, self, teacher)


@dataclass(frozen=True)
class DistilledLearner(WrappedLearner):
    """A learner that learns from its examples and from the soft labels that a teacher adds to them."""

    method: Lever
    teacher: Teacher

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Scorer:
        """See `Learner.fit`."""
        with sharing_tokens():  # the teacher's training, its soft labels and the student read mostly the same texts
            return self._fit(train, valid, parts)

    def _fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Scorer:
        own = self.method
        values = own.choices(train.excluded is not None and train.excluded.nnz > 0)
        tries = own.trainings(train.excluded is not None and train.excluded.nnz > 0) > 1
        seen = np.arange(len(train))  # the rows that tries learn from
        if tries and valid.targets.nnz == 0:
            away = held_out(train.ids, HELD_OUT, "lever")
            seen, valid = np.flatnonzero(~away), train.take(away)
        check_enough_hits(valid.targets.nnz, own.calibration)
        start = time.perf_counter()
        with stage(f"training the teacher: {own.teacher}"):
            assert train.origins is not None
            given = seen[train.origins[seen] == 0]  # without the rows that other tail methods added
            teacher = self.teacher.fit(train.take(given), valid)
        trained = time.perf_counter()
        with stage("finding soft labels"):
            settings = DistillSettings(
                int(max(values["tau"])),
                int(max(values["min_documents"])),
                own.min_relevance,
                own.calibration,
                own.search,
                bool(max(values["excluded_is_self"])),
                own.propensity_power,
            )
            soft_labels = learn_from(teacher, train, valid, settings, seen)
        found = time.perf_counter()
        learner = self._initialised(teacher)
        del teacher
        scorer, best = self._best_student(learner, soft_labels, train, valid, seen, parts, values)
        added = (train, best.tau, best.min_documents > 1, best.excluded_is_self)
        chosen = {"tau": best.tau, "min_documents": best.min_documents, "min_relevance": soft_labels.floor}
        chosen |= {"blend": best.blend, "excluded_is_self": float(best.excluded_is_self)}
        emit(
            replace(
                soft_labels.teaching,
                chosen=chosen,
                entries=soft_labels.entries(*added) if best.blend < 1 else 0,
                seconds={
                    "teacher": trained - start,
                    "soft labels": found - trained,
                    "student": time.perf_counter() - found,
                },
            )
        )
        return scorer

    def _initialised(self, teacher: TeacherModel) -> Learner:
        """The learner; it starts from the teacher's encoder where that has the architecture of its own."""
        own = self.learner
        if (
            self.method.init_student
            and isinstance(own, WarmStarts)
            and own.init_from is None
            and own.same_architecture(teacher.scorer)
        ):
            note("lever: the student starts from the teacher's encoder")
            return own.initialised_from(FittedTeacher(teacher))
        return own

    def _best_student(
        self,
        learner: Learner,
        soft_labels: SoftLabels,
        train: Dataset,
        valid: Dataset,
        seen: Longs,
        parts: tuple[TailMethod, ...],
        values: Mapping[str, tuple[int | float, ...]],
    ) -> tuple[Scorer, SoftLabelSettings]:
        """The student with the settings that are best on valid, one setting after the other, or with the only ones."""

        def student(choice: SoftLabelSettings, rows: Longs) -> Scorer:
            data = choice.softened(soft_labels, train)
            if len(rows) < len(train):
                data = data.take(np.concatenate([rows, np.arange(len(train), len(data))]))
            return learner.fit(data, valid, parts)

        choice = SoftLabelSettings(**{name: some[0] for name, some in values.items()})  # type: ignore[arg-type]
        tried: dict[SoftLabelSettings, float] = {}
        best: list[Scorer] = []

        def value(choice: SoftLabelSettings) -> float:
            if choice not in tried:
                with stage(f"trying {choice}"):
                    scorer = student(choice, seen)
                    one = Try(choice, *validation_value(scorer, valid))
                note(f"lever: {one}")
                emit(one)
                if one.value > max(tried.values(), default=-1.0):
                    best[:] = [scorer]
                tried[choice] = one.value
            return tried[choice]

        for name, some in values.items():
            if len(some) > 1 and (name != "blend" or choice.soft):  # without soft labels there is nothing to blend
                choice = max((replace(choice, **{name: one}) for one in some), key=value)  # type: ignore[arg-type]
        if self.method.guard and choice.soft and valid.targets.nnz:  # a few rows may have none to hold out
            choice = max(choice, SoftLabelSettings(1, 0, excluded_is_self=False, blend=choice.blend), key=value)
        if not tried:
            return student(choice, seen), choice
        note(f"lever: chosen {choice}")
        if len(seen) < len(train):
            return student(choice, np.arange(len(train))), choice
        return best[0], choice

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`: the teacher, the search, then the student on label rows and soft labels for each try."""
        values, teacher = self.method.choices(excluded=False), self.teacher.plan(facts)
        # No label has more neighbours than there are labels, and no more rows than there are.
        near = min(int(max(values["tau"])), facts.labels) - 1
        documents = min(int(max(values["min_documents"])), facts.rows + 1)
        tries = self.method.trainings(excluded=False)
        soft = facts.labels * near + max(documents - 1, 0) * facts.labels // 2
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
        vectors = 4 * DIMENSION * (2 * facts.labels + (facts.rows if documents > 1 else 0))
        entries = 24 * soft + 16 * (facts.labels + facts.positives)  # neighbours, and targets while they are merged
        speed = 5e13 if Path("/dev/nvidia0").exists() else 6e10 * thread_count()  # operations a second
        searched = 2 * facts.labels * DIMENSION * (facts.labels + (facts.rows if documents > 1 else 0))
        return Plan(
            train_bytes=max(teacher.train_bytes, vectors + entries, entries + student.train_bytes),
            model_bytes=student.model_bytes,
            train_seconds=teacher.train_seconds + searched / speed + tries * student.train_seconds,
            predict_seconds=student.predict_seconds,
            steps=(
                *((f"{name} of the teacher", size) for name, size in teacher.steps),
                ("soft labels", vectors + entries),
                *student.steps,
            ),
        )
