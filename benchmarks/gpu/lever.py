"""Claim: soft labels from a teacher that knows the tail lift every learner there, at no cost when predicting.

    python benchmarks/gpu/lever.py DATA [DATA ...] --encoder FOLDER [--parts main tail teachers ...] [--seeds 1]
                                   [--workers 3] [--epochs 30] [--rows N] [--kept lever.jsonl] [--limit SECONDS]
    python benchmarks/gpu/lever.py --neighbours 1300000 384

DATA are folders of JSON lines; the words of WordNet are built by `longtail build hierarchy wordnet FOLDER --words`.
The paper's tables, by part:

    main       1, 5, 6, 15, 23, 24 and figures 2, 3, 8: each learner alone, with label rows, with LEVER; the teacher
    tail       2, 7, 10: LEVER against the other tail methods on the first learner, each also re-ranked
    ensemble   8: an encoder beside the learner
    teachers   11, 12: LEVER by encoder of the teacher, by documents or labels as its rows, by its loss
    blend      14 and figures 4 to 6: lambda
    tau        21, 22 and figure 7: labels and documents given to a label
    estimate   how similarities become relevances, and the floor
    chosen     tau and lambda chosen on valid, for each learner

Teachers are trained once a data set and seed and saved in a folder beside --kept, so that students share them; a
student's seconds are then its own, and the teacher's stand in a line of theirs. Every run is a process of its own,
several at a time on one GPU; seconds of runs that share it are not comparable, `--workers 1` times them. What stands
in --kept is not done again. Prints a table for each part and data set last: measures, contribution to P@5 by
frequency bin, and seconds.
Without a GPU, `--rows 500 --epochs 1 --encoder bag` rehearses it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

MEASURES = [f"{name}@{k}" for name in ("P", "PSP", "C") for k in (1, 3, 5)]
MACRO = [f"macro{name}@5" for name in ("F1", "P", "R")]
PARTS = ("main", "tail", "ensemble", "teachers", "blend", "tau", "estimate", "chosen")
STUDENTS = ("renee", "astec", "inceptionxml", "xreg", "parabel", "dismec")
OTHERS = ("rows", "gandalf", "bow", "taug", "glas", "l2tie")
BLENDS, TAUS, FLOORS = (0.0, 0.33, 0.5, 0.66, 0.8), (1, 4, 15, 40), (0.0, 0.7, 0.8, 0.9)


class Job(NamedTuple):
    """A recipe on a data set. `{teacher}` and the like in the recipe stand for the folders of saved models."""

    part: str
    data: str
    seed: int
    recipe: str
    teachers: tuple[tuple[str, str], ...] = ()  # a word of the recipe, and the recipe of the model it stands for


def teacher(options: argparse.Namespace, seed: int, **changed: str) -> str:
    own = {"encoder": repr(options.encoder), "epochs": str(2 * options.epochs), "rows": "'labels'", "seed": str(seed)}
    own |= {"loss": "'logistic'", "classifiers": "false"} | changed
    return f"ngame({', '.join(f'{name}={value}' for name, value in own.items())})"


def student(name: str, options: argparse.Namespace, seed: int) -> tuple[str, dict[str, str]]:
    """A learner with the settings of this run, and the models that it begins from."""
    from longtail.catalogue import learner_class

    if name != "renee":  # as it was typed
        seeded = "seed" in learner_class(name.partition("(")[0]).__dataclass_fields__
        more = [name.partition("(")[2].rstrip(")"), f"seed={seed}" if seeded else ""]
        settings = ", ".join(filter(None, more))
        return name.partition("(")[0] + (f"({settings})" if settings else ""), {}
    begun = teacher(options, seed, rows="'documents'", loss="'softmax'", epochs=str(options.epochs))
    own = f"encoder={options.encoder!r}, epochs={options.epochs}, seed={seed}"
    return f'renee({own}, warm="{{warm}}")', {"warm": begun}


def jobs(options: argparse.Namespace) -> list[Job]:
    """Everything asked for; the same recipe may stand in several parts and is trained once."""
    found: list[Job] = []
    for data in options.data:
        for seed in range(options.seeds):
            taught = teacher(options, seed)

            def add(part: str, recipe: str, data: str = data, seed: int = seed, **models: str) -> None:
                if part in options.parts:
                    found.append(Job(part, data, seed, recipe, tuple(models.items())))

            models = {"teacher": taught}
            for name in options.students:
                learner, begun = student(name, options, seed)
                for more in ("", " + rows", ' + lever(teacher="{teacher}")'):
                    add("main", learner + more, **begun, **(models if "lever" in more else {}))
                add(
                    "chosen", f"{learner} + lever(teacher=\"{{teacher}}\", tau='auto', blend='auto')", **begun, **models
                )
            add("main", "{teacher}", **models)
            first, begun = student(options.students[0], options, seed)
            for other in ("", *(f" + {one}" for one in options.others), ' + lever(teacher="{teacher}")'):
                for last in ("", " + rerank"):
                    add("tail", first + other + last, **begun, **(models if "lever" in other else {}))
            for more in (' + ensemble(encoder="{teacher}")', ' + ensemble(encoder="{teacher}", scaled=false)'):
                add("ensemble", first + more, **begun, **models)
            add("ensemble", f'{first} + lever(teacher="{{teacher}}")', **begun, **models)
            kinds = {f"encoder {Path(each).name}": {"encoder": repr(each)} for each in options.encoders}
            kinds |= {
                "documents as rows": {"rows": "'documents'", "epochs": str(options.epochs)},
                "hinge": {"loss": "'triplet'"},
                "softmax": {"loss": "'softmax'"},
            }
            for changed in kinds.values():
                other = teacher(options, seed, **changed)
                add("teachers", "{teacher}", teacher=other)
                add("teachers", f'{first} + lever(teacher="{{teacher}}")', **begun, teacher=other)

            def lever(part: str, first: str = first, begun: dict[str, str] = begun, **settings: Any) -> None:
                told = "".join(f", {name}={value!r}" for name, value in settings.items())
                add(part, f'{first} + lever(teacher="{{teacher}}"{told})', **begun, **models)  # noqa: B023

            for blend in BLENDS:
                lever("blend", blend=blend)
            for tau in TAUS:
                lever("tau", tau=tau)
            lever("tau", tau=15, documents=5)
            lever("tau", tau=15, documents=15)
            for floor in FLOORS:
                lever("estimate", floor=floor, blend=0.0)
            for estimate in ("logistic", "isotonic"):
                for floor in (0.0, 0.8):
                    lever("estimate", estimate=estimate, floor=floor, blend=0.0)
    return found


def one(data: str, recipe: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train (or load) and evaluate; runs in a process of its own."""
    import torch

    import longtail
    from longtail.metrics import evaluate
    from longtail.metrics.calibration import Teaching
    from longtail.progress import hearing

    corpus = longtail.load(data)
    train, valid, test = corpus.train, corpus.valid, corpus.test
    if options.rows is not None:
        train, valid, test = (part.take(range(min(options.rows, len(part)))) for part in (train, valid, test))
    begin = time.perf_counter()
    with hearing() as told:
        saved = Path(recipe) if (Path(recipe) / "manifest.json").exists() else None
        model = longtail.load_model(saved) if saved else longtail.Recipe.parse(recipe).fit(train, valid)
    seconds = time.perf_counter() - begin
    if options.save:
        model.save(options.save)
    begin = time.perf_counter()
    found = model.predict(test.rows, 5, test.excluded)
    predicting = time.perf_counter() - begin
    measures = evaluate(found, test)
    chosen_on = evaluate(model.predict(valid.rows, 5, valid.excluded), valid)
    teaching = next((fact for fact in told if isinstance(fact, Teaching)), None)
    return {
        "seconds": seconds,
        "predicting": predicting,
        "gpu": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0,
        **{name: measures[name] for name in (*MEASURES, *MACRO)},
        "bins": [(part.name, part.contribution, part.coverage) for part in measures.bins],
        "valid": {name: chosen_on[name] for name in MEASURES},
        "teaching": None
        if teaching is None
        else {
            "chosen": teaching.chosen,
            "entries": teaching.entries,
            "seconds": teaching.seconds,
            "ece": {each.name: each.error for each in teaching.calibrations},
            "errors": [(each.middle, each.labels, each.error) for each in teaching.errors],
        },
        "tries": [str(fact) for fact in told if not isinstance(fact, Teaching)],
    }


