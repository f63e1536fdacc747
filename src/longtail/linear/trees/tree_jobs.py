"""Training of label trees in jobs: the top of the trees first, then a job for neighbouring sub-trees of equal work.

The driver reads the examples, groups the labels and writes what a job reads as plain arrays, which jobs map into
memory: a job for a sub-tree reads only the rows of its labels from the disk. Each job writes the classifiers of its
nodes to one file. The driver packs them in the order in which one machine would have trained them, so the model is the
same to the bit. The folder's name is a checksum of examples, trees and settings: another training cannot take up these
files.

    FOLDER/CHECKSUM/rows.*.npy              vectors of the examples
    FOLDER/CHECKSUM/round-0/jobs.json       see `longtail.jobs`
    FOLDER/CHECKSUM/round-0/tree-1.*.npy    tasks of a tree; tree-1-level-0.*.npy: targets of a level
    FOLDER/CHECKSUM/round-0/done/17.safetensors

Without hard negatives there is one round; with them, one for each level, since a level's classifiers find the hard
negatives of the next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from longtail.arrays import AnyArray, Ints, Longs, Matrix
from longtail.atomic import new_path
from longtail.errors import JobError
from longtail.jobs import JobFolder, JobRunner
from longtail.linear.csr_arrays import CsrArrays, csr_arrays
from longtail.linear.trees.beam_search import ForestMaker
from longtail.linear.trees.hard_negatives import hard_negatives_of
from longtail.linear.trees.node_rows import LevelTargets, Scratch
from longtail.linear.trees.train_tree import Chunk, NodeTask, Training, Wave, train_node, tree_waves
from longtail.memory import release
from longtail.progress import stage

LabelTree = tuple[Ints, list[Longs]]  # labels in tree order, and the bounds of the nodes of each level
MOST_JOBS = 128  # of a tree and a round
LEAST_WORK = 1 << 22  # rows x children of a job, so that starting it is not most of its work
PARTS = ("bias", "features", "starts", "children", "weights")  # arrays of a chunk


@dataclass(eq=False)
class _Tree:
    """A tree in training: what is left to train, and where the classifiers so far are."""

    waves: Iterator[Wave]
    above: list[Chunk]  # of the levels above the leaves, for hard negatives
    stored: list[Chunk | _Place] = field(default_factory=list)  # in the order of one machine


@dataclass(frozen=True)
class _Place:
    """Classifiers in the file of a job."""

    file: Path
    number: int
    task: NodeTask


def train_in_jobs(
    rows: Matrix,
    targets: Matrix,
    trees: list[LabelTree],
    training: Training,
    hard_negatives: int,
    maker: ForestMaker,
    runner: JobRunner,
) -> None:
    """Train trees in jobs and pack their classifiers.

    Args:
        rows: vectors of the training rows, csr (rows, features).
        targets: csr (rows, labels).
        trees: order and levels of each tree.
        training: settings; tree number t is trained with `seed + t`.
        hard_negatives: wrong nodes of each level that a row also trains.
        maker: takes the classifiers.
        runner: where the jobs run.

    Raises:
        JobError: jobs failed, or what one wrote is damaged.
        JobsLeft: a scheduler must run the jobs.
    """
    arrays = csr_arrays(rows)
    folder = runner.folder / _checksum(arrays, targets, trees, training, hard_negatives)
    with stage("writing what jobs read"):
        for name, array in zip(CsrArrays._fields, arrays, strict=True):
            _write(folder / f"rows.{name}.npy", array)
    negatives = hard_negatives_of(rows, hard_negatives, maker.dense_columns) if hard_negatives else None
    running = []
    for order, levels in trees:
        above: list[Chunk] = []
        running.append(_Tree(tree_waves(targets, order, levels, negatives, above), above))
    place = 0
    while True:
        waves = [next(tree.waves, None) for tree in running]
        if not any(waves):
            break
        jobs = _write_round(folder, place, waves, trees, training, rows.shape[1])
        runner.run(jobs, "training sub-trees")
        files = _ClassifierFiles()
        for tree, wave, places, (_, levels) in zip(running, waves, _places(jobs, waves), trees, strict=True):
            if wave is None:
                continue
            tree.stored += [*wave.known, *places]
            if hard_negatives:
                new = tree.stored[len(tree.stored) - len(wave.known) - len(places) :]
                tree.above += [files.chunk(one) for one in new if _level(one) < len(levels) - 1]
        place += 1
    with stage("packing classifiers", total=sum(len(tree.stored) for tree in running)) as advance:
        files = _ClassifierFiles()
        for tree, (order, levels) in zip(running, trees, strict=True):
            maker.begin_tree(order, levels)
            for one in tree.stored:
                maker.keep(files.chunk(one))
                advance(1)
    release()


def train_part(settings: Mapping[str, Any], source: Mapping[str, Any], output: Path) -> int:
    """The job: train some nodes of a tree.

    Args:
        settings: see `_write_round`.
        source: the tree, and which of its tasks.
        output: the file of classifiers.

    Returns:
        The number of classifiers.

    Raises:
        JobError: what the job reads is damaged or not there.
    """
    from safetensors.numpy import save_file

    place = Path(settings["round"])
    rows, scratch = _rows(str(place.parent), settings["features"])
    tree = source["tree"]
    training = Training(**{**settings["training"], "seed": settings["training"]["seed"] + tree})
    table = _read(place / f"tree-{tree}.tasks.npy")[source["first"] : source["last"]]
    tasks = [NodeTask(*map(int, line)) for line in table]
    levels = settings["levels"][tree]
    chunks = [train_node(rows, scratch, _targets(place, tree, one.level), one, training, levels) for one in tasks]
    arrays: dict[str, AnyArray] = {}
    for name in PARTS:
        parts = [getattr(chunk, name) for chunk in chunks]
        arrays[name] = np.concatenate(parts)
        arrays[f"{name}.ends"] = np.cumsum([len(part) for part in parts], dtype=np.int64)
    with new_path(output) as temporary:
        save_file(arrays, temporary)
    return len(arrays["bias"])


def _write_round(
    folder: Path, number: int, waves: list[Wave | None], trees: list[LabelTree], training: Training, features: int
) -> JobFolder:
    """Write what the jobs of a round read, and the jobs."""
    place = folder / f"round-{number}"
    sources: list[dict[str, int]] = []
    outputs: list[Path] = []
    for tree, wave in enumerate(waves):
        if wave is None or not wave.tasks:
            continue
        for level in {task.level for task in wave.tasks}:
            for name, array in wave.targets[level].arrays().items():
                _write(place / f"tree-{tree}-level-{level}.{name}.npy", array)
        ordered = _by_sub_tree(wave.tasks, trees[tree][1])
        _write(place / f"tree-{tree}.tasks.npy", np.array([wave.tasks[one] for one in ordered], dtype=np.int64))
        costs = np.cumsum([wave.tasks[one].cost for one in ordered])
        for first, last in _cut(costs):
            outputs.append(place / "done" / f"{len(sources)}.safetensors")
            sources.append({"tree": tree, "first": first, "last": last})
    settings = {
        "round": str(place),
        "training": asdict(training),
        "levels": [len(levels) for _, levels in trees],
        "features": features,
    }
    return JobFolder.write(place, "classifiers", settings, sources, outputs)


def _by_sub_tree(tasks: list[NodeTask], levels: list[Longs]) -> list[int]:
    """Sort tasks by the first label of their node: the tasks of a sub-tree stand together, its top before the rest."""
    place = [int(levels[task.level][task.parent]) for task in tasks]
    return [int(one) for one in np.lexsort(([task.first for task in tasks], [task.level for task in tasks], place))]


def _cut(costs: Longs) -> list[tuple[int, int]]:
    """Cut tasks with these running costs into parts of about equal cost."""
    jobs = int(min(MOST_JOBS, len(costs), max(costs[-1] // LEAST_WORK, 1)))
    ends = np.searchsorted(costs, costs[-1] * np.arange(1, jobs + 1) / jobs) + 1
    bounds = np.unique(np.concatenate([[0], np.minimum(ends, len(costs))]))
    return [(int(first), int(last)) for first, last in pairwise(bounds)]


def _places(jobs: JobFolder, waves: list[Wave | None]) -> list[list[_Place]]:
    """Where the classifiers of each tree's tasks are, in the order of the tasks."""
    found: list[list[_Place]] = [[] for _ in waves]
    for source, file in zip(jobs.sources, jobs.outputs, strict=True):
        table = _read(jobs.path / f"tree-{source['tree']}.tasks.npy")[source["first"] : source["last"]]
        tasks = [NodeTask(*map(int, line)) for line in table]
        found[source["tree"]] += [_Place(file, number, task) for number, task in enumerate(tasks)]
    for places in found:
        places.sort(key=lambda one: one.task, reverse=True)  # as `Wave.tasks`
    return found


