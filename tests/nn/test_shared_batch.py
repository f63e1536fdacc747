"""Dual encoders over several processes: every text of the batch is a negative, and the training is that of one."""

from __future__ import annotations

import multiprocessing
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import distributed, nn  # noqa: E402

import longtail  # noqa: E402
from longtail.nn.pool.classifier_table import BY_LABEL, ClassifierTable  # noqa: E402
from longtail.nn.pool.sharded_table import ShardedTable  # noqa: E402
from longtail.nn.training.checkpoint import FILE, checkpointing  # noqa: E402
from longtail.nn.training.process_group import ProcessGroup  # noqa: E402
from longtail.nn.training.shared_batch import shared_backward  # noqa: E402

SMALL = "encoder='bag', dimension=16, batch_size=8, epochs=2, dropout=0.0"
RECIPES = {
    "dpr": f"dpr({SMALL})",
    "ngame": f"ngame({SMALL}, classifier_epochs=1)",
    "depsl": f"depsl({SMALL}, head_dropout=0.0)",
    "unidec": f"unidec({SMALL}, head_dropout=0.3)",
    "plain unidec": f"unidec({SMALL}, head_dropout=0.0) + glas(labels_per_step=4)",
    "teacher": "renee(init_from=\"dpr(encoder='bag', dimension=16, batch_size=8, epochs=2, dropout=0.0)\", epochs=2, "
    "batch_size=8)",
}
RESUMED = ("depsl", "plain unidec")  # checkpoints that all processes share, and those in shards
WORDS = ["apple", "bridge", "castle", "dragon", "engine"]


def data() -> longtail.Corpus:
    texts = [f"{word} {other} {number % 3}" for number in range(6) for word in WORDS for other in ("of", "the")]
    labels = [[text.split()[0], *([text.split()[1]] if number % 4 == 0 else [])] for number, text in enumerate(texts)]
    return longtail.corpus(texts=texts, labels=labels, valid_share=0.2)


def vectors(recipe: str) -> dict[str, np.ndarray]:
    corpus = data()
    scorer = longtail.Recipe.parse(recipe).fit(corpus.train, corpus.valid).scorer
    return {name: value for name, value in scorer.state().tensors.items() if value.dtype.kind == "f"}


def trained_table(ranks: ProcessGroup) -> dict[str, np.ndarray]:
    """Steps and penalties on a table of classifiers, of which each process holds some; rows and moments of all."""
    rng = np.random.default_rng(0)
    init, (first, last) = rng.normal(size=(9, 5)).astype(np.float32), ranks.range(9)
    cpu = torch.device("cpu")
    table = ClassifierTable(init, cpu) if ranks.count == 1 else ShardedTable(init[first:last], cpu, ranks, 9)
    assert len(table.weight) == last - first
    for labels in ([0, 1, 8], [2, 3], [4, 5, 6, 7, 8]):  # of both processes, and of one alone
        pool = torch.tensor(labels)
        leaf = table.take(pool)
        (leaf.square().sum(1) * torch.arange(1.0, len(labels) + 1)).sum().backward()
        assert leaf.grad is not None
        table.update(pool, leaf.grad, 0.1)
        some = table.penalised()
        some.update_rows(pool[:1], some.rows(pool[1:2]), 0.05)
    found = {name: ranks.whole(part.numpy(), 9, 2) for name, part in table.moments().items() if name in BY_LABEL}
    with table.gathered():
        by_first = table.rows() if ranks.number == 0 else np.zeros(0)
    return {**found, "weight": table.rows(), **({"by the first": by_first} if ranks.number == 0 else {})}


def work(number: int, count: int, folder: str, answers: object) -> None:
    """One process: trains every recipe, then once more until it is killed after an epoch."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=number, world_size=count)
    found = {name: vectors(recipe) for name, recipe in RECIPES.items()}
    found["table"] = trained_table(ProcessGroup.here())
    from longtail.nn.pool.pool_task import PoolTask

    begin = PoolTask.begin_epoch

    def stopped(task: PoolTask, epoch: int) -> None:
        if epoch == 1:
            raise KeyboardInterrupt
        begin(task, epoch)

    PoolTask.begin_epoch = stopped  # type: ignore[method-assign]
    for name in RESUMED:
        with checkpointing(f"{folder}/{name}"), suppress(KeyboardInterrupt):
            vectors(RECIPES[name])
    answers.put((number, found))  # type: ignore[attr-defined]
    distributed.destroy_process_group()


def test_two_processes_train_as_one_does(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    answers = context.Queue()
    processes = [context.Process(target=work, args=(number, 2, str(tmp_path), answers)) for number in range(2)]
    for process in processes:
        process.start()
    found = dict(answers.get(timeout=600) for _ in processes)
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
    for name, recipe in RECIPES.items():
        both = [found[number][name] for number in range(2)]
        for tensor, value in both[0].items():
            assert np.array_equal(value, both[1][tensor]), (name, tensor)  # the processes hold the same
        if name != "unidec":  # its dropout is drawn from another state
            for tensor, value in vectors(recipe).items():
                assert np.allclose(both[0][tensor], value, atol=2e-4), (name, tensor)
    for name, value in trained_table(ProcessGroup()).items():
        assert np.array_equal(found[0]["table"][name], value), name
    for name in RESUMED:
        assert len(list((tmp_path / name).glob(f"*/{FILE}"))) == 1
        shards = sorted((tmp_path / name).glob("*/labels-*.safetensors"))
        assert len(shards) == (2 if "unidec" in name else 0)
        with checkpointing(tmp_path / name):  # one process goes on where two were killed
            resumed = vectors(RECIPES[name])
        for tensor, value in found[0][name].items():
            assert np.allclose(resumed[tensor], value, atol=2e-4), (name, tensor)
        assert not any(shard.exists() for shard in shards)


def test_the_gradients_are_those_of_autograd() -> None:
    """Of one process through the same code: what is exchanged is all there is."""
    torch.manual_seed(0)
    encoder, head = nn.Linear(5, 4), nn.Linear(4, 4)
    parts = [torch.randn(size, 5) for size in (3, 1, 2)]

    def loss_of(encoded: list[torch.Tensor]) -> torch.Tensor:
        whole = head(torch.cat(encoded))
        return (whole @ whole.T).logsumexp(1).sum()

    expected = torch.autograd.grad(
        0.5 * loss_of([encoder(part) for part in parts]), [*encoder.parameters(), *head.parameters()]
    )
    for cached in (False, True):
        for module in (encoder, head):
            module.zero_grad()
        pieces = [lambda part=part: encoder(part) for part in parts]
        shape = [3, 1, 2], 4, torch.device("cpu")
        loss = shared_backward(pieces, shape, loss_of, 0.5, ProcessGroup(), 7, cached)
        assert loss == loss_of([encoder(part) for part in parts]).detach()
        for weight, gradient in zip([*encoder.parameters(), *head.parameters()], expected, strict=True):
            torch.testing.assert_close(weight.grad, gradient)