class Runner:
    """Jobs in processes, and the saved models that several of them share."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.models: Path = options.kept.resolve().with_suffix(".models")
        self.writing = threading.Lock()
        self.locks: dict[Path, threading.Lock] = {}
        self.begin = time.monotonic()

    def process(self, data: str, recipe: str, save: Path | None = None) -> dict[str, Any] | None:
        command = [sys.executable, __file__, data, "--one", recipe]
        command += ["--save", str(save)] if save else []
        command += ["--rows", str(self.options.rows)] if self.options.rows is not None else []
        threads = str(max((os.cpu_count() or 2) // self.options.workers, 1))
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "LONGTAIL_THREADS": threads}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            print(f"{recipe} on {Path(data).name} failed: {done.stderr[-1500:]}", file=sys.stderr, flush=True)
            return None
        return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]

    def keep(self, data: str, recipe: str, found: dict[str, Any]) -> None:
        line = {"data": Path(data).name, "recipe": recipe, "workers": self.options.workers, **found}
        with self.writing, self.options.kept.open("a") as file:
            file.write(json.dumps(line) + "\n")
        brief = " ".join(f"{line[name]:.1f}" for name in ("P@1", "P@5", "PSP@1", "PSP@5", "C@5"))
        print(f"{line['data']} {recipe}: {brief}  {line['seconds']:.0f} s", flush=True)

    def model(self, data: str, recipe: str) -> Path | None:
        """The folder of a saved model, trained by whoever asks first."""
        folder = self.models / Path(data).name / hashlib.blake2b(recipe.encode(), digest_size=8).hexdigest()
        with self.writing:
            lock = self.locks.setdefault(folder, threading.Lock())
        with lock:
            if not (folder / "manifest.json").exists():
                folder.parent.mkdir(parents=True, exist_ok=True)
                found = self.process(data, recipe, save=folder)
                if found is None:
                    return None
                self.keep(data, recipe, found)
        return folder

    def run(self, job: Job) -> None:
        if time.monotonic() - self.begin > self.options.limit:
            return
        folders = {}
        for word, recipe in job.teachers:
            folder = self.model(job.data, recipe)
            if folder is None:
                return
            folders[word] = str(folder)
        if job.recipe == "{teacher}":
            return  # its line was kept when it was trained
        recipe = job.recipe
        for word, place in folders.items():
            recipe = recipe.replace(f"{{{word}}}", place)
        found = self.process(job.data, recipe)
        if found is not None:
            self.keep(job.data, named(job), found)


def named(job: Job) -> str:
    """The recipe as its line is kept: with the recipes of the models that it was given as folders."""
    recipe = job.recipe
    for word, model in job.teachers:
        recipe = recipe.replace(f"{{{word}}}", model)
    return recipe


def kept(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {(line["data"], line["recipe"]): line for line in lines}


def spoken(recipe: str, options: argparse.Namespace) -> str:
    """Without what all recipes of this run have in common."""
    recipe = re.sub(r"seed=\d+", "seed=0", recipe)
    for usual in (f'teacher="{teacher(options, 0)}"', f'encoder="{teacher(options, 0)}"'):
        recipe = recipe.replace(f"{usual}, ", "").replace(usual, "")
    recipe = re.sub(r'warm="[^"]*"', "warm", recipe)
    for usual in (f"encoder={options.encoder!r}", f"epochs={options.epochs}", "seed=0"):
        recipe = recipe.replace(f"{usual}, ", "").replace(f", {usual}", "").replace(f"({usual})", "")
    return recipe.replace("()", "")


def tables(options: argparse.Namespace) -> str:
    found = kept(options.kept)
    lines = []
    for part in options.parts:
        for data in options.data:
            rows: dict[str, list[dict[str, Any]]] = {}
            for job in jobs(options):
                line = found.get((Path(data).name, named(job)))
                if job.part == part and job.data == data and line is not None:
                    rows.setdefault(spoken(named(job), options), []).append(line)
            if rows:
                lines += _table(f"{part}, {Path(data).name}", rows)
    return "\n".join(lines)


def _table(title: str, rows: dict[str, list[dict[str, Any]]]) -> list[str]:
    names = [*MEASURES, *MACRO]
    lines = ["", title, "", f"| recipe | seeds | {' | '.join(names)} | s | teacher s | soft labels s | predicting s |"]
    lines.append("| --- | --: |" + " --: |" * (len(names) + 4))

    def mean(runs: list[dict[str, Any]], name: str) -> str:
        return f"{statistics.mean(run[name] for run in runs):.1f}"

    for recipe, runs in rows.items():
        taught = [run["teaching"]["seconds"] for run in runs if run.get("teaching")]
        times = [
            f"{statistics.mean(one[name] for one in taught):.1f}" if taught else ""
            for name in ("teacher", "soft labels")
        ]
        cells = [*(mean(runs, name) for name in names), mean(runs, "seconds"), *times, mean(runs, "predicting")]
        lines.append(f"| `{recipe}` | {len(runs)} | {' | '.join(cells)} |")
    bins = [name for name, _, _ in next(iter(rows.values()))[0]["bins"]]
    lines += ["", "Points of P@5 by frequency bin, most frequent first, then coverage of the bins", ""]
    lines += [f"| recipe | {' | '.join(bins)} | {' | '.join(f'C {name}' for name in bins)} |"]
    lines.append("| --- |" + " --: |" * (2 * len(bins)))
    for recipe, runs in rows.items():
        cells = [
            f"{statistics.mean(run['bins'][place][which] for run in runs):.1f}"
            for which in (1, 2)
            for place in range(len(bins))
        ]
        lines.append(f"| `{recipe}` | {' | '.join(cells)} |")
    for recipe, runs in rows.items():
        facts = runs[0].get("teaching")
        if facts:
            chosen = ", ".join(f"{name} {value:g}" for name, value in facts["chosen"].items())
            errors = ", ".join(f"{name} {value:.1f}" for name, value in facts["ece"].items())
            lines.append(f"\n`{recipe}`: {chosen}; {facts['entries']:,} soft labels; ECE: {errors}")
            lines += [f"- {one}" for one in runs[0]["tries"]]
    return lines


def neighbours(labels: int, dimension: int, number: int = 16) -> None:
    """Seconds and memory of the nearest labels of all labels; exact, in single precision and by shortlists in half."""
    import numpy as np
    import torch

    from longtail.search.soft import index_of, other_labels

    chance = np.random.default_rng(0)
    centres = chance.standard_normal((max(labels // 50, 1), dimension), dtype=np.float32)
    vectors = centres[chance.integers(0, len(centres), labels)]
    for begin in range(0, labels, 1 << 16):  # drawn in pieces: there may be millions
        piece = vectors[begin : begin + (1 << 16)]
        piece += 0.7 * chance.standard_normal(piece.shape, dtype=np.float32)
        piece /= np.linalg.norm(piece, axis=1, keepdims=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    some = np.sort(chance.choice(labels, min(labels, 2000), replace=False))
    true = index_of(vectors, labels, "exact", device, "fp32").top(vectors[some], number)[0]
    print("| search | s | GiB beyond the vectors | neighbours that are the exact ones |\n| --- | --: | --: | --: |")
    for precision in ("bf16", "fp32"):
        if device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        begin_at = time.perf_counter()
        near = other_labels(index_of(vectors, labels, "exact", device, precision), vectors, number - 1)
        seconds = time.perf_counter() - begin_at
        extra = torch.cuda.max_memory_allocated() - 4 * vectors.size if device == "cuda" else 0
        found = np.concatenate([some[:, None], near.rows[some]], axis=1)
        same = np.mean([len(np.intersect1d(*pair)) for pair in zip(found, true, strict=True)]) / number
        print(f"| {precision} on {device} | {seconds:.1f} | {extra / 2**30:.2f} | {100 * same:.3f}% |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*")
    parser.add_argument("--one")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--neighbours", nargs=2, type=int, metavar=("LABELS", "DIMENSION"))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--students", nargs="+", default=list(STUDENTS), help="the first serves all parts but main")
    parser.add_argument("--others", nargs="+", default=list(OTHERS), help="tail methods beside lever")
    parser.add_argument("--encoder", default="minilm", help="of renee and of the teacher")
    parser.add_argument("--encoders", nargs="+", default=["bag"], help="other encoders of the teacher")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=30, help="of students; teachers have twice as many, of labels")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--kept", type=Path, default=Path("lever.jsonl"))
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no run is begun")
    options = parser.parse_args()
    if options.neighbours:
        neighbours(*options.neighbours)
        return
    if options.one:
        print(json.dumps(one(options.data[0], options.one, options)))
        return
    before = kept(options.kept)
    todo = {(job.data, named(job)): job for job in jobs(options) if (Path(job.data).name, named(job)) not in before}
    runner = Runner(options)
    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(runner.run, todo.values()))
    print(tables(options))


if __name__ == "__main__":
    main()
