"""Optuna's journal of a search in a file, which may be cut, changed, or no file at all.

Optuna believes what it reads. So its lines are looked at before it sees them, and what it made of them afterwards.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from longtail.data.opening import check_room
from longtail.errors import DataError, MissingExtra
from longtail.read_back import check_regular, reading_back
from longtail.tuning.found import DONE, FAILED, PRUNED
from longtail.tuning.objective import Objective
from longtail.tuning.search_space import SearchSpace

JOURNAL, LOCK = "tune.journal", "tune.lock"
AGAIN = "remove it to start anew"


def require_optuna() -> Any:
    """Import Optuna, without its log.

    Returns:
        The package.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise MissingExtra("Optuna", "tune", "tune") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


@contextmanager
def journal(folder: Path | None) -> Iterator[Any]:
    """Open Optuna's storage.

    Args:
        folder: where its file is; None: in memory.

    Yields:
        The storage, or None.

    Raises:
        DataError: the folder cannot be written, another search runs in it, or its file is damaged.
    """
    if folder is None:
        yield None
        return
    optuna = require_optuna()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(folder / LOCK):
            check_regular(folder / LOCK, "remove it", DataError)
        lock = (folder / LOCK).open("w")
    except OSError as error:
        raise DataError(f"cannot be written ({error.strerror or error}); give another folder", folder) from None
    with lock:
        _lock(lock, folder)
        file = folder / JOURNAL
        _check_journal(file)
        backend = optuna.storages.journal.JournalFileBackend(str(file))
        with reading_back(file, AGAIN, DataError):
            storage = optuna.storages.JournalStorage(backend)
        yield storage


def _lock(lock: Any, folder: Path) -> None:
    """Two searches in one folder would each take the other's running trials for dead ones."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise DataError("another search runs in this folder; wait for it, or give another", folder) from None


def _check_journal(file: Path) -> None:
    """Every line is an entry; half a line at the end is cut off, where a process was killed that wrote it."""
    if not os.path.lexists(file):
        return
    check_regular(file, AGAIN, DataError)
    check_room(file.stat().st_size, file, "the journal")
    content = file.read_bytes()
    if not content.endswith(b"\n"):
        content = content[: content.rfind(b"\n") + 1]
        file.write_bytes(content)
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            json.loads(line)["op_code"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DataError("not a line of a journal; remove the file to start anew", file, number) from None


def check_trials(trials: Sequence[Any], space: SearchSpace, objectives: Sequence[Objective]) -> None:
    """Compare the trials that Optuna read with the search that goes on with them.

    Args:
        trials: Optuna's.
        space: the recipes of the search.
        objectives: of the search.

    Raises:
        ValueError: a trial is not one that such a search asks for, or its outcome is none.
    """
    for trial in trials:
        params: Mapping[str, Any] = trial.system_attrs.get("fixed_params", trial.params)  # of one that still waits
        ended = trial.state.is_finished() and "outcome" in trial.user_attrs
        for one in space.dimensions:
            if one.name in params and not one.holds(params[one.name]):
                raise ValueError(f"trial {trial.number} has a {one.name} that is not in the range")
        names = {one.name for one in space.dimensions}
        if not params.keys() <= names or (ended and trial.params.keys() != names):
            raise ValueError(f"trial {trial.number} has other settings")
        if "outcome" in trial.user_attrs:
            kind, what = trial.user_attrs["outcome"]
            _check_outcome(kind, what, objectives)


def _check_outcome(kind: Any, what: Any, objectives: Sequence[Objective]) -> None:
    if kind == DONE:
        if not all(isinstance(value, int | float) for value in what.values()):
            raise ValueError("a measure is no number")
        if not all(math.isfinite(objective.of(what)) for objective in objectives):
            raise ValueError("an objective is not finite")
    elif kind not in (PRUNED, FAILED) or not isinstance(what, str):
        raise ValueError("an outcome is none")
