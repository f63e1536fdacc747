"""The dual encoders: what they read, how new labels join, what they refuse, and that a killed training resumes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import normalize

from longtail.arrays import Floats
from longtail.data import Corpus
from longtail.errors import DataError, MissingExtra, ModelError, RecipeError
from longtail.learners.ance import Ance
from longtail.learners.dpr import Dpr
from longtail.learners.ngame import Ngame
from longtail.learners.siamesexml import SiameseXml
from longtail.metrics.evaluate import evaluate
from longtail.model import Model
from longtail.nn.dual.classifier_task import ClassifierTask
from longtail.nn.dual.contrastive_losses import hardest_pairs
from longtail.nn.dual.dual_fit import DualEncoderFit
from longtail.nn.dual.dual_scorer import DualEncoderScorer
from longtail.nn.dual.pair_batches import Curriculum, Pairs
from longtail.nn.encoders.text_encoder import normalised
from longtail.nn.training.checkpoint import checkpointing
from longtail.nn.training.history import History
from longtail.progress import listening
from longtail.recipe import Recipe
from longtail.seams import Misfit
from longtail.store import load
from stored import check

SMALL: dict[str, Any] = {"encoder": "bag", "dimension": 64, "batch_size": 64, "epochs": 5}
NGAME = Ngame(**SMALL, classifier_epochs=3)


def model(learner: Any, corpus: Corpus, parts: tuple[Any, ...] = ()) -> Model:
    return Model(learner.name, corpus.labels, learner.fit(corpus.train, corpus.valid, parts))


def precision(fitted: Model, corpus: Corpus, name: str = "P@1") -> float:
    return evaluate(fitted.predict(corpus.test.rows, 5), corpus.test)[name]


def without(corpus: Corpus, label: int) -> Corpus:
    """The corpus before the last label was added: its rows are there, but not marked with it."""
    all_of_them = corpus.labels
    labels = replace(
        all_of_them,
        ids=all_of_them.ids[:label],
        texts=all_of_them.texts[:label],
        counts=all_of_them.counts[:label],
        broader=None,
    )

    def cut(data: Any) -> Any:
        return replace(data, labels=labels, targets=data.targets[:, :label])

    return Corpus(name="less", train=cut(corpus.train), valid=cut(corpus.valid), test=cut(corpus.test))


@pytest.mark.parametrize(
    "learner",
    [
        Dpr(**SMALL, anchors="labels"),
        Dpr(**{**SMALL, "encoder": "tiny"}, precision="bf16"),
        Dpr(**SMALL, mini_batch_size=10, accumulation_steps=2),
        Dpr(**SMALL, schedule="cosine", symmetric=False, frequency_weight=0.5),
        Ance(**SMALL, negatives=2, shortlist=5),
        Ance(**SMALL, shortlist=50),  # more than there are wrong labels
        Ngame(**SMALL, loss="triplet", classifier_epochs=2),
        Ngame(**SMALL, loss="logistic", classifier_epochs=2),
        Ngame(**SMALL, loss="triplet", classifier_loss="softmax", classifier_epochs=2),
        Ngame(**SMALL, loss="triplet", classifier_loss="hardest", classifier_batches="clustered", classifier_epochs=4),
        Ngame(**{**SMALL, "batch_size": 5}, anchors="labels", loss="logistic", classifiers=False),
        Ngame(**SMALL, classifiers=False, mining_start=0.0, min_cluster_size=2, max_cluster_size=8, refresh_every=1),
        Ngame(**{**SMALL, "batch_size": 5}, anchors="labels", classifier_epochs=2),
        SiameseXml(dimension=64, batch_size=5, epochs=20, classifiers=False),
    ],
    ids=lambda learner: f"{learner.name}-{learner.anchors}",
)
def test_every_way_to_train_finds_what_the_text_names(learner: Any, tiny: Corpus) -> None:
    assert precision(model(learner, tiny), tiny) > 90


def test_training_without_valid_rows_works(tiny: Corpus) -> None:
    nothing = tiny.train.take([])
    for learner in (Dpr(**SMALL), NGAME):
        fitted = Model("", tiny.labels, learner.fit(tiny.train, nothing, ()))
        assert precision(fitted, tiny) > 90
        scores = fitted.predict(["apple"], k=2).scores[0]
        assert 1 > scores[0] > 3 * scores[1] > 0


def test_scores_are_probabilities(tiny: Corpus) -> None:
    for learner in (Dpr(**SMALL), NGAME):
        found = model(learner, tiny).predict(tiny.test.rows, k=5)
        assert evaluate(found, tiny.test)["ECE@5"] < 5


def test_more_of_the_frequency_means_more_common_labels(tiny: Corpus) -> None:
    text = ["words that are not in the data"]
    common = [
        model(Ngame(**SMALL, classifier_epochs=3, frequency_weight=part), tiny).scorer.bias for part in (0.0, 0.5, 1.0)
    ]
    assert common[0] is None
    assert np.allclose(2 * common[1], common[2])
    assert (np.diff(common[2][np.argsort(tiny.labels.counts)]) >= 0).all()
    assert model(Ngame(**SMALL, frequency_weight=1.0), tiny).predict(text, 10).indices.shape == (1, 10)


def test_labels_without_text_are_refused_and_can_be_read_by_their_ids(tiny: Corpus) -> None:
    texts = list(tiny.labels.texts)
    texts[2], texts[7] = "", "  "
    bare = replace(tiny.labels, texts=tuple(texts))
    train, valid = tiny.train.over(bare), tiny.valid.over(bare)
    with pytest.raises(
        DataError, match=r"dpr reads .* 2 of 10 labels have none \('L2', 'L7'\).*dpr\(ids_as_text=true\)"
    ):
        Recipe.of(Dpr(**SMALL)).fit(train, valid)
    many = replace(tiny.labels, texts=("x", *("",) * 9))
    with pytest.raises(DataError, match=r"9 of 10 .*'L5', \.\.\.\)"):
        Recipe.of(NGAME).fit(tiny.train.over(many), tiny.valid.over(many))
    assert Dpr(ids_as_text=True).label_texts(bare)[2:8:5] == ("L2", "L7")
    none = replace(tiny.labels, texts=("",) * 10)
    read = Recipe.of(Dpr(**SMALL, ids_as_text=True)).fit(tiny.train.over(none), tiny.valid.over(none))
    assert read.predict(["apple"], 1).indices[0, 0] == 0


@pytest.mark.parametrize("learner", [Dpr(**SMALL), NGAME, Ngame(**SMALL, classifier_epochs=3, frequency_weight=0.0)])
def test_a_new_label_is_predicted_from_its_text(learner: Any, tiny: Corpus, tmp_path: Path) -> None:
    less = without(tiny, 9)
    fitted = model(learner, less)
    assert "L9" not in fitted.labels.ids
    more = fitted.with_labels(["a jungle"], ids=["L9"])
    assert more.labels.ids == tiny.labels.ids and more.labels.counts[9] == 0
    assert more.predict(["jungle of"], 1).answers(0)[0].id == "L9"
    assert more.predict(["apple of"], 1).answers(0)[0].id == "L0"
    assert len(fitted.labels) == 9  # the model itself does not change
    old = more.predict(["apple castle"], 9)
    assert old.answers(0)[0] == fitted.predict(["apple castle"], 9).answers(0)[0]
    again = load(replace(more, recipe=str(Recipe.of(learner))).save(tmp_path / "model"))
    assert again.predict(["jungle of"], 1).answers(0)[0].id == "L9"


def test_new_labels_that_cannot_be_taken_are_refused(tiny: Corpus) -> None:
    fitted = model(Dpr(**SMALL), tiny)
    with pytest.raises(DataError, match="none of them empty"):
        fitted.with_labels(["a kettle", " "])
    with pytest.raises(DataError, match=r"list of label texts"):
        fitted.with_labels("a kettle")
    with pytest.raises(DataError, match="'L0' occurs twice"):
        fitted.with_labels(["a kettle"], ids=["L0"])
    with pytest.raises(DataError, match=r"1 texts|do not match"):
        fitted.with_labels(["a kettle"], ids=["k", "l"])
    other = Recipe.parse("centroid").fit(tiny.train, tiny.valid)
    with pytest.raises(DataError, match="centroid cannot take new labels"):
        other.with_labels(["a kettle"])
    ranked = Recipe.of(Dpr(**SMALL)).fit(tiny.train, tiny.valid)
    with pytest.raises(DataError, match=r"re-rankers of .* \(rerank.v1\) know only"):
        ranked.with_reranker(Recipe.parse("bm25 + rerank").fit(tiny.train, tiny.valid).rerankers[0]).with_labels(["x"])


class Aside(nn.Module):
    """Moves every label the same way."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.way = nn.Parameter(torch.ones(dimension))

    def vectors(self, label_rows: Tensor, encoded: Tensor) -> Tensor:
        return normalize(encoded + self.way, dim=1)

    def groups(self, learning_rate: float) -> list[dict[str, Any]]:
        return [{"params": [self.way], "lr": learning_rate, "weight_decay": 0.0}]

    def begin_epoch(self, epoch: int, encode: Any) -> None: ...

    def begin_step(self) -> None: ...

    def end_step(self, learning_rate: float) -> None: ...

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: Any) -> None: ...


