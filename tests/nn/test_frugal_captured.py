"""Batches of one fixed length teach the same as batches of their own, and so do recorded steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.data import Corpus
from longtail.nn.frugal import fit
from longtail.nn.frugal.captured import Captured, FixedRows, free, plain
from longtail.nn.frugal.task import FrugalTask
from longtail.nn.heads.entries import Targets
from longtail.recipe import Recipe

SMALL = 'dimension=64, batch=32, epochs=1, precision="fp32", seed=3'
NETS = [
    f"astec({SMALL})",
    f"decaf({SMALL})",
    f"eclare({SMALL})",
    f"inceptionxml({SMALL}, places=4, cluster=2, alone=0)",
    f"inceptionxml({SMALL}, places=4, cluster=2, alone=1)",
    f"inceptionxml-lf({SMALL}, places=4, cluster=2)",
]


def task_of(recipe: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> FrugalTask:
    """The task that this recipe would train."""
    found: list[FrugalTask] = []

    def stop(task: FrugalTask, *given: object) -> None:
        found.append(task)
        raise InterruptedError

    with monkeypatch.context() as patched, pytest.raises(InterruptedError):
        patched.setattr(fit, "train", stop)
        Recipe.parse(recipe).fit(corpus.train, corpus.valid)
    return found[0]


def stepped(task: FrugalTask, fixed: bool) -> dict[str, torch.Tensor]:
    """Weights, means and gradients after three steps, each on 32 rows."""
    meta = None if task.meta is None else task.meta.targets.matrix
    rows = FixedRows(task.texts, task.targets.matrix, meta, len(task.words), task.device)
    found: dict[str, torch.Tensor] = {}
    for module in task.modules.values():
        module.train()
    torch.manual_seed(5)
    for number, batch in enumerate(list(task.batches(0, 0))[:3]):
        task.begin_step(0.5 + 0.1 * number)
        for module in task.modules.values():
            module.zero_grad(set_to_none=True)
        if fixed:
            given = rows.batch(torch.from_numpy(batch).to(task.device))
            assert rows.holds(batch) and given.run.weights[-1] == 0  # something did fill up
            loss = task.learn(given, 1.0, torch.tensor(0.5 + 0.1 * number, device=task.device))
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
def test_batches_of_one_length_teach_the_same(recipe: str, tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    own, fixed = (stepped(task_of(recipe, tiny, monkeypatch), fixed) for fixed in (False, True))
    assert own.keys() == fixed.keys() and len(own) > 10
    for name, value in own.items():
        torch.testing.assert_close(
            fixed[name], value, rtol=2e-4, atol=2e-6, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_only_words_of_the_rows_move(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(NETS[0], tiny, monkeypatch)
    rows = FixedRows(task.texts, task.targets.matrix, None, len(task.words), task.device)
    for batch in (whole[:some] for whole in list(task.batches(0, 0))[:5] for some in (2, 8, 32)):
        given = rows.batch(torch.from_numpy(batch).to(task.device))
        own = task.texts.words[task.texts.places(batch)[0]]
        touched, same = given.touched.cpu().numpy(), given.same.cpu().numpy()  # type: ignore[union-attr]
        different = len(np.unique(own))
        assert rows.holds(batch) and len(touched) == rows.most(len(batch)) > different
        assert np.array_equal(touched[:different], np.unique(own)) and (touched[different:] == touched[0]).all()
        assert same.tolist() == [*range(different), *[0] * (len(touched) - different)]
        total = int(given.run.lengths.sum())
        assert np.array_equal(touched[given.run.words.cpu().numpy()[:total]], own)
        assert not given.run.weights[total:].any()


def test_a_batch_that_has_no_room_is_not_held(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(NETS[0], tiny, monkeypatch)
    rows = FixedRows(task.texts, task.targets.matrix, None, len(task.words), task.device)
    longest = np.argsort(np.diff(task.texts.offsets))[::-1][:8].copy()
    assert rows.holds(np.arange(8))
    rows._most[8] = rows._different(longest) - 1
    assert not rows.holds(longest)


def test_the_first_label_that_a_row_does_not_have() -> None:
    targets = sparse.csr_array(np.array([[1, 1, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=np.float32))
    assert free(targets).tolist() == [2, 0, 0, 4]
    assert not plain(Targets(targets)), "a row with all labels leaves no place where 0 is true"
    few = targets[:3]
    assert plain(Targets(few)) and not plain(Targets(few, positive=2.0)) and not plain(Targets(few, last=2))


def test_a_processor_records_nothing(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(NETS[0], tiny, monkeypatch)
    assert task.device.type == "cuda" or not Captured.fits(task)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU records steps")
@pytest.mark.parametrize("recipe", NETS)
def test_recorded_steps_teach_the_same(recipe: str, tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over three epochs, with a last batch that is not recorded and clusters that teach alone in the first."""
    recipe = recipe.replace("epochs=1", "epochs=3").replace("alone=1", "alone=0.34")
    whole = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    with monkeypatch.context() as patched:
        patched.setattr(Captured, "fits", staticmethod(lambda task: False))
        steps = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    for name in ("weights", "bias"):
        np.testing.assert_allclose(getattr(whole.scorer, name), getattr(steps.scorer, name), rtol=1e-2, atol=2e-3)
