"""One head over several processes: the same training as in one, and any number can resume from its checkpoints."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy import sparse  # noqa: E402
from torch import distributed, nn  # noqa: E402

import longtail  # noqa: E402
from longtail.arrays import Longs  # noqa: E402
from longtail.errors import ModelError  # noqa: E402
from longtail.nn.onevsall.batch_targets import TrainingTargets  # noqa: E402
from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead  # noqa: E402
from longtail.nn.onevsall.head_shards import init_shard, top_of_all  # noqa: E402
from longtail.nn.onevsall.onevsall_task import OneVsAllTask  # noqa: E402
from longtail.nn.training.checkpoint import FILE, Checkpoint, CheckpointDir, checkpointing  # noqa: E402
from longtail.nn.training.loop import TrainingConfig, train  # noqa: E402
from longtail.nn.training.process_group import ProcessGroup  # noqa: E402
from longtail.store import load  # noqa: E402

CPU = torch.device("cpu")
ROWS, LABELS, WIDTH = 30, 17, 6  # 17 labels over 2 and 3 processes; the last batch of an epoch has 2 rows
CONFIG = TrainingConfig(epochs=4, validate_every=1, monitor="chosen by")
CHOSEN_BY = (10.0, 40.0, 30.0, 20.0)  # of each epoch: the second has the best weights


def made(ranks: ProcessGroup, stop: int | None = None) -> OneVsAllTask:
    rng = np.random.default_rng(5)
    inputs = torch.from_numpy(rng.normal(size=(ROWS, 4)).astype(np.float32))
    dense = (rng.random((ROWS, LABELS)) * (rng.random((ROWS, LABELS)) < 0.2)).astype(np.float32)
    torch.manual_seed(1)
    encoder = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, WIDTH))
    settings = HeadSettings(precision="fp32", bias=-2.0, momentum=0.5)
    first, last = ranks.range(LABELS)
    head = OneVsAllHead(last - first, WIDTH, settings, CPU)
    if ranks.count > 1:
        init_shard(head, first, LABELS)

    def read(rows: Longs) -> torch.Tensor:
        found: torch.Tensor = encoder(inputs[rows])
        return found

    task = OneVsAllTask(
        encoder=encoder, read=read, head=head, targets=TrainingTargets(sparse.csr_array(dense), first=first, last=last),
        batch_size=7, learning_rate=0.01, head_learning_rate=0.1, device=CPU, dropout=0.4, ranks=ranks,
    )  # fmt: skip

    epochs: list[int] = []

    def validate() -> dict[str, float]:
        found, _ = top_of_all(task.head, encoder(inputs).detach(), 1, ranks, LABELS)
        precision = 100 * float(dense[np.arange(ROWS), found[:, 0]].mean())
        return {"P@1": precision, "chosen by": CHOSEN_BY[epochs[-1]]}

    task.evaluate = validate
    begin = task.begin_epoch

    def begin_epoch(epoch: int) -> None:
        if epoch == stop:
            raise KeyboardInterrupt  # killed, on every process
        epochs.append(epoch)
        begin(epoch)

    task.begin_epoch = begin_epoch  # type: ignore[method-assign]
    return task


def result(task: OneVsAllTask, history: list[float]) -> dict[str, object]:
    """Results that must not depend on the number of processes."""
    ranks = task.ranks
    state = {name: tensor.numpy() for name, tensor in task.head.state_dict().items()}
    queries = torch.from_numpy(np.random.default_rng(0).normal(size=(5, WIDTH)).astype(np.float32))
    return {
        **{name: ranks.whole(array, LABELS, piece_rows=4) for name, array in state.items()},
        **{name: tensor.detach().numpy().copy() for name, tensor in task.encoder.named_parameters()},
        "top": top_of_all(task.head, queries, 3, ranks, LABELS),
        "more than a part holds": top_of_all(task.head, queries, 40, ranks, LABELS),
        "measured": history,
    }


def work(number: int, count: int, meeting: str, folder: str, stop: int | None, answers: object) -> None:
    """One process: train from the start, then resume from a checkpoint until it is killed."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=number, world_size=count)
    ranks = ProcessGroup.here()
    task = made(ranks)
    whole = result(task, [value for _, value in train(task, CONFIG, {}).values("P@1")])
    with checkpointing(folder), suppress(KeyboardInterrupt):
        train(made(ranks, stop), CONFIG, {})
    answers.put((number, whole))  # type: ignore[attr-defined]
    distributed.destroy_process_group()


def spawned(count: int, tmp_path: Path, stop: int | None) -> list[dict[str, object]]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch"])  # imported once, not by every process
    answers = context.Queue()
    given = (count, str(tmp_path / f"meeting-{count}"), str(tmp_path / "kept"), stop, answers)
    processes = [context.Process(target=work, args=(number, *given)) for number in range(count)]
    for process in processes:
        process.start()
    found = dict(answers.get(timeout=600) for _ in processes)
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
    return [found[number] for number in range(count)]


