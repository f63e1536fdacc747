"""Training and prediction on a real Ray cluster of three nodes: a node that is lost, whenever, changes nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from longtail_calls import answers_of, call, shards_of, tensors_of

import longtail
from longtail.errors import JobError
from longtail.jobs import JobFolder
from longtail.jobs.on_ray import run_on_ray
from longtail.linear.features import word_count_jobs
from longtail.linear.trees import tree_jobs

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'longtail[cluster]'")
STORE = 80 * 1024 * 1024  # bytes; the least that Ray takes is a little less
SOURCE = str(Path(longtail.__file__).parents[1])
TREES = "bonsai(trees=2, branches=4, depth=2, hard_negatives=3)"  # three rounds of jobs
SHARDS, ROWS = 10, 100


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without cores, and two nodes with one each. Who loses one adds another."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", SOURCE)
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
        made = Cluster(initialize_head=True, head_node_args=head)
        made.nodes = [made.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(2)]
        patch.setenv("RAY_ADDRESS", made.address)
        yield made
        ray.shutdown()
        made.shutdown()


@contextmanager
def losing_a_node(cluster: Any, moment: Callable[[], bool]) -> Iterator[None]:
    """Kill a node, and all that runs there, as soon as `moment` says so; after the block another one is started."""
    over = threading.Event()

    def lose() -> None:
        while not moment() and not over.wait(0.002):
            pass
        cluster.remove_node(cluster.nodes.pop(0), allow_graceful=False)

    thread = threading.Thread(target=lose)
    thread.start()
    try:
        yield
    finally:
        late = not moment()
        over.set()
        thread.join()
        cluster.nodes.append(cluster.add_node(num_cpus=1, object_store_memory=STORE))
    assert not late and len(cluster.nodes) == 2


@pytest.fixture(scope="module")
def alone(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Shards, and what one process answers."""
    folder = tmp_path_factory.mktemp("alone")
    shards = shards_of(folder / "in", SHARDS, ROWS)
    assert call("predict", model, shards, "--out", folder / "out", "--on", "processes").code == 0
    return shards, folder / "out"


@pytest.mark.parametrize("done", [0, 1, 3, 6, 9])
def test_a_node_that_is_lost_while_it_predicts_changes_nothing(
    done: int, cluster: Any, model: Path, alone: tuple[Path, Path], tmp_path: Path
) -> None:
    """At once, and after one, three, six and nine of ten shards: the same bytes, nothing twice."""
    (shards, right), out = alone, tmp_path / "out"
    with losing_a_node(cluster, lambda: out.exists() if done == 0 else len(list(out.glob("part-*"))) >= done):
        said = call("predict", model, shards, "--out", out, "--on", "ray")
    assert said.code == 0, said
    for path in shards.iterdir():
        assert (out / path.name).read_bytes() == (right / path.name).read_bytes()
        assert [one["id"] for one in answers_of(out / path.name)] == [
            f"{path.stem.removeprefix('part-')}-{row}" for row in range(ROWS)
        ]
    assert {path.name for path in out.iterdir()} == {"_jobs", *(path.name for path in shards.iterdir())}


