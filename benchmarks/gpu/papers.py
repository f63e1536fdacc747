"""Claim: the tables of the papers whose rows are nets, each row trained on one GPU beside the others.

    python benchmarks/gpu/papers.py DATA [--encoder NAME] [--rows "PAPER TABLE PATTERN SEEDS" ...] [--workers 12]
        [--limit SECONDS] [--out FOLDER] [--keep FOLDER]

`longtail reproduce` trains one row after another. Here processes share the GPU, and each trains one row with one seed;
results are the same. Rows are trained in the order of --rows: a paper, a table, a pattern of row names and how many
seeds, such as "unidec 2.2 *ours* 3"; without --rows those of ROWS below. Every row is trained with the first seed, then
those with more seeds. --encoder reads the texts of rows that name a pretrained encoder. What is in --keep is not
trained again. After --limit seconds nothing is started any more. Prints a line for each training and the tables last,
and writes reproduce-PAPER-DATA.json of each paper to --out, as `longtail reproduce` does. Without a GPU,
`wordnet --rows "dexa 2 bag,* 1" --workers 2` tries the script.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import shlex
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.pool import AsyncResult
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.workers import set_threads, tokenise_all

KS = (1, 3, 5, 25)  # of the measures that the tables print
ROWS = (
    # The longest first: 300 epochs.
    "dexa 2 NGAME 1",
    "dexa 2 DEXA 1",
    # Then models that others start from or learn from.
    "lever fig3 Encoder,_ours 1",
    "unidec 2.2 NGAME_(Phi),_ours 3",
    "unidec 2.2 *ours* 3",
    "lever 1 Renée*,_ours 2",
    "unidec 2.2 UniDEC 2",
    "unidec 2.2 DePSL_(Phi) 2",
    "unidec 2.3 DePSL,_pick_one_label* 2",
    "unidec 2.3 *,_ours 2",
    "dexa 5 MiniLM-L3* 3",
    "dexa 5 bag* 3",
    "dexa 5 gru* 2",
    "dexa 2 minilm,* 2",
    "gandalf 2 D 2",
    "gandalf 2 G_=_Z_+_D 2",
    "gandalf 2 Z* 2",
    "gandalf 2 U* 1",
    "gandalf 2 G,_sigma* 1",
    "gandalf 6 +_* 1",
    "gandalf 7 +_Gandalf* 1",
    "lever 7 *ours 1",
    "lever 8 *ours 1",
    "unidec 2.4 UniDEC:* 1",
    "unidec 2.4 ours,_UniDEC:* 1",
    "lever 14 *ours 1",
    "lever 21 *ours 1",
    "dexa 6 bag* 2",
    "dexa 7 bag* 2",
    "unidec 2.6 ours* 1",
    "unidec 2.5 ours,_UniDEC* 1",
    "gandalf fig3 [0-9]* 1",
)
# Too long for a shared GPU: many students, or a hundred epochs over all labels.
LEFT = ("renee:paper", "lever:auto", "soft_scale='auto'")


class Job(NamedTuple):
    """One recipe with one seed."""

    recipe: str
    seed: int


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data")
    parser.add_argument("--encoder")
    parser.add_argument("--rows", nargs="+", default=list(ROWS))
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--limit", type=float, default=3600.0)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--keep", type=Path, default=Path("papers-runs"))
    options = parser.parse_args()
    began = time.perf_counter()
    tables, jobs = wanted(options.rows, options.encoder)
    print(f"{len(jobs)} trainings", flush=True)
    corpus = train_all(jobs, options, began)
    write(tables, corpus, options, time.perf_counter() - began)


def wanted(lines: list[str], encoder: str | None) -> tuple[dict[tuple[str, str], Any], list[Job]]:
    """The tables with the rows that are asked for, and what is to be trained, the first seed of all rows first."""
    from dataclasses import replace

    from longtail.reproduction import find_paper
    from longtail.reproduction.own_encoder import with_encoder
    from longtail.reproduction.run import chosen_rows

    tables: dict[tuple[str, str], Any] = {}
    jobs: dict[Job, None] = {}
    found = []
    for line in lines:
        paper, name, pattern, seeds = line.split()
        whole = find_paper(paper).table(name)
        [table] = chosen_rows([whole], [pattern.replace("_", " ")])
        table = replace(table, rows=tuple(row for row in table.rows if not any(one in row.recipe for one in LEFT)))
        if encoder is not None:
            table = with_encoder(table, encoder)
        found.append((table, int(seeds)))
        before = tables.get((paper, name))
        names = [row.name for row in table.rows] + ([] if before is None else [row.name for row in before.rows])
        own = {row.name: row for row in (*table.rows, *(() if before is None else before.rows))}
        ordered = [row.name for row in whole.rows if row.name in names]
        tables[paper, name] = replace(whole, rows=tuple(own[one] for one in ordered))
    for seed in range(max(seeds for _, seeds in found)):
        for table, seeds in found:
            if seed < seeds:
                jobs.update({Job(row.recipe, seed): None for row in table.ready})
    return tables, list(jobs)


def stages(job: Job) -> set[str]:
    """The models that a training makes or needs: trainings that share one must not make it at the same time."""
    from longtail.comparison.entries import reseeded
    from longtail.recipe import Recipe

    return set(reseeded(Recipe.parse(job.recipe), job.seed).stages)


def train_all(jobs: list[Job], options: argparse.Namespace, began: float) -> Any:
    """Train until all is done or the time is out. The parent does not use the GPU, so that workers can be forked."""
    from longtail.data.read import load
    from longtail.nn.encoders.token_cache import sharing_tokens

    with sharing_tokens():
        corpus = load(options.data, test_share=0.1)
        if options.encoder and Path(options.encoder).is_dir():
            tokenise_all(options.encoder, (corpus.train, corpus.valid, corpus.test))
        threads = max((os.cpu_count() or 2) // options.workers, 1)
        shared = (threads, corpus, options.keep)
        with multiprocessing.get_context("fork").Pool(options.workers, begin, shared) as pool:
            schedule(pool, jobs, options, began)
            pool.terminate()
    return corpus


def schedule(pool: Any, jobs: list[Job], options: argparse.Namespace, began: float) -> None:
    """Start trainings in their order, each when nothing that runs makes a model that it needs."""
    waiting = {job: stages(job) for job in jobs}
    running: dict[Job, tuple[AsyncResult[str], set[str]]] = {}
    made: set[str] = set()
    late = options.limit + 60  # what runs when the time is out may still end
    while waiting or running:
        gone = time.perf_counter() - began
        for job, (answer, names) in list(running.items()):
            if answer.ready():
                del running[job]
                made |= names
                print(f"{gone:6.0f} s  {answer.get()}", flush=True)
        if gone > options.limit:
            waiting.clear()
        if gone > late:
            print(f"stopped: {', '.join(job.recipe for job in running)}", flush=True)
            return
        busy = set().union(*(names for _, names in running.values()))
        for job, names in list(waiting.items()):
            if len(running) >= options.workers:
                break
            if not names & busy - made:
                del waiting[job]
                running[job] = (pool.apply_async(train, (job,)), names)
                busy |= names
        time.sleep(0.1)


def begin(threads: int, corpus: Any, folder: Path) -> None:
    global CORPUS, FOLDER
    set_threads(threads)
    CORPUS, FOLDER = corpus, folder


def train(job: Job) -> str:
    """Train one recipe with one seed; its result is left in the folder."""
    from longtail.comparison import each
    from longtail.errors import LongtailError

    start = time.perf_counter()
    try:
        [result] = each(CORPUS, [job.recipe], KS, FOLDER, [job.seed])
    except (LongtailError, RuntimeError) as error:
        return f"seed {job.seed} {job.recipe}: {type(error).__name__}: {error}"
    values = result.measures.values
    figures = ", ".join(f"{name} {values[name]:.2f}" for name in ("P@1", "PSP@1", "PSP@5", "C@5"))
    return f"seed {job.seed} {job.recipe}: {figures}; {time.perf_counter() - start:.0f} s"


def version(package: str) -> str:
    module = import_module(package)
    return str(module.__version__)


def write(tables: dict[tuple[str, str], Any], corpus: Any, options: argparse.Namespace, seconds: float) -> None:
    """Print the tables of what is there, and write them as `longtail reproduce` does."""
    from longtail.comparison.entries import parse_entry
    from longtail.comparison.finished import read_result, result_file
    from longtail.report.result import joined
    from longtail.reproduction.outcome import Reproduction, TableOutcome
    from longtail.reproduction.page import markdown
    from longtail.reproduction.run import facts_of

    kept: dict[str, Any] = {}
    for table in tables.values():
        for row in table.ready:
            entry = parse_entry(row.recipe)
            files = [(seed, result_file(options.keep, entry, seed, corpus)) for seed in range(10)]
            runs = [read_result(file, corpus, KS) for _, file in files if file.exists()]
            if runs:
                kept[row.key] = joined(runs)
    pairs = corpus.train.targets.nnz / max(len(corpus.labels), 1)
    notes = [*corpus.notes]
    if options.encoder:
        notes.append(f"rows with a pretrained encoder read texts by {options.encoder}")
    packages = ("longtail", "torch", "numpy", "scipy", "numba")
    used = {name: version(name) for name in packages if find_spec(name)} | {"Python": platform.python_version()}
    options.out.mkdir(parents=True, exist_ok=True)
    for paper in dict.fromkeys(paper for paper, _ in tables):
        outcomes = []
        for (owner, _), table in tables.items():
            if owner == paper:
                left = tuple(row.name for row in table.ready if row.key not in kept)
                outcomes.append(TableOutcome(table, kept, left, (), pairs))
        seeds = sorted({run.seeds[0] for one in kept.values() for run in (one.runs or (one,))})
        found = Reproduction(paper, corpus.name, tuple(seeds), tuple(outcomes), seconds, facts_of(corpus), tuple(notes))
        file = options.out / f"reproduce-{paper}-{Path(options.data).name}.json"
        command = shlex.join(["python", "benchmarks/gpu/papers.py", *sys.argv[1:]])
        file.write_text(json.dumps(found.as_json(command, used), ensure_ascii=False, indent=1), encoding="utf-8")
        print(markdown(found, command, used, file.name), flush=True)


if __name__ == "__main__":
    main()
