"""Claim: a model folder can neither crash, corrupt nor starve the process that loads it, whoever made it.

A small model of every kind that is saved is trained once. Then folders are made from them by structure-aware changes:
values, types, shapes, lengths and order of arrays, settings, labels, the manifest, tokenizers, headers, and files that
are pipes or endless devices. All checksums are computed anew. Each folder is loaded and, if it loads, predicts; that
must end in an error of longtail's own or in finite answers, within 2 x the folder's size + 200 MB.

    python benchmarks/fuzz_models.py                          20,000 folders
    python benchmarks/fuzz_models.py --boundscheck            the same with every index of a kernel checked
    python benchmarks/fuzz_models.py --only parabel knn       of these models
    python benchmarks/fuzz_models.py --case 4711              this folder alone, with a traceback of what it raises

Work is done in a child process, so that a crash is counted and not suffered. Prints a table by model: folders, refused,
answered, and each kind of fault; then each fault with the number of its folder. The exit status is 1 if there is one.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from shared.command import parser_for
from shared.model_samples import RECIPES, TEXTS, features_of, train
from shared.tables import table

FAULTS = ("crash", "out of bounds", "foreign exception", "not finite", "memory", "timeout")
PATIENCE = 60  # seconds for a folder; a busy machine is slow
FREE = 200_000_000  # bytes that a folder may take besides twice its size
SPARE = 1_000_000_000  # bytes of address space beyond that; more than this is a MemoryError in the child


def main() -> None:
    """Make the folders, and print what became of them."""
    parser = parser_for(__doc__)
    parser.add_argument("--folders", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=Path, help="where the trained models are kept; default: a temporary folder")
    parser.add_argument("--only", nargs="+", default=[], choices=[*RECIPES], metavar="NAME", help=", ".join(RECIPES))
    parser.add_argument("--boundscheck", action="store_true", help="run the kernels with NUMBA_BOUNDSCHECK=1")
    parser.add_argument("--processes", type=int, default=1, help="that share the folders")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no further folder is made")
    parser.add_argument("--case", type=int, help="one folder, in this process")
    parser.add_argument("--work", action="store_true", help="be the child process")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        models = asked.models or Path(temporary) / "models"
        if asked.work:
            return _work(asked.seed, models, asked.only)
        asked.only = [*train(models, tuple(asked.only))]  # those whose packages are here
        if asked.case is not None:
            print(json.dumps(Worker(asked.seed, models, asked.only, loud=True).done(asked.case), indent=1))
            return None
        # The same folders whatever the number of processes.
        parts = [
            range(asked.first + part, asked.first + asked.folders, asked.processes) for part in range(asked.processes)
        ]
        with ThreadPoolExecutor(asked.processes) as pool:
            found = [one for part in pool.map(lambda cases: _watch(asked, models, cases), parts) for one in part]
    rows = []
    for name in asked.only:
        here = [one for one in found if one["model"] == name]
        counts = Counter(one["outcome"] for one in here)
        rows.append([name, len(here), *(counts[what] for what in ("refused", "answered", *FAULTS))])
    rows.append(["all", *(sum(row[column] for row in rows) for column in range(1, len(rows[0])))])
    print(table(["model", "folders", "refused", "answered", *FAULTS], [[str(cell) for cell in row] for row in rows]))
    bad = [one for one in found if one["outcome"] in FAULTS]
    for one in bad:
        print(f"{one['outcome']}: --case {one['case']} ({one['model']}): {one['changes'][:160]}: {one['detail'][:300]}")
    largest = max((one.get("megabytes", 0) for one in found), default=0)
    print(f"{len(found):,} folders, {len(bad)} faults, at most {largest:.0f} MB for a folder")
    raise SystemExit(bool(bad))


def _watch(asked: Any, models: Path, cases: range) -> list[dict[str, Any]]:
    """Send numbers of folders to a child, and read what became of them; a new child follows one that ends."""
    found: list[dict[str, Any]] = []
    child: subprocess.Popen[bytes] | None = None
    begun = time.monotonic()
    for case in cases:
        if time.monotonic() - begun > 60 * asked.minutes:
            break
        if child is None:
            child = _child(asked, models)
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(f"{case}\n".encode())
        child.stdin.flush()
        plan = {"case": case, "model": chosen(asked.seed, case, asked.only), "changes": "see --case"}
        ready = select.select([child.stdout], [], [], PATIENCE)[0]
        line = child.stdout.readline() if ready else b""
        if line:
            found.append(json.loads(line))
        else:
            if not ready:
                child.kill()
            child.wait()
            what = "timeout" if not ready else "crash"
            found.append(plan | {"outcome": what, "detail": f"the process ended with {child.returncode}"})
            child = None
        if len(found) % 1000 == 0:
            faults = sum(one["outcome"] in FAULTS for one in found)
            print(
                f"{len(found):,} folders, {faults} faults, {time.monotonic() - begun:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    if child is not None:
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
    return found


def _child(asked: Any, models: Path) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    if asked.boundscheck:
        cache = models.parent / f"{models.name}-boundscheck"  # checked code must not replace the cached kernels
        environment |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, __file__, "--work", "--seed", str(asked.seed), "--models", str(models)]
    command += ["--only", *asked.only]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert child.stdout is not None
    if child.stdout.readline() != b"ready\n":
        raise SystemExit("the child process did not start; see above")
    return child


def chosen(seed: int, case: int, only: list[str]) -> str:
    """The model that a folder is made from."""
    return random.Random(f"{seed} {case} model").choice(only or [*RECIPES])


class Worker:
    """Makes, loads and predicts folders in this process."""

    def __init__(self, seed: int, models: Path, only: list[str], loud: bool = False) -> None:
        from shared.model_mutations import Folder

        warnings.simplefilter("ignore")
        self.seed, self.only, self.loud = seed, only, loud
        self.paths = train(models, tuple(only))
        self.folders = {name: Folder(path) for name, path in self.paths.items()}
        self.place = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        for path in self.paths.values():  # kernels are compiled and libraries loaded before memory is measured
            self.predict(path)
        self.limit()

    def limit(self) -> None:
        """Allow no more address space than a folder may take and some to spare."""
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + FREE + SPARE, now + FREE + SPARE))

    def predict(self, path: Path) -> Any:
        """Load a model and ask it in every way that reads its arrays."""
        import numpy as np
        from scipy import sparse

        from longtail.data import Rows
        from longtail.errors import DataError
        from longtail.report.card import Card
        from longtail.seams import HasVectors, TakesLabels, TakesRows
        from longtail.store import load

        model = load(path)
        features = features_of(sparse.csr_array(np.eye(len(TEXTS), 10, dtype=np.float32)))
        ids = tuple(f"valid{row}" for row in range(len(TEXTS)))
        rows = Rows(texts=TEXTS, features=features, ids=ids)  # a model reads one of them
        first = model.predict(rows[:3], k=1)
        found = model.predict(rows, k=5)
        model.predict(rows[:2], k=50)
        model.row_norms()
        model.unsure(rows, found)
        model.explain(rows, found)
        Card.read(path).files(model)
        answers = [first, found]
        if model.probabilities:
            answers.append(model.predict(rows, k=5, dial=0.5))
        if isinstance(model.scorer, HasVectors):
            model.scorer.row_vectors(rows[:2]) @ model.scorer.label_vectors.T
        with contextlib.suppress(DataError):  # some combinations take no labels or no examples, and say so
            if isinstance(model.scorer, TakesLabels):
                answers.append(model.with_labels(["a label that joins"]).predict(rows[:2], k=3))
        with contextlib.suppress(DataError):
            if isinstance(model.scorer, TakesRows):
                known = [*model.labels.ids[:1], "joined"]
                joined = model.with_rows(["an apple that joins"], [known], ids=["joins"])
                answers.append(joined.predict(rows[:2], k=3))
        return all(bool(np.isfinite(one.scores).all()) for one in answers)

    def done(self, case: int) -> dict[str, Any]:
        """What became of a folder."""
        from longtail.errors import LongtailError
        from shared.model_mutations import mutated

        name = chosen(self.seed, case, self.only)
        folder, changes = mutated(self.folders[name], random.Random(f"{self.seed} {case}"))
        path = self.place / "model"
        size = folder.write(path)
        outcome, detail, before = "answered", "", _peak(reset=True)
        try:
            if not self.predict(path):
                outcome = "not finite"
        except LongtailError as error:
            outcome, detail = "refused", str(error)
            if "\n" in detail or len(detail) > 2000:
                outcome, detail = "foreign exception", f"an error of several lines or none: {detail}"
        except MemoryError as error:
            outcome, detail = "memory", _told(error)
        except IndexError as error:
            outcome, detail = "out of bounds", _told(error)
        except BaseException as error:
            outcome, detail = "foreign exception", _told(error)
        if self.loud and outcome != "refused":
            traceback.print_exc()
        used = _peak() - before
        if used > 2 * size + FREE:
            outcome, detail = "memory", f"{used / 1e6:.0f} MB for a folder of {size / 1e6:.1f} MB; {detail}"
        shutil.rmtree(path)
        seen = {"case": case, "model": name, "changes": changes, "outcome": outcome, "detail": detail}
        return seen | {"megabytes": round(used / 1e6, 1)}


def _told(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" at {Path(last[0].filename).name}:{last[0].lineno}" if last else ""
    return f"{type(error).__name__}: {str(error)[:200]}{where}"


def _peak(reset: bool = False) -> int:
    """The most memory that this process held since the last reset."""
    if reset:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def _work(seed: int, models: Path, only: list[str]) -> None:
    worker = Worker(seed, models, only)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(worker.done(int(line))), flush=True)
    shutil.rmtree(worker.place)


if __name__ == "__main__":
    main()
