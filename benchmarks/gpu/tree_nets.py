"""Claim: nets over a label tree reach what one classifier a label reaches, and soft labels lift their tail.

    python benchmarks/gpu/tree_nets.py DATA --encoder FOLDER [--nets elias cascadexml ...] [--methods rows lever ...]
        [--beside bonsai renee ...] [--settings elias="epochs=15, batch_size=256" ...] [--seeds 1] [--workers 8]
        [--limit SECONDS] [--each SECONDS] [--rows N] [--out FOLDER]

First the recipes of --beside and each net with each of its settings (several --settings of a net are tries, and the one
with the best P@1 on valid goes on), then each net with each tail method, then further seeds. The teacher of `lever` is
trained once and serves every student. Every training is a process of its own that is stopped after --each seconds of
running; nothing starts after --limit seconds, and what still runs 20 s later is stopped. Each result is a line of
FOLDER/tree_nets.jsonl, and what is stored there is not done again. `+ rerank` needs no training: it is measured on the
model that it re-ranks. FOLDER/answers.npz holds the top 20 labels of valid and test of the learners in --answers, for
`fuse`. Prints a table last. Trainings share the GPU, so seconds are comparable only with `--workers 1`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.splits import reranked, splits
from shared.tables import MEASURES, append_lines, read_lines
from shared.tables import table as markdown
from shared.timing import gpu_peak, reset_gpu

NETS = ("cascadexml", "elias", "xrtransformer", "attentionxml", "lightxml", "mach")
METHODS = ("lever", "rows", "gandalf")
BESIDE = ("bonsai", "renee(encoder='ENCODER', validate_every=0)")
TEACHER = "dpr(encoder='ENCODER', anchors='labels', epochs=60, validate_every=0)"
KEPT = 20  # labels of an answer


@dataclass(frozen=True)
class Job:
    """A training. ENCODER and TEACHER in the recipe stand for folders."""

    net: str  # what its lines are grouped by
    recipe: str
    method: str = ""  # the tail method, none for a learner alone
    seed: int = 0


def with_settings(recipe: str, settings: str) -> str:
    """A learner's recipe with further settings."""
    name, _, own = recipe.rstrip(")").partition("(")
    given = ", ".join(filter(None, [own, settings]))
    return f"{name}({given})" if given else name


def first_jobs(options: argparse.Namespace) -> list[Job]:
    """Each net with each of its settings, and the recipes beside."""
    tries: dict[str, list[str]] = {}
    for pair in options.settings:
        net, _, settings = pair.partition("=")
        tries.setdefault(net, []).append(settings)
    found = []
    for net in options.nets:
        base = net if net == "attentionxml" else f"{net}(encoder='ENCODER')"  # that one reads words by itself
        found += [Job(net, with_settings(base, one)) for one in tries.get(net, [""])]
    return found + [Job(recipe.partition("(")[0], recipe) for recipe in options.beside]


def later_jobs(net: str, recipe: str, options: argparse.Namespace) -> list[Job]:
    """A learner with each tail method, and all of it with further seeds."""
    found = []
    for seed in range(options.seeds):
        own = with_settings(recipe, f"seed={seed}") if seed else recipe
        for method in (*([""] if seed else []), *options.methods):
            more = "lever(teacher='TEACHER', init_student=false, guard=false)" if method == "lever" else method
            found.append(Job(net, f"{own} + {more}" if more else own, method, seed))
    return found


