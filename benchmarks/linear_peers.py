"""One tool, trained and used for prediction once. `linear.py` starts this script in the tool's own environment.

    python benchmarks/linear_peers.py TOOL FOLDER THREADS K

FOLDER holds train.npz, targets.npz, test.npz and, for omikuji, train.txt. Each tool is called in the fastest way that
its package allows: no file is read and no model is loaded while the clock runs. The last line printed is JSON with
times and memory; the predictions go to FOLDER/TOOL.npz. Linux only: it reads /proc.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from shared.command import parser_for
from shared.timing import Clock, memory


class Tool:
    """Reads when it is made; `train`, `ready`, `predict` and `save` are then called in this order."""

    def __init__(self, folder: Path, threads: int, name: str) -> None:
        self.threads, self.name, self.path = threads, name, folder / f"{name}.model"
        self.asides: dict[str, float] = {}  # seconds of what is not in the table
        self.rows = sparse.load_npz(folder / "train.npz")
        self.targets = sparse.load_npz(folder / "targets.npz")

    def train(self) -> None:
        raise NotImplementedError

    def ready(self) -> None:
        """What prediction needs once, such as a model read back from disk."""

    def predict(self, rows: Any, k: int) -> tuple[Any, Any]:
        raise NotImplementedError

    def save(self) -> None:
        """Write the model to `self.path`, where it is not there yet; memory is no longer measured."""


class Longtail(Tool):
    """A recipe of this library on ready features."""

    def __init__(self, folder: Path, threads: int, name: str) -> None:
        super().__init__(folder, threads, name)
        from longtail import Recipe

        self.recipe = Recipe.parse(name)
        few = self._data(np.arange(min(300, self.rows.shape[0])))
        begin = time.perf_counter()  # kernels come from Numba's cache, or are compiled into it
        self.recipe.fit(few, few).predict(few.rows, 5)
        self.asides["kernels loaded or compiled"] = time.perf_counter() - begin
        self.data = self._data(slice(None))
        del self.rows, self.targets  # the data set has its own

    def _data(self, part: Any) -> Any:
        from longtail.data.dataset import Dataset
        from longtail.data.labels import LabelSet

        rows, targets = sparse.csr_array(self.rows[part]), sparse.csr_array(self.targets[part])
        labels = LabelSet(ids=tuple(map(str, range(targets.shape[1])))).counted(targets)
        return Dataset(labels=labels, targets=targets, ids=tuple(map(str, range(rows.shape[0]))), features=rows)

    def train(self) -> None:
        self.model = self.recipe.fit(self.data, self.data.take([]))  # what is chosen is chosen on a part of train

    def predict(self, rows: Any, k: int) -> tuple[Any, Any]:
        from longtail.data.dataset import Rows

        found = self.model.predict(Rows(features=sparse.csr_array(rows)), k)
        return found.indices, found.scores

    def save(self) -> None:
        self.model.save(self.path)


class Omikuji(Tool):
    """Parabel as it is by default; Bonsai with the settings its authors give for it."""

    def __init__(self, folder: Path, threads: int, name: str) -> None:
        from omikuji import Model, _ThreadPoolHandle
        from omikuji._libomikuji import ffi, lib

        self.name, self.path, self.threads, self.asides = name, folder / f"{name}.model", threads, {}
        self.kind, self.ffi, self.lib = Model, ffi, lib
        self.pool = _ThreadPoolHandle(threads)
        # `Model.train_on_data` reads and trains in one call; its two steps are called apart.
        self.data = lib.load_omikuji_data_set(str(folder / "train.txt").encode(), self.pool.ptr)
        self.settings = Model.default_hyper_param()
        if name.startswith("omikuji Bonsai"):
            self.settings.cluster_balanced, self.settings.cluster_k, self.settings.max_depth = False, 100, 3
        if name in ONE_FORK:
            self.settings.max_depth = 2

    def train(self) -> None:
        self.model = self.kind(self.lib.train_omikuji_model(self.data, self.settings, self.pool.ptr))
        self.lib.free_omikuji_data_set(self.data)

    def predict(self, rows: Any, k: int) -> tuple[Any, Any]:
        """`Model.predict` takes one row as Python pairs; its library call, on arrays and in threads, is faster."""
        columns, values = rows.indices.astype(np.uint32), rows.data.astype(np.float32)
        labels = np.zeros((rows.shape[0], k), dtype=np.uint32)
        scores = np.zeros((rows.shape[0], k), dtype=np.float32)
        found = np.zeros(rows.shape[0], dtype=np.int64)
        model, cast, call, pool = self.model._model_ptr, self.ffi.from_buffer, self.lib.omikuji_predict, self.pool.ptr

        def work(part: range) -> None:
            for row in part:
                mine = slice(rows.indptr[row], rows.indptr[row + 1])
                given = (cast("uint32_t[]", columns[mine]), cast("float[]", values[mine]))
                answer = (cast("uint32_t[]", labels[row]), cast("float[]", scores[row]))
                found[row] = call(model, 10, mine.stop - mine.start, *given, k, *answer, pool)

        with ThreadPoolExecutor(self.threads) as workers:
            list(workers.map(work, [range(first, rows.shape[0], self.threads) for first in range(self.threads)]))
        return np.where(np.arange(k) < found[:, None], labels.astype(np.int64), -1), scores

    def save(self) -> None:
        self.model.save(str(self.path))


class NapkinXC(Tool):
    """A probabilistic label tree by default: log loss, one tree, exact search. Training writes the model to disk."""

    def train(self) -> None:
        from napkinxc.models import PLT

        self.model = PLT(str(self.path), threads=self.threads, seed=0)
        self.model.fit(self.rows, self.targets)

    def ready(self) -> None:
        self.model.load()

    def predict(self, rows: Any, k: int) -> tuple[Any, Any]:
        labels, scores = np.full((rows.shape[0], k), -1), np.zeros((rows.shape[0], k))
        for row, found in enumerate(self.model.predict_proba(rows, top_k=k)):
            if found:
                labels[row, : len(found)], scores[row, : len(found)] = zip(*found, strict=True)
        return labels, scores


class Pecos(Tool):
    """XR-Linear by default, with the label vectors and the tree that its own command makes."""

    def train(self) -> None:
        from pecos.xmc import Indexer, LabelEmbeddingFactory
        from pecos.xmc.xlinear.model import XLinearModel

        targets = self.targets.tocsc()
        vectors = LabelEmbeddingFactory.create(targets, self.rows, method="pifa", threads=self.threads)
        tree = Indexer.gen(vectors, threads=self.threads)
        self.model = XLinearModel.train(self.rows, targets, C=tree, threads=self.threads)

    def ready(self) -> None:
        kind = type(self.model)
        self.model.save(str(self.path))
        del self.model
        self.model = kind.load(str(self.path), is_predict_only=True)  # faster than the model that training leaves

    def predict(self, rows: Any, k: int) -> tuple[Any, Any]:
        found = self.model.predict(rows, only_topk=k, threads=self.threads)
        labels, scores = np.full((rows.shape[0], k), -1), np.zeros((rows.shape[0], k))
        row = np.repeat(np.arange(rows.shape[0]), np.diff(found.indptr))
        place = np.arange(found.nnz) - found.indptr[row]
        labels[row, place], scores[row, place] = found.indices, found.data
        return labels, scores

    def try_as_trained(self, rows: Any, k: int) -> None:
        """The way most users call it: the model as training leaves it."""
        self.model = type(self.model).load(str(self.path))
        with Clock() as clock:
            self.predict(rows, k)
        self.asides["predicting with the model as training leaves it"] = clock.seconds


ONE_FORK = ("omikuji Bonsai, one fork",)  # the root's clusters are the leaves
TOOLS: dict[str, type[Tool]] = {
    "parabel": Longtail,
    "parabel(trees=1)": Longtail,  # as many trees as napkinXC and PECOS grow
    "bonsai": Longtail,
    "bonsai(hard_negatives=3)": Longtail,  # what `bonsai` tries
    "bonsai(hard_negatives=0, max_iter=8)": Longtail,
    "bonsai(hard_negatives=0, max_iter=8, depth=2)": Longtail,
    "dismec": Longtail,
    "proxml": Longtail,
    "omikuji Parabel": Omikuji,
    "omikuji Bonsai": Omikuji,
    ONE_FORK[0]: Omikuji,
    "napkinXC": NapkinXC,
    "PECOS": Pecos,
}
# These run only where they are named: one classifier a label against all rows, and parts of other tools.
SLOW = ("dismec", "proxml", *ONE_FORK, *(name for name in TOOLS if name.startswith("bonsai(")))


def measure(name: str, folder: Path, threads: int, k: int) -> dict[str, Any]:
    rows = sparse.load_npz(folder / "test.npz")
    tool = TOOLS[name](folder, threads, name)
    start = memory("VmRSS")
    with Clock() as training:
        tool.train()
    tool.ready()
    with Clock() as asking:
        labels, scores = tool.predict(rows, k)
    peak = memory("VmHWM")
    tool.save()
    if isinstance(tool, Pecos):
        tool.try_as_trained(rows, k)
    np.savez(folder / f"{name}.npz", labels=labels, scores=scores)
    found: dict[str, Any] = {"train": training.seconds, "train_cpu": training.cpu, "others": training.others}
    found |= {"predict": asking.seconds, "predict_cpu": asking.cpu, "start": start, "peak": peak}
    found["model"] = sum(file.stat().st_size for file in tool.path.rglob("*") if file.is_file())
    return found | {"asides": tool.asides}


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("folder", type=Path, help="of the matrices and the predictions")
    parser.add_argument("threads", type=int)
    parser.add_argument("k", type=int, help="labels predicted for a row")
    options = parser.parse_args()
    print(json.dumps(measure(options.tool, options.folder, options.threads, options.k)))


if __name__ == "__main__":
    main()