@dataclass(frozen=True)
class Asides:
    def label_tower(self, labels: Any, texts: Floats, means: Any, seed: int) -> Aside:
        return Aside(texts.shape[1])


def test_a_new_label_moves_as_its_neighbours_were_moved(tiny: Corpus) -> None:
    less = without(tiny, 9)
    fitted = model(Dpr(**SMALL), less, (Asides(),))
    scorer = fitted.with_labels(["a jungle"]).scorer
    assert isinstance(scorer, DualEncoderScorer)
    plain = scorer.encoder.vectors([*less.labels.texts, "a jungle"])
    moves = scorer.labels - plain
    wanted = normalised(plain[9:] + moves[:9][np.argsort(-plain[9] @ plain[:9].T)[:8]].mean(axis=0))
    assert np.allclose(scorer.labels[9], wanted[0], atol=1e-5)
    assert float(moves[9] @ moves[:9].mean(axis=0)) > 0


class Stop(Exception):
    pass


class Killer:
    """Stops the stage of this name after so many steps."""

    def __init__(self, name: str, steps: int) -> None:
        self.name, self.left, self.here = name, steps, False

    def start(self, name: str, total: int | None) -> int:
        self.here = name.startswith(self.name)
        return 0

    def advance(self, handle: int, amount: int) -> None:
        self.left -= self.here
        if self.left == 0:
            raise Stop

    def finish(self, handle: int) -> None: ...