def assert_same(found: dict[str, object], expected: dict[str, object]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        for one, other in zip(np.atleast_1d(found[name]), np.atleast_1d(value), strict=True):  # type: ignore[call-overload]
            assert np.allclose(one, other, atol=2e-5), name


def test_three_then_two_then_one_process_train_as_one_does(tmp_path: Path) -> None:
    alone = made(ProcessGroup())
    expected = result(alone, [value for _, value in train(alone, CONFIG, {}).values("P@1")])
    assert len(expected["measured"]) == 4  # type: ignore[arg-type]
    place = tmp_path / "kept" / "00-classifiers"
    for count, stop in ((3, 2), (2, 3)):  # killed after two epochs, then after three
        for found in spawned(count, tmp_path, stop):
            assert_same(found, expected)
        parts = sorted(path.name for path in place.glob("head-*"))
        assert parts == [f"head-{stop}-0-{number}-of-{count}.safetensors" for number in range(count)]
    last = made(ProcessGroup())
    with checkpointing(tmp_path / "kept"):
        history = train(last, CONFIG, {})
    assert_same(result(last, [value for _, value in history.values("P@1")]), expected)
    assert not list(place.glob("head-*")) and (place / FILE).exists()  # one process keeps one file


def test_two_processes_end_with_the_best_weights_as_one_does(tmp_path: Path) -> None:
    """Not with the last ones: the head of every process is that of the same epoch."""
    until_best = made(ProcessGroup(), stop=2)
    with suppress(KeyboardInterrupt):
        train(until_best, CONFIG, {})
    last = made(ProcessGroup())
    train(last, replace(CONFIG, keep_best=False), {})
    for found in spawned(2, tmp_path, 0):
        for name in ("weight", "bias", "velocity"):
            best, final = (task.head.state_dict()[name].numpy() for task in (until_best, last))
            assert np.allclose(found[name], best, atol=2e-5), name  # type: ignore[arg-type]
            assert not np.allclose(best, final, atol=1e-3), name


def test_a_damaged_part_is_an_error(tmp_path: Path) -> None:
    task, identity = made(ProcessGroup()), {"seed": 0, "epochs": 1}
    with checkpointing(tmp_path):
        train(task, TrainingConfig(epochs=1), {})
    folder = tmp_path / "00-classifiers"
    plain = CheckpointDir(folder, 1.0)
    found = plain.read(identity)
    assert found is not None
    (folder / "head-x.safetensors").write_bytes(b"nothing")
    plain.write(Checkpoint({**found.facts, "heads": ["head-x.safetensors"]}, found.tensors), identity)
    with pytest.raises(ModelError, match=r"head-x.safetensors: cannot be read .*; remove the folder to train"):
        task.checkpoint_dir(plain).read(identity)


def test_labels_and_rows_are_divided_evenly() -> None:
    for total in (0, 1, 2, 17, 1000):
        parts = [ProcessGroup(number, 3).range(total) for number in range(3)]
        assert parts[0][0] == 0 and parts[-1][1] == total
        assert all(one[1] == other[0] for one, other in pairwise(parts))
        assert max(end - begin for begin, end in parts) - min(end - begin for begin, end in parts) <= 1


def test_torchrun_trains_one_model(tmp_path: Path) -> None:
    """Two processes from the command line: one of them prints and writes, and the model is that of one process."""
    data = tmp_path / "data"
    data.mkdir()
    words = ["apple", "bridge", "castle", "dragon", "engine"]
    rows = [{"text": f"{word} {other}", "labels": [word]} for word in words for other in ("of", "the", "and")] * 4
    lines = [json.dumps({"id": str(number), **row}) for number, row in enumerate(rows)]
    (data / "train.jsonl").write_text("\n".join(lines))
    (data / "labels.jsonl").write_text("\n".join(json.dumps({"id": word, "text": word}) for word in words))
    recipe = "renee(init_from=\"dpr(encoder='bag', dimension=16, batch_size=8, epochs=2)\", batch_size=8, epochs=4)"
    command = ["-m", "longtail", "train", str(data), recipe, "--checkpoint-dir", str(tmp_path / "kept")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "LONGTAIL_THREADS": "1"}
    starter = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    several = subprocess.run(
        [*starter, *command, "--out", str(tmp_path / "two")], capture_output=True, text=True, env=environment
    )
    assert several.returncode == 0, several.stderr
    assert several.stdout.count("trained on") == 1
    corpus = longtail.load(str(data))
    one = longtail.Recipe.parse(recipe).fit(corpus.train, corpus.valid).scorer
    two = load(tmp_path / "two").scorer
    assert np.allclose(one.weights, two.weights, atol=1e-4)  # type: ignore[attr-defined]
