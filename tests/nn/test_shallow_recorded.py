"""Batches of a fixed size train the same as batches of their own size, and so do recorded steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.data import Corpus
from longtail.nn.onevsall.batch_targets import TrainingTargets
from longtail.nn.shallow import shallow_fit as fit
from longtail.nn.shallow.cuda_graph_step import RecordedStep, unweighted
from longtail.nn.shallow.fixed_size_batches import FixedSizeBatches, first_absent_label
from longtail.nn.shallow.shallow_task import ShallowTask
from longtail.recipe import Recipe

SMALL = 'dimension=64, batch_size=32, epochs=1, precision="fp32", seed=3'
NETS = [
    f"astec({SMALL})",
    f"decaf({SMALL})",
    f"eclare({SMALL})",
    f"inceptionxml({SMALL}, max_words=4, label_cluster_size=2, meta_only_share=0)",
    f"inceptionxml({SMALL}, max_words=4, label_cluster_size=2, meta_only_share=1)",
    f"inceptionxml-lf({SMALL}, max_words=4, label_cluster_size=2)",
]


def task_of(recipe: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> ShallowTask:
    """The task that this recipe would train."""
    found: list[ShallowTask] = []

    def stop(task: ShallowTask, *inputs: object) -> None:
        found.append(task)
        raise InterruptedError

    with monkeypatch.context() as patched, pytest.raises(InterruptedError):
        patched.setattr(fit, "train", stop)
        Recipe.parse(recipe).fit(corpus.train, corpus.valid)
    return found[0]


def stepped(task: ShallowTask, fixed: bool) -> dict[str, torch.Tensor]:
    """Weights, moments and gradients after three steps, each on 32 rows."""
    meta = None if task.meta is None else task.meta.targets.matrix
    rows = FixedSizeBatches(task.texts, task.targets.matrix, meta, len(task.words), task.device)
    found: dict[str, torch.Tensor] = {}
    for module in task.modules.values():
        module.train()
    torch.manual_seed(5)
    for number, batch in enumerate(list(task.batches(0, 0))[:3]):
        task.begin_step(0.5 + 0.1 * number)
        for module in task.modules.values():
            module.zero_grad(set_to_none=True)
        if fixed:
            inputs = rows.batch(torch.from_numpy(batch).to(task.device))
            assert rows.holds(batch) and inputs.run.weights[-1] == 0  # there is padding
            loss = task.learn(inputs, 1.0, torch.tensor(0.5 + 0.1 * number, device=task.device))
        else:
            loss = task.backward(batch, 1.0)
        found[f"loss {number}"] = loss.clone()
    state = {
        f"{kind} {name}": part for kind, module in task.modules.items() for name, part in module.state_dict().items()
    }
    grads = {
        f"gradient {name}": part.grad for module in task.modules.values() for name, part in module.named_parameters()
    }
    return found | state | task.state() | {name: grad for name, grad in grads.items() if grad is not None}


@pytest.mark.parametrize("recipe", NETS)
def test_batches_of_fixed_size_train_the_same(recipe: str, tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    own, fixed = (stepped(task_of(recipe, tiny, monkeypatch), fixed) for fixed in (False, True))
    assert own.keys() == fixed.keys() and len(own) > 10
    for name, value in own.items():
        torch.testing.assert_close(
            fixed[name], value, rtol=2e-4, atol=2e-6, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_only_words_of_the_rows_are_updated(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(NETS[0], tiny, monkeypatch)
    rows = FixedSizeBatches(task.texts, task.targets.matrix, None, len(task.words), task.device)
    for batch in (whole[:some] for whole in list(task.batches(0, 0))[:5] for some in (2, 8, 32)):
        inputs = rows.batch(torch.from_numpy(batch).to(task.device))
        own = task.texts.words[task.texts.places(batch)[0]]
        touched, duplicate_of = inputs.touched.cpu().numpy(), inputs.duplicate_of.cpu().numpy()  # type: ignore[union-attr]
        different = len(np.unique(own))
        assert rows.holds(batch) and len(touched) == rows.max_words(len(batch)) > different
        assert np.array_equal(touched[:different], np.unique(own)) and (touched[different:] == touched[0]).all()
        assert duplicate_of.tolist() == [*range(different), *[0] * (len(touched) - different)]
        total = int(inputs.run.lengths.sum())
        assert np.array_equal(touched[inputs.run.words.cpu().numpy()[:total]], own)
        assert not inputs.run.weights[total:].any()


def test_a_batch_without_room_is_not_held(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(NETS[0], tiny, monkeypatch)
    rows = FixedSizeBatches(task.texts, task.targets.matrix, None, len(task.words), task.device)
    longest = np.argsort(np.diff(task.texts.offsets))[::-1][:8].copy()
    assert rows.holds(np.arange(8))
    rows._max_words[8] = rows._count_words(longest) - 1
    assert not rows.holds(longest)


def test_the_first_label_that_a_row_does_not_have() -> None:
    targets = sparse.csr_array(np.array([[1, 1, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=np.float32))
    assert first_absent_label(targets).tolist() == [2, 0, 0, 4]
    assert not unweighted(TrainingTargets(targets)), "a row with all labels leaves no label whose target is 0"
    few = targets[:3]
    assert (
        unweighted(TrainingTargets(few))
        and not unweighted(TrainingTargets(few, positive=2.0))
        and not unweighted(TrainingTargets(few, last=2))
    )


def test_a_cpu_records_nothing(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(NETS[0], tiny, monkeypatch)
    assert task.device.type == "cuda" or not RecordedStep.fits(task)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU records steps")
@pytest.mark.parametrize("recipe", NETS)
def test_recorded_steps_train_the_same(recipe: str, tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over three epochs, with a last batch that is not recorded; in the first, only clusters train the encoder."""
    recipe = recipe.replace("epochs=1", "epochs=3").replace("meta_only_share=1", "meta_only_share=0.34")
    whole = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    with monkeypatch.context() as patched:
        patched.setattr(RecordedStep, "fits", staticmethod(lambda task: False))
        steps = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    for name in ("weights", "bias"):
        np.testing.assert_allclose(getattr(whole.scorer, name), getattr(steps.scorer, name), rtol=1e-2, atol=2e-3)
