"""What training measures reaches files, curves and functions."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from longtail.callbacks import JsonLines, Measured, MLflow, TensorBoard, calling
from longtail.data import Corpus
from longtail.errors import DataError, MissingExtra
from longtail.progress import collecting, stage
from longtail.recipe import Recipe

NET = "dpr(encoder='bag', dimension=16, batch_size=64, epochs=3, validate_every=2)"


def test_a_network_sends_every_epoch(tiny: Corpus) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from longtail.nn.training.history import History

    heard: list[Measured] = []
    with calling(heard.append), collecting() as events:
        Recipe.parse(NET).fit(tiny.train, tiny.valid)
    epochs = [one for one in heard if one.epoch]
    [history] = [event for event in events if isinstance(event, History)]
    assert [one.epoch for one in epochs] == [1, 2, 3]
    assert [one.step for one in epochs] == [line["steps"] for line in history.lines]
    for one, line in zip(epochs, history.lines, strict=True):
        assert {**one.measures, "epoch": one.epoch, "steps": one.step} == line
    assert ["P@1" in one.measures for one in epochs] == [False, True, True]
    assert any(one.stage.startswith("tokenising") for one in heard)


def test_a_stage_sends_its_seconds_and_only_to_callbacks() -> None:
    heard: list[Measured] = []
    inner: list[Measured] = []
    with calling(heard.append):
        with calling(inner.append), stage("both"):
            pass
        with stage("one"):
            pass
        with stage("none", timed=False):
            pass
        with pytest.raises(ValueError), stage("failed"):
            raise ValueError
    with stage("after"):
        pass
    assert [one.stage for one in heard] == ["both", "one"]
    assert [one.stage for one in inner] == ["both"]
    assert heard[0].measures["seconds"] >= 0


def test_linear_recipes_send_their_stages(tiny: Corpus) -> None:
    heard: list[Measured] = []
    with calling(heard.append):
        Recipe.parse("parabel").fit(tiny.train, tiny.valid)
    assert heard and all(set(one.measures) == {"seconds"} for one in heard)


def test_an_error_ends_the_training_and_the_checkpoint_is_there(tiny: Corpus, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from longtail.nn.training.checkpoint import checkpoint_status, checkpointing

    def stop(measured: Measured) -> None:
        if measured.epoch == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), calling(stop), checkpointing(tmp_path):
        Recipe.parse(NET).fit(tiny.train, tiny.valid)
    [(_, words)] = checkpoint_status(tmp_path)
    assert words == "2 of 3 epochs done"


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log.jsonl"
    with calling(JsonLines(path)), stage("reading"):
        pass
    JsonLines(path)(Measured("encoder", 20, 2, {"loss": 0.5, "P@1": math.nan}))
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first["stage"] == "reading" and set(first["measures"]) == {"seconds"}
    del second["time"]
    assert second == {"stage": "encoder", "step": 20, "epoch": 2, "measures": {"loss": 0.5, "P@1": None}}
    with pytest.raises(DataError, match="cannot be written"):
        JsonLines(tmp_path)(Measured("encoder", 20, 2, {}))


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    from tensorboardX.proto.event_pb2 import Event

    with TensorBoard(tmp_path) as board:
        board(Measured("encoder", 20, 2, {"loss": 0.5, "P@1": 61.25}))
    [file] = tmp_path.glob("events.*")
    content, place, found = file.read_bytes(), 0, {}
    while place < len(content):  # a record: length, 4 bytes of checksum, the event, 4 bytes of checksum
        length = int.from_bytes(content[place : place + 8], "little")
        event = Event.FromString(content[place + 12 : place + 12 + length])
        found |= {value.tag: (event.step, value.simple_value) for value in event.summary.value}
        place += 16 + length
    assert found == {"encoder/loss": (20, 0.5), "encoder/P_at_1": (20, 61.25)}


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with pytest.raises(DataError, match="no MLflow run is active; start one"):
        MLflow()
    with mlflow.start_run() as run:
        log = MLflow()
        log(Measured("encoder", 20, 2, {"loss": 0.5, "P@1": 61.25, "bad": math.nan}))
        log(Measured("encoder", 40, 4, {"loss": 0.25}))
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "encoder/loss")
    assert [(one.step, one.value) for one in history] == [(20, 0.5), (40, 0.25)]
    assert mlflow.get_run(run.info.run_id).data.metrics == {"encoder/loss": 0.25, "encoder/P_at_1": 61.25}


@pytest.mark.parametrize(
    ("package", "kind", "extra"), [("tensorboardX", TensorBoard, "tensorboard"), ("mlflow", MLflow, "mlflow")]
)
def test_without_the_extra(
    package: str, kind: type, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'longtail\[{extra}\]'"):
        kind(tmp_path)