def train(job: Job, options: argparse.Namespace, out: Any, folder: Path) -> None:
    """Train and measure in a process of its own; the line goes through a pipe."""
    import torch

    import longtail
    from longtail.metrics import evaluate
    from longtail.progress import listening
    from longtail.threads import thread_count
    from shared.timing import Stages

    os.setpgid(0, 0)
    threads = max(thread_count() // options.workers, 1)
    os.environ["LONGTAIL_THREADS"] = str(threads)
    torch.set_num_threads(threads)
    line: dict[str, Any] = {"data": Path(options.data).name, "net": job.net, "method": job.method, "seed": job.seed}
    line |= {"recipe": job.recipe, "workers": options.workers}
    try:
        rows, valid, test = splits(options.data, options.rows)
        reset_gpu()
        begin = time.perf_counter()
        recipe = job.recipe.replace("ENCODER", options.encoder).replace("TEACHER", str(folder / "teacher"))
        heard = Stages()
        with listening(heard):
            model = longtail.Recipe.parse(recipe).fit(rows, valid)
        line |= {"seconds": time.perf_counter() - begin, "gib": gpu_peak() / 2**30}
        line["stages"] = {name: round(spent, 1) for name, spent in heard.seconds.items() if spent > 1}
        if job.net == "the teacher":
            model.save(folder / "teacher")
        begin = time.perf_counter()
        found = model.predict(test.rows, KEPT, test.excluded)
        line["predicting"] = time.perf_counter() - begin
        on_valid = model.predict(valid.rows, KEPT, valid.excluded)
        again = reranked(model).predict(test.rows, 5, test.excluded)
        for name, part, data in (("", found, test), ("valid", on_valid, valid), ("rerank", again, test)):
            measured = evaluate(part.top(5), data)
            some = {each: measured[each] for each in MEASURES}
            some["bins"] = [[one.name, one.low, one.high, one.recall, one.coverage] for one in measured.bins]
            line |= {name: some} if name else some
        if job.net in options.answers and not job.method and job.seed == 0:
            import numpy as np

            answers = folder / f"{job.net}-{os.getpid()}.npz"
            parts = {"test": found, "valid": on_valid}
            np.savez(
                answers,
                **{f"{name}_labels": part.indices.astype(np.int32) for name, part in parts.items()},
                **{f"{name}_scores": part.scores for name, part in parts.items()},
            )
    except Exception:
        line["error"] = traceback.format_exc()[-1500:]
    out.send(line)
    out.close()


class Runner:
    """Starts trainings as slots are free, in order, and stops those that run too long."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder, self.begin = options, folder, time.monotonic()
        self.kept = options.out / "tree_nets.jsonl"
        self.lines = [line for line in read_lines(self.kept) if line["data"] == Path(options.data).name]
        self.lines = [line for line in self.lines if line["net"] != "the teacher"]  # its model is needed again
        self.running: dict[Job, tuple[Any, Any, float]] = {}
        self.todo = [Job("the teacher", options.teacher)] if "lever" in options.methods else []
        self.todo += first_jobs(options)
        self.locked = dict.fromkeys([*options.nets, *(one.partition("(")[0] for one in options.also)])

    def run(self) -> None:
        """Do all jobs, or as many as there is time for."""
        own, context = self.options, get_context("fork")
        while self.todo or self.running or self.locked:
            self.unlock()
            now = time.monotonic()
            for job in [] if now - self.begin > own.limit else list(self.todo):
                if len(self.running) < own.workers and (job.method != "lever" or (self.folder / "teacher").exists()):
                    self.todo.remove(job)
                    if any(line["recipe"] == job.recipe and "error" not in line for line in self.lines):
                        continue
                    here, there = context.Pipe(duplex=False)
                    process = context.Process(target=train, args=(job, own, there, self.folder))
                    process.start()
                    there.close()
                    self.running[job] = (process, here, now)
            for job, (process, pipe, started) in list(self.running.items()):
                if pipe.poll():
                    try:
                        self.keep(pipe.recv())
                    except EOFError:
                        print(f"{self.short(job.recipe)}: its process died", flush=True)
                elif now - started > own.each or now - self.begin > own.limit + 20:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)  # the group that it made for itself
                    print(f"{self.short(job.recipe)}: stopped after {now - started:.0f} s", flush=True)
                else:
                    continue
                process.join()
                del self.running[job]
            if not self.running and now - self.begin > own.limit:
                break
            time.sleep(0.05)
        if self.todo:
            print(f"not begun: {'; '.join(self.short(job.recipe) for job in self.todo)}", flush=True)

    def unlock(self) -> None:
        """Let the tail methods follow on each learner that has been tried."""
        for net in list(self.locked):
            if not any(job.net == net and not job.method for job in (*self.todo, *self.running)):
                del self.locked[net]
                recipe = self.chosen().get(net)
                order = ["", *self.options.methods]
                self.todo += later_jobs(net, recipe, self.options) if recipe else []
                self.todo.sort(key=lambda job: (job.seed, order.index(job.method)))

    def keep(self, line: dict[str, Any]) -> None:
        append_lines(self.kept, line)
        self.lines.append(line)
        brief = line.get("error") or " ".join(f"{name} {line[name]:.1f}" for name in ("P@1", "P@5", "PSP@5", "C@5"))
        if "error" not in line:
            brief += f"  valid P@1 {line['valid']['P@1']:.1f}  {line['seconds']:.0f} s, {line['gib']:.1f} GiB"
        print(f"[{time.monotonic() - self.begin:.0f} s] {self.short(line['recipe'])}: {brief}", flush=True)

    def short(self, recipe: str) -> str:
        return recipe.replace("encoder='ENCODER'", Path(self.options.encoder).name)

    def chosen(self) -> dict[str, str]:
        """The settings of each net with the best P@1 on valid, and the recipes of --also as they are."""
        found = {}
        for net in self.options.nets:
            own = [line for line in self.lines if line["net"] == net and not line["method"] and not line["seed"]]
            if own := [line for line in own if "P@1" in line]:
                found[net] = max(own, key=lambda line: line["valid"]["P@1"])["recipe"]
        return found | {recipe.partition("(")[0]: recipe for recipe in self.options.also}

    def table(self) -> str:
        """A line for each recipe: means over its seeds."""
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for line in self.lines:
            if "P@1" in line:
                plain = line["recipe"].replace(f", seed={line['seed']})", ")", 1) if line["seed"] else line["recipe"]
                groups.setdefault((line["net"], plain), []).append(line)
        shown = []
        for (_, recipe), some in sorted(groups.items()):
            for part in ("", "rerank"):
                values = [line[part] if part else line for line in some]
                means = [f"{sum(value[name] for value in values) / len(some):.2f}" for name in MEASURES]
                cost = ["", ""] if part else [f"{some[0]['seconds']:.0f}", f"{some[0]['gib']:.1f}"]
                shown.append([f"`{self.short(recipe)}{' + rerank' if part else ''}`", len(some), *means, *cost])
        return markdown(["recipe", "seeds", *MEASURES, "s", "GiB"], shown)

    def gather(self) -> None:
        """All answers in one file."""
        import numpy as np

        found = {}
        for path in sorted(self.folder.glob("*.npz")):
            with np.load(path) as stored:
                found |= {f"{path.stem}_{name}": stored[name] for name in stored.files}
        if found:
            np.savez_compressed(self.options.out / "answers.npz", **found)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", help="folder of a data set")
    parser.add_argument("--encoder", required=True, help="of all nets but attentionxml")
    parser.add_argument("--nets", nargs="*", default=list(NETS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), help="tail methods")
    parser.add_argument(
        "--beside", nargs="*", default=list(BESIDE), help="recipes to compare with; ENCODER is filled in"
    )
    parser.add_argument("--also", nargs="*", default=[], help="recipes that get the tail methods too")
    parser.add_argument("--settings", nargs="*", default=[], metavar="NET=SETTINGS", help="settings to try")
    parser.add_argument(
        "--answers",
        nargs="*",
        default=[],
        help="learners whose answers are kept",
    )
    parser.add_argument("--teacher", default=TEACHER)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=8, help="trainings at a time")
    parser.add_argument("--limit", type=float, default=480, help="seconds after which no training starts")
    parser.add_argument("--each", type=float, default=180, help="seconds of a training at most")
    parser.add_argument("--rows", type=int, help="only the first rows of each split, to try the script")
    parser.add_argument("--out", type=Path, default=Path("tree_nets"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    from longtail.nn.encoders.token_cache import sharing_tokens
    from shared.workers import tokenise_all

    with tempfile.TemporaryDirectory() as folder, sharing_tokens():
        runner = Runner(options, Path(folder))
        warming = get_context("fork").Process(target=warm)  # in a process of its own: threads do not outlive a fork
        warming.start()
        parts = splits(options.data, options.rows)
        if Path(options.encoder).is_dir():
            tokenise_all(options.encoder, parts)
        warming.join()
        print(f"[{time.monotonic() - runner.begin:.0f} s] data are read", flush=True)
        runner.run()
        runner.gather()
    print(f"chosen on valid: {runner.chosen()}")
    print(runner.table())


def warm() -> None:
    """Compile the kernels of trees once, before many processes would each do it."""
    import longtail
    from longtail.warmup import few_rows

    rows = few_rows(True, False)
    for recipe in ("bonsai", "parabel"):
        longtail.Recipe.parse(recipe).fit(rows, rows).predict(rows.rows, 5)


if __name__ == "__main__":
    main()