def _level(one: Chunk | _Place) -> int:
    return one.level if isinstance(one, Chunk) else one.task.level


class _ClassifierFiles:
    """Reads classifiers from the files of jobs, which stay open."""

    def __init__(self) -> None:
        self._open: dict[Path, tuple[Any, dict[str, Longs]]] = {}

    def chunk(self, one: Chunk | _Place) -> Chunk:
        if isinstance(one, Chunk):
            return one
        try:
            if one.file not in self._open:
                from safetensors import safe_open

                handle = safe_open(one.file, "np").__enter__()  # type: ignore[no-untyped-call]
                self._open[one.file] = (handle, {name: handle.get_tensor(f"{name}.ends") for name in PARTS})
            handle, ends = self._open[one.file]
            first, last = max(one.number - 1, 0), one.number
            parts = {
                name: handle.get_slice(name)[int(ends[name][first]) * (last > 0) : int(ends[name][last])]
                for name in PARTS
            }
            if len(parts["bias"]) != one.task.last - one.task.first:
                raise ValueError("other nodes than were asked for")
            return Chunk(one.task.level, one.task.parent, one.task.first, **parts)
        except Exception as error:  # safetensors has an error class of its own
            raise JobError(f"{one.file}: damaged ({error}); remove it and run the command again") from None


