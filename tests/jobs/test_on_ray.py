"""Prediction on a real Ray cluster of three nodes: a node that is lost changes nothing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from longtail_calls import answers_of, call, shards_of

import longtail
from longtail.errors import JobError
from longtail.jobs import JobFolder
from longtail.jobs.on_ray import run_on_ray

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'longtail[cluster]'")
STORE = 80 * 1024 * 1024  # bytes; the least that Ray takes is a little less
SOURCE = str(Path(longtail.__file__).parents[1])


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without cores, and two nodes with one each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", SOURCE)
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.nodes = [made.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(2)]
    monkeypatch.setenv("RAY_ADDRESS", made.address)
    yield made
    ray.shutdown()
    made.shutdown()


def test_a_lost_node_changes_nothing(cluster: Any, model: Path, tmp_path: Path) -> None:
    """The same bytes as one process, and nothing twice."""
    shards, alone, out = shards_of(tmp_path / "in", 12, 300), tmp_path / "alone", tmp_path / "out"
    assert call("predict", model, shards, "--out", alone, "--on", "processes").code == 0
    lost = threading.Thread(target=_lose_a_node, args=(cluster, out))
    lost.start()
    done = call("predict", model, shards, "--out", out, "--on", "ray")
    lost.join()
    assert done.code == 0, done
    assert len(cluster.nodes) == 1  # it was lost
    for path in shards.iterdir():
        assert (out / path.name).read_bytes() == (alone / path.name).read_bytes()
        assert [one["id"] for one in answers_of(out / path.name)] == [
            f"{path.stem.removeprefix('part-')}-{row}" for row in range(300)
        ]
    assert {path.name for path in out.iterdir()} == {"_jobs", *(path.name for path in shards.iterdir())}


def _lose_a_node(cluster: Any, out: Path) -> None:
    deadline = time.monotonic() + 30
    while not list(out.glob("part-*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    cluster.remove_node(cluster.nodes.pop(), allow_graceful=False)


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
