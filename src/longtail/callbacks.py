"""What training measures, sent somewhere while it runs: JSON lines, TensorBoard, MLflow, or a function of your own.

    from longtail.callbacks import JsonLines, calling

    with calling(JsonLines("training.jsonl")):
        recipe.fit(corpus.train, corpus.valid)

A callback is any function of a `Measured`: stage, step, epoch, and measures by name. Networks send one after every
epoch, with the loss and, where they validate, P@1 and others; every other stage of the work sends its seconds, and
`longtail.tune` the measures of every trial. An error that a callback raises ends the training.
"""

from __future__ import annotations

import json
import math
import re
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from longtail.errors import DataError, MissingExtra
from longtail.progress import Callback, Measured, calling

__all__ = ["Callback", "JsonLines", "MLflow", "Measured", "TensorBoard", "calling"]


class JsonLines:
    """One line of JSON for each call, added to a file: time, stage, step, epoch and the measures.

    Raises:
        DataError: the file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __call__(self, measured: Measured, /) -> None:
        """Add a line; the file is closed after it, so nothing is lost when the process is killed."""
        line = {
            "time": round(time.time(), 3),
            "stage": measured.stage,
            "step": measured.step,
            "epoch": measured.epoch,
            # JSON knows no NaN
            "measures": {name: value if math.isfinite(value) else None for name, value in measured.measures.items()},
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        except OSError as error:
            raise DataError(f"the line cannot be written ({error.strerror or error})", self.path) from None


class TensorBoard:
    """Curves for `tensorboard --logdir FOLDER`, named stage/measure. Needs the extra `tensorboard`.

    Raises:
        MissingExtra: tensorboardX is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise MissingExtra("tensorboardX", "tensorboard", "TensorBoard") from None
        self.writer = SummaryWriter(str(folder))

    def __call__(self, measured: Measured, /) -> None:
        """Write the measures as scalars at this step."""
        for name, value in measured.measures.items():
            self.writer.add_scalar(f"{_tag(measured.stage)}/{_tag(name)}", value, measured.step)
        self.writer.flush()

    def close(self) -> None:
        """End the event file."""
        self.writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class MLflow:
    """Metrics of an MLflow run, named stage/measure. Needs the extra `mlflow`.

    It logs to the run that is active, or to the one whose id is given; it starts and ends none.

    Raises:
        MissingExtra: mlflow is not installed.
        DataError: no run is active.
    """

    def __init__(self, run_id: str | None = None) -> None:
        try:
            import mlflow
        except ImportError:
            raise MissingExtra("mlflow-skinny", "mlflow", "MLflow") from None
        active = mlflow.active_run()
        if run_id is None and active is None:
            raise DataError("no MLflow run is active; start one: with mlflow.start_run(): ...")
        self.run_id: str = run_id or active.info.run_id
        self.client: Any = mlflow.MlflowClient()

    def __call__(self, measured: Measured, /) -> None:
        """Log the measures at this step."""
        for name, value in measured.measures.items():
            if math.isfinite(value):
                key = f"{_tag(measured.stage)}/{_tag(name)}"
                self.client.log_metric(self.run_id, key, value, step=measured.step)


def _tag(name: str) -> str:
    """A name that both take: MLflow refuses @ and +."""
    return re.sub(r"[^\w./ -]+", "_", name.replace("@", "_at_")).strip()
