"""Claim: soft labels from a teacher that knows the tail lift every learner there, at no cost in prediction.

    python benchmarks/gpu/lever.py DATA [DATA ...] --encoder FOLDER [--parts main tail teachers ...] [--seeds 1]
        [--students renee astec ...] [--teacher RECIPE] [--tries "tau=4, blend=0" ...]
        [--workers 3] [--epochs 30] [--rows N] [--kept lever.jsonl] [--limit SECONDS]

DATA are folders of JSON lines; the words of WordNet are built by `longtail build hierarchy wordnet FOLDER --words`. The
paper's tables, by part:

    main       1, 5, 6, 10, 15, 23, 24 and figures 2, 3, 8: each learner alone, with label rows, with LEVER; the teacher
    tail       2, 7, 10: LEVER against the other tail methods on the first learner
    ensemble   8: an encoder beside the learner
    teachers   11, 12: LEVER by encoder of the teacher, by documents or labels as its rows, by its loss
    blend      14 and figures 4 to 6: lambda
    tau        21, 22 and figure 7: labels and documents given to a label
    estimate   how similarities become relevances, and the floor
    chosen     tau and lambda chosen on valid, for each learner
    search     the settings of lever in --tries, on the first learner or on one of their own, as in
               "renee(propensity_power=0.25): documents=40": to choose from on valid

Teachers and warm starts are trained once for each data set and seed and saved in a folder beside --kept, where all
students find them; the seconds of a student are then its own, and those of the teacher have their own line. --teacher
is a recipe in which ENCODER, EPOCHS and SEED are filled in, or the folder of a saved model. Workers are forked from one
process that has read the data. Seconds of runs that share a GPU are not comparable; `--workers 1` makes them so. Each
model is also evaluated with its predictions re-ranked by inverse propensity, as `+ rerank` does, and by small powers of
it. Prints a line for each result and appends it to --kept; what is stored there is not done again. `lever_tables.py`
makes tables and figures of it. Without a GPU, `--rows 500 --epochs 1 --encoder bag` tries the script.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
import traceback
from collections.abc import Iterator
from multiprocessing.pool import AsyncResult, Pool
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.splits import reranked, splits
from shared.tables import MEASURES, append_lines, read_lines
from shared.timing import gpu_peak, reset_gpu
from shared.workers import worker_pool

MACRO = [f"macro{name}@5" for name in ("F1", "P", "R")]
PARTS = ("main", "tail", "ensemble", "teachers", "blend", "tau", "estimate", "chosen", "search")
STUDENTS = ("renee", "astec", "inceptionxml", "xreg", "parabel", "dismec")
OTHERS = ("rows", "gandalf", "bow", "taug", "glas", "l2tie")
BLENDS, TAUS, DOCUMENTS = (0.0, 0.33, 0.5, 0.66, 0.8), (1, 4, 15, 40), (0, 5, 15, 40)
ESTIMATES = ("", "estimate='logistic'", *(f"estimate='cosine', floor={floor}" for floor in (0.7, 0.8, 0.9)))
LABELS = "encoder='ENCODER', epochs=EPOCHS, rows='labels', seed=SEED, measure_every=0"
TEACHERS = {
    "dpr": f"dpr({LABELS})",
    "ngame logistic": f"ngame({LABELS}, loss='logistic', classifiers=false)",
    "ngame hinge": f"ngame({LABELS}, loss='triplet', classifiers=false)",
    "ngame softmax": f"ngame({LABELS}, classifiers=false)",
}
WARM = "ngame(encoder='ENCODER', epochs=EPOCHS, classifiers=false, seed=SEED, validate_every=0)"
WARMED, TAUGHT, BESIDE = 'warm="{warm}"', 'teacher="{teacher}"', 'encoder="{teacher}"'  # folders that are filled in
BRIEF = ("P@1", "PSP@1", "PSP@5", "C@5")
STRENGTHS = (0.1, 0.2, 0.3, 0.5)  # of a re-ranking that only nudges


class Job(NamedTuple):
    """A recipe on a data set. `{teacher}` and the like in the recipe stand for the folders of saved models."""

    data: str
    seed: int
    recipe: str
    models: tuple[tuple[str, str], ...] = ()  # a word of the recipe, and the recipe of the model it stands for

    def __str__(self) -> str:
        """The recipe as its line is kept: with the recipes of the models that it is given as folders."""
        recipe = self.recipe
        for word, model in self.models:
            recipe = recipe.replace(f"{{{word}}}", model)
        return recipe


DistillSettings = tuple[str, str, Job]  # a part, what its table calls the line, and what to train


def filled(recipe: str, encoder: str, epochs: int, seed: int) -> str:
    return recipe.replace("ENCODER", encoder).replace("EPOCHS", str(epochs)).replace("SEED", str(seed))


def changed(recipe: str, **settings: str) -> str:
    """A recipe of one learner with some settings replaced, or added."""
    for name, value in settings.items():
        recipe, times = re.subn(rf"\b{name}=('[^']*'|[^,)]*)", f"{name}={value}", recipe)
        recipe = recipe if times else f"{recipe[:-1]}, {name}={value})"
    return recipe


def shown(name: str) -> str:
    """A student as tables call it: without how long it is trained."""
    bare, _, given = name.rstrip(")").partition("(")
    own = [one for one in given.split(", ") if one and not one.startswith(("epochs=", "measure_every="))]
    return f"{bare}({', '.join(own)})" if own else bare


def student(name: str, options: argparse.Namespace, seed: int) -> tuple[str, dict[str, str]]:
    """A learner with the settings of this run, and the models that it begins from."""
    from longtail.catalogue import learner_class

    bare, _, given = name.rstrip(")").partition("(")
    own = [given] if given else []
    if seed and "seed" in learner_class(bare).__dataclass_fields__:
        own.append(f"seed={seed}")
    if bare != "renee":
        return f"{bare}({', '.join(own)})" if own else bare, {}
    own += [*([] if "epochs=" in given else [f"epochs={options.epochs}"]), "measure_every=0"]
    if "warm=" in given:
        return f"renee({', '.join(own)})", {}
    if not options.warm:
        return f"renee({', '.join([f'encoder={options.encoder!r}', *own])})", {}
    begun = filled(options.warm, options.encoder, options.epochs, seed)
    return f"renee({', '.join([*own, WARMED])})", {"warm": begun}


def jobs(options: argparse.Namespace) -> dict[Job, dict[str, str]]:
    """Everything asked for, and for each part what its table calls it; a recipe may stand in several parts."""
    found: dict[Job, dict[str, str]] = {}
    for data in options.data:
        for seed in range(options.seeds):
            for part, name, job in _jobs(options, data, seed):
                if part in options.parts and (part in ("main", "search") or seed == 0):
                    found.setdefault(job, {})[part] = name
    return found


def _jobs(options: argparse.Namespace, data: str, seed: int) -> Iterator[DistillSettings]:
    taught = filled(options.teacher, options.encoder, 2 * options.epochs, seed)

    def job(part: str, name: str, more: str = "", say: str | None = None, **models: str) -> DistillSettings:
        learner, begun = student(name, options, seed)
        return (
            part,
            shown(name) + (more if say is None else say),
            Job(data, seed, learner + more, tuple((begun | models).items())),
        )

    def lever(part: str, name: str, settings: str = "", say: str = "", teacher: str = taught) -> DistillSettings:
        shown_as = say or settings
        more = f" + lever({', '.join(filter(None, [TAUGHT, unusual(settings)]))})"
        return job(part, name, more, " + lever" + (f"({shown_as})" if shown_as else ""), teacher=teacher)

    first = options.students[0]
    yield "main", "the teacher", Job(data, seed, "{teacher}", (("teacher", taught),))
    for name in options.students:
        yield lever("main", name)
        yield job("main", name)
        yield job("main", name, " + rows")
    for settings in options.tries:
        own, colon, rest = settings.rpartition("): ")
        yield lever("search", own + ")" if colon else first, rest)
    yield lever("tail", first)
    yield job("tail", first)
    for other in options.others:
        own, colon, rest = other.rpartition("): ")
        begun = {"teacher": taught} if "{teacher}" in other else {}
        yield job("tail", own + ")" if colon else first, f" + {rest}", **begun)
    for own in ("", "scaled=false"):
        more = f" + ensemble({', '.join(filter(None, [BESIDE, own]))})"
        yield job("ensemble", first, more, " + ensemble" + (f"({own})" if own else ""), teacher=taught)
    yield lever("ensemble", first)
    kinds = {f"encoder {Path(each).name}": changed(taught, encoder=repr(each)) for each in options.encoders}
    kinds |= {f"{name}, labels as rows": filled(recipe, options.encoder, 2 * options.epochs, seed)
              for name, recipe in TEACHERS.items()}  # fmt: skip
    kinds["documents as rows"] = filled(options.warm or WARM, options.encoder, options.epochs, seed)
    named = {name: filled(recipe, options.encoder, 2 * options.epochs, seed) for name, recipe in options.teachers}
    for word, recipe in (named or kinds).items():
        yield "teachers", f"teacher: {word}", Job(data, seed, "{teacher}", (("teacher", recipe),))
        if not options.teachers_alone:
            yield lever("teachers", first, say=f"teacher: {word}", teacher=recipe)
    for blend in BLENDS:
        yield lever("blend", first, f"blend={blend}")
    for tau in TAUS:
        yield lever("tau", first, f"tau={tau}")
    for number in DOCUMENTS:
        yield lever("tau", first, f"min_documents={number}")
    for settings in ESTIMATES:
        yield lever("estimate", first, settings)
    for name in options.students:
        yield lever("chosen", name, "tau='auto', blend='auto'")


def unusual(settings: str) -> str:
    """Those settings of lever that are not its defaults, so that one recipe is trained once."""
    from longtail.tail.lever import Lever

    usual = Lever()
    pairs = [pair.split("=") for pair in re.split(r",\s*", settings)] if settings else []
    return ", ".join(f"{name}={value}" for name, value in pairs if str(getattr(usual, name)) != value.strip("'"))


def one(data: str, recipe: str, rows: int | None, save: Path | None = None) -> dict[str, Any]:
    """Train (or load) and measure; runs in a worker."""
    import longtail
    from longtail.metrics.calibration import Teaching
    from longtail.progress import collecting
    from longtail.tail.ensemble import TailThreshold
    from longtail.tail.lever import Try

    try:
        train, valid, test = splits(data, rows)
        reset_gpu()
        begin = time.perf_counter()
        with collecting() as heard:
            saved = (Path(recipe) / "manifest.json").exists()
            model = longtail.load_model(recipe) if saved else longtail.Recipe.parse(recipe).fit(train, valid)
        seconds = time.perf_counter() - begin
        if save is not None and not save.exists():
            model.save(save)
        begin = time.perf_counter()
        found = model.predict(test.rows, 5, test.excluded)
        predicting = time.perf_counter() - begin
        again = reranked(model)
        teaching = next((fact for fact in heard if isinstance(fact, Teaching)), None)
        return {
            "seconds": seconds,
            "predicting": predicting,
            "gpu": gpu_peak(),
            **measured(found, test),
            "valid": measured(model.predict(valid.rows, 5, valid.excluded), valid),
            "reranked": measured(again.predict(test.rows, 5, test.excluded), test),
            "nudged": nudged(model, valid, test),
            "teaching": None if teaching is None else facts(teaching),
            "tries": [str(fact) for fact in heard if isinstance(fact, Try | TailThreshold)],
        }
    except Exception:
        return {"error": traceback.format_exc()[-1500:]}


def nudged(model: Any, valid: Any, test: Any) -> list[tuple[float, list[float], list[float]]]:
    """Each strength of re-ranking, and brief measures with the points of P@5 of the bins, on valid and on test."""
    from longtail.metrics import evaluate
    from longtail.predictions import CANDIDATES
    from longtail.tail.rerank import Rerank

    parts = [(part, model.predict(part.rows, CANDIDATES, part.excluded)) for part in (valid, test)]
    lines = []
    for strength in STRENGTHS:
        moved = Rerank(strength=strength).fit_reranker(model)
        some = [evaluate(moved.rerank(found, part.rows).top(5), part) for part, found in parts]
        brief = [[each[name] for name in BRIEF] + [one.contribution for one in each.bins] for each in some]
        lines.append((strength, *brief))
    return lines


def measured(found: Any, data: Any) -> dict[str, Any]:
    from longtail.metrics import evaluate

    measures, fine = evaluate(found, data), evaluate(found, data, bins=10)
    bins = {
        name: [(part.name, part.low, part.high, part.contribution, part.recall, part.coverage) for part in some.bins]
        for name, some in (("bins", measures), ("deciles", fine))
    }
    return {**{name: measures[name] for name in (*MEASURES, *MACRO)}, **bins}


def facts(teaching: Any) -> dict[str, Any]:
    return {
        "chosen": teaching.chosen,
        "entries": teaching.entries,
        "seconds": teaching.seconds,
        "ece": {each.name: each.error for each in teaching.calibrations},
        "curves": {
            each.name: [(part.mean_score, part.hit_rate, part.count) for part in each.bins]
            for each in teaching.calibrations
        },
        "frequencies": [(each.low, each.high, each.found, each.expected) for each in teaching.frequencies],
    }


class Runner:
    """Jobs over worker processes; a job waits until the models that it is given are there."""

    def __init__(self, options: argparse.Namespace, names: dict[Job, dict[str, str]]) -> None:
        self.options, self.names, self.begin = options, names, time.monotonic()
        self.folder: Path = options.models or options.kept.resolve().with_suffix(".models")
        self.running: list[tuple[AsyncResult[dict[str, Any]], Job, Path | None]] = []
        self.failed: set[Path] = set()

    def place(self, data: str, recipe: str) -> Path:
        """Where a model is saved, or was already."""
        if (Path(recipe) / "manifest.json").exists():
            return Path(recipe)
        return self.folder / f"{Path(data).name}-{hashlib.blake2b(recipe.encode(), digest_size=8).hexdigest()}"

    def run(self, todo: list[Job]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        own = self.options
        with worker_pool(own.workers, own.data, own.rows, [own.encoder, *own.encoders]) as pool:
            while True:
                late = time.monotonic() - self.begin > own.limit
                for job in [] if late else list(todo):
                    if self.start(pool, job):
                        todo.remove(job)
                if not self.running:
                    return
                for run in [run for run in self.running if run[0].ready()]:
                    self.running.remove(run)
                    todo = self.finish(*run[1:], run[0].get(), todo)
                time.sleep(0.05)

    def start(self, pool: Pool, job: Job) -> bool:
        """Begin a job, or the models it waits for, where a worker is free. Whether it needs no more looking after."""
        if any(job == other for _, other, _ in self.running):
            return False  # a model that others wait for, saved and not measured yet
        recipe, ready = job.recipe, True
        for word, model in job.models:
            place = self.place(job.data, model)
            if place in self.failed:
                return True
            recipe = recipe.replace(f"{{{word}}}", str(place))
            if not place.exists():
                ready = False
                known = any(place == other for *_, other in self.running)
                if not known and len(self.running) < self.options.workers:
                    lone = Job(job.data, job.seed, "{teacher}", (("teacher", model),))
                    trained = pool.apply_async(one, (job.data, model, self.options.rows, place))
                    self.running.append((trained, lone, place))
        if not ready or len(self.running) >= self.options.workers:
            return False
        self.running.append((pool.apply_async(one, (job.data, recipe, self.options.rows)), job, None))
        return True

    def finish(self, job: Job, place: Path | None, found: dict[str, Any], todo: list[Job]) -> list[Job]:
        """Keep what came of a job. What is left to do: a model was measured when it was trained."""
        if "error" in found:
            print(f"{job} failed: {found['error']}", file=sys.stderr, flush=True)
            self.failed |= {place} if place else set()
            return todo
        line: dict[str, Any] = {"data": Path(job.data).name, "seed": job.seed, "recipe": str(job)}
        line |= {"parts": self.names.get(job, {}), "workers": self.options.workers, **found}
        append_lines(self.options.kept, line)
        name = next(iter(line["parts"].values()), str(job))
        brief = " ".join(f"{line[name]:.1f}" for name in BRIEF) + " valid "
        brief += " ".join(f"{line['valid'][name]:.1f}" for name in BRIEF)
        since = f"{found['seconds']:.0f} s, {time.monotonic() - self.begin:.0f} s in"
        print(f"{line['data']} {name} [{job.seed}]: {brief}  {since}", flush=True)
        return [other for other in todo if other != job]


def done_before(path: Path) -> set[tuple[str, int, str]]:
    return {(line["data"], line["seed"], line["recipe"]) for line in read_lines(path)}


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="folders of data sets")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, help="what to train")
    parser.add_argument("--students", nargs="+", default=list(STUDENTS), help="the first serves all parts but main")
    parser.add_argument("--others", nargs="+", default=list(OTHERS), help="other tail methods, written as in --tries")
    parser.add_argument("--tries", nargs="+", default=[], help="settings of lever, for the part search")
    parser.add_argument("--encoder", default="minilm", help="of renee and of the teacher")
    parser.add_argument("--encoders", nargs="*", default=["bag"], help="other encoders of the teacher")
    parser.add_argument("--teacher", default=TEACHERS["dpr"], help="recipe or folder")
    parser.add_argument(
        "--teachers", nargs="*", default=[], type=lambda text: text.split("=", 1), metavar="NAME=RECIPE",
        help="recipes or folders for the part teachers, instead of its own",
    )  # fmt: skip
    parser.add_argument("--teachers-alone", action="store_true", help="part teachers without students")
    parser.add_argument("--warm", default=WARM, help="recipe or folder of renee's warm start; '': none")
    parser.add_argument("--seeds", type=int, default=1, help="of main and search; the others have one")
    parser.add_argument("--workers", type=int, default=3, help="trainings at a time")
    parser.add_argument("--epochs", type=int, default=30, help="of students; teachers have twice as many, of labels")
    parser.add_argument("--rows", type=int, help="only the first rows of each split, to try the script")
    parser.add_argument("--skip", metavar="PATTERN", help="recipes that match are left out")
    parser.add_argument("--kept", type=Path, default=Path("lever.jsonl"), help="file of the results")
    parser.add_argument("--models", type=Path, help="folder of saved teachers; beside --kept where none is named")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no run starts")
    options = parser.parse_args()
    names, before = jobs(options), done_before(options.kept)
    todo = [job for job in names if (Path(job.data).name, job.seed, str(job)) not in before]
    todo = [job for job in todo if options.skip is None or not re.search(options.skip, str(job))]
    todo.sort(key=lambda job: min(options.parts.index(part) for part in names[job]))  # as parts were named
    Runner(options, names).run(todo)


if __name__ == "__main__":
    main()