@pytest.mark.parametrize("where", ["training encoder", "training classifiers"])
def test_a_killed_ngame_resumes_where_it_was(tiny: Corpus, tmp_path: Path, where: str) -> None:
    learner = replace(NGAME, classifier_epochs=8, dropout=0.1, classifier_batches="clustered")
    whole = model(learner, tiny).scorer.state()
    with pytest.raises(Stop), checkpointing(tmp_path, every_seconds=0), listening(Killer(where, 7)):
        model(learner, tiny)
    with checkpointing(tmp_path):
        again = model(learner, tiny).scorer.state()
    assert again.settings == whole.settings
    assert all(np.array_equal(again.tensors[name], whole.tensors[name]) for name in whole.tensors)
    lines = History.read(tmp_path / "00-encoder").lines
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4, 5]
    assert {"P@1", "PSP@1", "loss", "rows_per_second"} <= lines[-1].keys()
    with checkpointing(tmp_path), pytest.raises(ModelError, match=r"margin 0.3 there, 0.2 here"):
        model(replace(learner, margin=0.2), tiny)
    less = replace(tiny, train=tiny.train.take(np.arange(100)))
    with checkpointing(tmp_path), pytest.raises(ModelError, match=r"belongs to another training: .*data"):
        model(learner, less)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("dpr(batch_size=1)", "'batch_size' of dpr is at least 2"),
        ("dpr(temperature=0.0)", "'temperature' of dpr is above 0"),
        ("dpr(warmup=1.0)", r"'warmup' of dpr lies in \[0, 1\)"),
        ("dpr(frequency_weight=2)", r"'frequency_weight' of dpr lies in \[0, 1\]"),
        ("dpr(anchors='words')", "takes 'documents' or 'labels'|takes \"documents\" or \"labels\""),
        ("dpr(seed=-1)", "'seed' of dpr is at least 0"),
        ("ance(shortlist=0)", "'shortlist' of ance is at least 1"),
        ("ngame(max_cluster_size=2)", "'max_cluster_size' of ngame .2. is smaller than 'min_cluster_size'"),
        ("ngame(mining_start=2)", r"'mining_start' of ngame lies in \[0, 1\]"),
        ("ngame(classifier_epochs=0)", "'classifier_epochs' of ngame is at least 1"),
        ("siamesexml(ceiling=1.0)", "'ceiling' of siamesexml lies between 0 and 1"),
        ("siamesexml(sharpness=0)", "'sharpness' of siamesexml is above 0"),
        ("siamesexml(surrogate_weight=1)", r"'surrogate_weight' of siamesexml lies in \[0, 1\)"),
        ("siamesexml(negatives=0)", "'negatives' of siamesexml is at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_data_is_read(recipe: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe.parse(recipe)


def test_what_cannot_be_learned_from_is_refused(tiny: Corpus) -> None:
    with pytest.raises(DataError, match=r"no encoder 'bog'; did you mean 'bag'"):
        Dpr(encoder="bog").fit(tiny.train, tiny.valid, ())
    empty = replace(tiny.train, targets=sparse.csr_array(tiny.train.targets.shape, dtype=np.float32))
    with pytest.raises(DataError, match="nothing to learn from"):
        Dpr(**SMALL).fit(empty, tiny.valid, ())
    fitted = model(Dpr(**SMALL), tiny)
    with pytest.raises(DataError, match="reads texts"):
        fitted.predict(replace(tiny.test.rows, texts=None, features=tiny.test.targets))


@pytest.mark.parametrize("name", ["dpr", "ance", "ngame", "siamesexml"])
def test_without_torch_recipes_are_read_and_training_says_what_to_install(
    name: str, tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        f"from longtail.recipe import Recipe; Recipe.parse({name!r}).learner; import sys; print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
    monkeypatch.setattr("longtail.nn.extra.find_spec", lambda package: None)
    with pytest.raises(MissingExtra, match=rf"{name} needs torch.*pip install 'longtail\[nn\]'"):
        Recipe.parse(name).fit(tiny.train, tiny.valid)


def test_a_damaged_model_is_refused(tiny: Corpus) -> None:
    state = model(NGAME, tiny).scorer.state()
    wrong = np.full(state.tensors["labels"].shape, np.nan, np.float32)
    with pytest.raises(Misfit, match="array 'labels' has numbers that are not finite"):
        check(DualEncoderScorer, replace(state, tensors=state.tensors | {"labels": wrong}))
    with pytest.raises(Misfit, match="array 'bias' is for 3 labels where there are 10"):
        check(DualEncoderScorer, replace(state, tensors=state.tensors | {"bias": np.zeros(3, np.float32)}))
    with pytest.raises(Misfit, match=r"setting 'calibration\[0\]' is a number, above 0"):
        check(DualEncoderScorer, replace(state, settings=state.settings | {"calibration": [-1.0, 0.0]}))


@pytest.mark.parametrize(("learner", "random_init"), [(SiameseXml, 1e-2), (Dpr, 2e-3)])
def test_a_pretrained_encoder_has_a_lower_learning_rate(learner: Any, random_init: float, tiny: Corpus) -> None:
    begun = DualEncoderFit.begin(learner(encoder="tiny"), tiny.train, tiny.valid, ())
    assert begun.learning_rate == random_init
    assert replace(begun, settings=learner(encoder="a folder")).learning_rate == 2e-4
    assert replace(begun, settings=learner(encoder="a folder", learning_rate=3e-5)).learning_rate == 3e-5


def test_classifier_batches_are_clusters_of_similar_documents() -> None:
    """Forty documents of four directions: once clusters have ten, each batch of ten holds one direction."""
    rng = np.random.default_rng(0)
    directions = np.repeat(np.eye(4, 8, dtype=np.float32), 10, axis=0)[rng.permutation(40)]
    documents = directions + np.float32(0.01) * rng.standard_normal((40, 8)).astype(np.float32)
    targets = sparse.csr_array(directions[:, :4])
    task = ClassifierTask(
        documents, np.eye(4, 8, dtype=np.float32), Pairs(targets), hardest_pairs, 10, 1e-3, torch.device("cpu"),
        curriculum=Curriculum(start=0.1, min_cluster_size=2, max_cluster_size=16, until=0.5), epochs=10,
    )  # fmt: skip
    mixed = []
    for epoch in range(10):
        task.begin_epoch(epoch)
        batches = [directions[batch.rows].argmax(axis=1) for batch in task.batches(epoch, 0)]
        mixed.append(sum(len(set(one.tolist())) for one in batches))
    assert mixed[0] > 10  # random batches first
    assert mixed[-1] == 4
