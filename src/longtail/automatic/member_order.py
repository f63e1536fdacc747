"""Facts of the data that decide which members are tried, and in which order."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from longtail.automatic.schedule import PlannedMember
from longtail.data.corpus import Corpus, held_out, held_out_note
from longtail.data.dataset import Dataset
from longtail.drawing import words
from longtail.errors import LongtailError, counted
from longtail.linear.features.languages import main_language
from longtail.linear.fusion.boosted_trees import require_lightgbm
from longtail.memory import available_bytes, readable
from longtail.plan import DataFacts, Plan
from longtail.progress import note
from longtail.recipe import Recipe

VALID = 0.05  # share of train that judges, where there is no valid example
SAMPLE = 2000  # texts whose language is guessed
SAMPLE_CHARACTERS = 500  # of each of them
DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # one of them is there where Linux has a GPU for torch
# For time that is left once all others are trained: other forms of the best and of the quickest. They take no part in
# the pilot, since none of them is worth its time before the others are there.
FURTHER = ("bonsai + rows", "centroid", "bonsai + gandalf", "xreg")
NO_GPU = "a net, and this machine has no GPU that torch can use"


@dataclass(frozen=True)
class DataProfile:
    """What decides which members are worth a try."""

    facts: DataFacts
    valid_rows: int
    texts: bool
    label_texts: bool
    text_language: str  # ISO 639-1; "" without texts
    label_language: str
    gpu: bool
    cannot_fuse: str  # why members cannot be combined; "" where they can

    @classmethod
    def at(cls, train: Dataset, valid: Dataset) -> DataProfile:
        """Look at the data and the machine.

        Args:
            train: training rows.
            valid: the rows that judge.

        Returns:
            What was seen.
        """
        cannot = ""
        try:
            require_lightgbm()
        except LongtailError as error:
            cannot = str(error)
        if not cannot and not (len(valid) and valid.targets.nnz):
            cannot = "there is no valid example with a label to learn the combination on"
        labels = train.labels
        return cls(
            facts=DataFacts.of(train, len(valid)),
            valid_rows=len(valid),
            texts=train.texts is not None,
            label_texts=labels.has_texts,
            text_language=_language(train.texts or ()),
            label_language=_language(labels.texts if labels.has_texts else ()),
            gpu=gpu_is_there(),
            cannot_fuse=cannot,
        )

    def __str__(self) -> str:
        facts = self.facts
        examples = f"texts ({self.text_language})" if self.texts else "features without texts"
        names = f"label texts ({self.label_language})" if self.label_texts else "no label texts"
        return (
            f"{words.count(facts.rows)} training and {words.count(self.valid_rows)} valid examples, "
            f"{counted(facts.labels, 'label')}, {facts.terms_per_row:.0f} words an example, {examples}, {names}, "
            f"{'a GPU' if self.gpu else 'no GPU'}"
        )


def members_in_order(profile: DataProfile) -> tuple[str, ...]:
    """Name the members, in the order that holds where there is no time to try them on a sample (`pilot`).

    The best cheap learner of most data comes first, as it is the model if time ends early. Then come those that differ
    most from it: a combination gains from members that are wrong elsewhere.

    Args:
        profile: what was seen of the data.

    Returns:
        Recipes.
    """
    by_names = ["bm25", "lexical"] if profile.text_language == profile.label_language else ["lexical", "bm25"]
    order = ["parabel", "knn"]
    if profile.text_language == profile.label_language:
        order.append(by_names.pop(0))  # finds labels that no example has
    order += ["centroid(probabilities=false)", "bonsai"]
    if profile.gpu:
        order += ["ngame", 'memory("ngame")', "unidec"]
    order += [*by_names, "parabel + rows", "dismec", "parabel + gandalf"]
    return tuple(order) if profile.gpu else (*order, "ngame", "unidec")


def with_valid(corpus: Corpus) -> Corpus:
    """Hold valid examples out of train where the corpus has none.

    Args:
        corpus: the data.

    Returns:
        The corpus, with a note where examples were held out.
    """
    if len(corpus.valid) or len(corpus.train) < 2:
        return corpus
    out = held_out(corpus.train.ids, VALID, "valid:0")  # as reading the data would hold them out
    text = held_out_note("valid", int(out.sum()), VALID)
    note(f"note: {text}")
    notes = (*corpus.notes, text)
    return replace(corpus, train=corpus.train.take(~out), valid=corpus.train.take(out), notes=notes)


def plans_of(members: Sequence[str], profile: DataProfile, train: Dataset) -> tuple[dict[str, Plan], dict[str, str]]:
    """Plan every member that the data and the machine allow.

    Args:
        members: recipes, in order of expected gain.
        profile: what was seen of the data.
        train: training rows.

    Returns:
        Plans by recipe, in the same order; and why the others are left out, by recipe.
    """
    plans: dict[str, Plan] = {}
    left_out: dict[str, str] = {}
    for text in members:
        recipe = Recipe.parse(text)
        if not profile.gpu and text in ("ngame", "unidec"):
            left_out[text] = NO_GPU
            continue
        try:
            recipe.check(train)
            if text == "lexical":
                require_lightgbm()
        except LongtailError as error:
            left_out[text] = str(error)
            continue
        planned, free = recipe.plan(profile.facts), available_bytes()
        if planned.train_bytes > free:
            left_out[text] = f"needs about {readable(planned.train_bytes)} of memory, and {readable(free)} are free"
            continue
        plans[text] = planned
    return plans, left_out


def planned_members(plans: Mapping[str, Plan], asked: int) -> list[PlannedMember]:
    """Tell the seconds of every member.

    Args:
        plans: by recipe.
        asked: valid examples.

    Returns:
        The members in the same order.
    """
    answer_seconds = {name: one.predict_seconds * asked / 1000 for name, one in plans.items()}
    return [
        PlannedMember(name, one.train_seconds + answer_seconds[name], answer_seconds[name])
        for name, one in plans.items()
    ]


def gpu_is_there() -> bool:
    """Tell whether torch can use a GPU. Without a sign of one torch is not imported, which takes seconds.

    Returns:
        Whether it can.
    """
    if find_spec("torch") is None:
        return False
    if sys.platform == "linux" and not any(Path(device).exists() for device in DEVICES):
        return False
    import torch

    return bool(torch.cuda.is_available())


def _language(texts: Sequence[str]) -> str:
    some = texts[:: max(len(texts) // SAMPLE, 1)]
    return main_language(text[:SAMPLE_CHARACTERS] for text in some) if some else ""