@lru_cache(maxsize=1)
def _rows(folder: str, features: int) -> tuple[CsrArrays, Scratch]:
    """The vectors of the examples, mapped into memory once a process."""
    return CsrArrays(*(_read(Path(folder) / f"rows.{name}.npy") for name in CsrArrays._fields)), Scratch(features)


@lru_cache(maxsize=8)
def _targets(place: Path, tree: int, level: int) -> LevelTargets:
    prefix = f"tree-{tree}-level-{level}."
    files = sorted(path for path in place.iterdir() if path.name.startswith(prefix))
    return LevelTargets.from_arrays(
        {path.name.removeprefix(prefix).removesuffix(".npy"): _read(path) for path in files}
    )


def _write(path: Path, array: AnyArray) -> None:
    """Write an array, unless the file exists: the checksum in its path makes sure that it holds the same array."""
    if not path.exists():
        with new_path(path) as temporary, temporary.open("wb") as file:
            np.save(file, array, allow_pickle=False)


def _read(path: Path) -> AnyArray:
    try:
        if path.stat().st_size == 0:
            raise ValueError("it is empty")
        # A plain array over the map, so that kernels compiled for read-only arrays take it.
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError) as error:
        raise JobError(f"{path}: cannot be read ({error}); remove its folder and run the training again") from None


def _checksum(rows: CsrArrays, targets: Matrix, trees: list[LabelTree], training: Training, hard_negatives: int) -> str:
    found = hashlib.sha256(repr((training, hard_negatives)).encode())
    arrays = [*rows, *csr_arrays(targets)]
    for order, levels in trees:
        arrays += [order, *levels]
    for array in arrays:
        found.update(repr((array.shape, array.dtype.str)).encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()[:16]