@pytest.fixture(scope="module")
def here(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The model of one machine."""
    out = tmp_path_factory.mktemp("here") / "model"
    assert call("train", data, TREES, "--out", out).code == 0
    return tensors_of(out)


@pytest.mark.parametrize("done", [0, 1, 3, 5, 8])
def test_a_node_that_is_lost_while_it_trains_changes_nothing(
    done: int, cluster: Any, data: Path, here: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the first jobs are written, and after one, three, five and eight of them, in all rounds: the same bits."""
    monkeypatch.setattr(tree_jobs, "LEAST_WORK", 2000)
    monkeypatch.setenv("LONGTAIL_THREADS", "1")
    out, jobs, seen = tmp_path / "model", tmp_path / "model.jobs", set[str]()

    def moment() -> bool:
        written = (*jobs.glob("*/round-0/jobs.json"), *jobs.glob("*/round-*/done/*.safetensors"))
        seen.update(map(str, written))  # they go when all is done
        return len(seen) > done

    with losing_a_node(cluster, moment):
        said = call("train", data, TREES, "--out", out, "--on", "ray")
    assert said.code == 0, said
    assert tensors_of(out) == here and not jobs.exists()


@pytest.mark.parametrize("done", [0, 1, 2, 3, 4])
def test_a_node_that_is_lost_while_words_are_counted_changes_nothing(
    done: int, cluster: Any, data: Path, here: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and after one to four of five shards of the rows: the same bits."""
    monkeypatch.setattr(word_count_jobs, "LEAST_BYTES", 1)
    monkeypatch.setattr(word_count_jobs, "SHARD_BYTES", 1)
    monkeypatch.setattr(word_count_jobs, "MOST_JOBS", 5)
    out, jobs, seen = tmp_path / "model", tmp_path / "model.jobs", set[Path]()

    def moment() -> bool:
        seen.update((*jobs.glob("words-*/jobs.json"), *jobs.glob("words-*/?.safetensors")))
        return len(seen) > done

    with losing_a_node(cluster, moment):
        said = call("train", data, TREES, "--out", out, "--on", "ray")
    assert said.code == 0, said
    assert tensors_of(out) == here and not jobs.exists()


@pytest.mark.parametrize("done", [0, 2])
def test_a_node_that_is_lost_while_nets_are_trained_changes_nothing(
    done: int, cluster: Any, data: Path, tmp_path: Path
) -> None:
    out, jobs, seen = tmp_path / "model", tmp_path / "model.jobs", set[Path]()
    nets = "mach(encoder='bag', dimension=16, batch_size=32, epochs=2, repetitions=4, buckets=8, shared_encoder=false)"
    assert call("train", data, nets, "--out", tmp_path / "here").code == 0

    def moment() -> bool:
        seen.update((*jobs.glob("nets-*/jobs.json"), *jobs.glob("nets-*/?.safetensors")))
        return len(seen) > done

    with losing_a_node(cluster, moment):
        said = call("train", data, nets, "--out", out, "--on", "ray")
    assert said.code == 0, said
    assert tensors_of(out) == tensors_of(tmp_path / "here")


def test_a_broken_shard_and_another_version(cluster: Any, model: Path, tmp_path: Path) -> None:
    shards, out = shards_of(tmp_path / "in", 3, 5), tmp_path / "out"
    (shards / "part-1.jsonl").write_text('{"text": \n', encoding="utf-8")
    wrong = call("predict", model, shards, "--out", out, "--on", "ray")
    assert wrong.code == 2 and "1 of 3 shards failed" in wrong.err and "part-1.jsonl:1: broken JSON" in wrong.err
    assert sorted(path.name for path in out.glob("*.jsonl")) == ["part-0.jsonl", "part-2.jsonl"]
    there = JobFolder.read(out / "_jobs")
    other = JobFolder(there.path, there.kind, there.settings, there.sources, there.outputs, version="0.0.9")
    with pytest.raises(JobError, match=r"has longtail .*, the driver 0\.0\.9"):
        run_on_ray(other, other.left(), lambda number, rows: None, "ray")
    assert os.environ["RAY_ADDRESS"] == cluster.address


def test_folds_and_comparisons_run_on_ray_too(cluster: Any, data: Path, tmp_path: Path) -> None:
    recipe = "bm25 + calibrate(folds=2)"
    for name, on in (("here", ()), ("ray", ("--on", "ray"))):
        assert call("train", data, recipe, "--out", tmp_path / name, *on).code == 0
    assert tensors_of(tmp_path / "ray") == tensors_of(tmp_path / "here")
    words = ("compare", data, "bm25", "centroid", "--json", "--report", tmp_path / "page.html")
    ours, theirs = call(*words).json["results"], call(*words, "--on", "ray").json["results"]
    assert [(one["recipe"], one["P@1"]) for one in ours] == [(one["recipe"], one["P@1"]) for one in theirs]
