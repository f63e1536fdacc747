"""Seconds an epoch of `astec` beside a plain PyTorch loop of the same size: `EmbeddingBag`, a linear layer over all
labels, `BCEWithLogitsLoss` on dense targets, AdamW; the dense targets made on the host, as data loaders do, or set on
the device. Same rows, same batches, same words, same device, one run.

    python benchmarks/frugal.py DATA [--dimension 512] [--batch 512] [--steps 20] [--threads 2]
    python benchmarks/frugal.py DATA --nets astec "astec + gandalf" decaf eclare inceptionxml inceptionxml-lf [--beside]
    python benchmarks/frugal.py DATA --whole --nets astec decaf eclare inceptionxml inceptionxml-lf

All sides do `--steps` steps by turns, the best of three rounds counts, and an epoch is as many steps as the rows make
batches. With `--nets` no plain loop runs but with `--beside`: seconds of an epoch of each net as its settings are, of
all its epochs, and on a GPU the most memory. With `--whole` each net is trained from texts to model instead.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn

import longtail
from longtail.data import Corpus
from longtail.data.dataset import Dataset
from longtail.learners.astec import Astec
from longtail.nn.frugal.fit import FrugalFit
from longtail.nn.frugal.task import FrugalTask
from longtail.nn.heads.entries import Targets
from longtail.nn.loop import Course
from longtail.nn.read_once import reading_once

ROUNDS = 3


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def seconds(sides: list[Callable[[np.ndarray], None]], batches: list[np.ndarray], device: torch.device) -> list[float]:
    """Of one step of each side, the best of its rounds after one step of warming up. Sides take turns, so that what
    else the machine does falls on all of them."""
    best = [float("inf")] * len(sides)
    for step in sides:
        step(batches[0])
    for place, step in list(enumerate(sides)) * ROUNDS:
        wait(device)
        begin = time.perf_counter()
        for batch in batches:
            step(batch)
        wait(device)
        best[place] = min(best[place], (time.perf_counter() - begin) / len(batches))
    return best


def plain_step(fit: FrugalFit, train: Dataset, dimension: int, on_host: bool) -> Callable[[np.ndarray], None]:
    """What anybody would write first."""
    device, labels = fit.device, len(train.labels)
    words = nn.EmbeddingBag(fit.tokenizer.size, dimension, mode="sum").to(device)
    head = nn.Linear(dimension, labels).to(device)
    optimiser = torch.optim.AdamW([*words.parameters(), *head.parameters()], lr=5e-3)
    loss_of, sparse_targets = nn.BCEWithLogitsLoss(), Targets(train.targets)

    def step(batch: np.ndarray) -> None:
        run = fit.texts.take(batch, device)
        if on_host:
            targets = torch.from_numpy(train.targets[batch].toarray()).to(device)
        else:
            known = sparse_targets.batch(batch, device)
            targets = torch.zeros((len(batch), labels), device=device)
            targets[known.rows, known.labels] = known.pull
        vectors = torch.relu(words(run.words, run.begins, per_sample_weights=run.weights))
        scores = head(nn.functional.dropout(vectors, 0.5))
        optimiser.zero_grad()
        loss_of(scores, targets).backward()
        optimiser.step()

    return step


def our_step(fit: FrugalFit, train: Dataset, batch: int) -> Callable[[np.ndarray], None]:
    fit.make_labels()
    assert fit.labels is not None
    task = FrugalTask(
        fit.encoder, fit.texts, fit.labels, Targets(train.targets), batch, fit.settings.rate, fit.device
    )  # fmt: skip
    optimiser = torch.optim.AdamW(task.groups(), fused=True)
    fit.encoder.train()

    def step(batch: np.ndarray) -> None:
        task.begin_step(1.0)
        optimiser.zero_grad(set_to_none=True)
        task.backward(batch, 1.0)
        task.end_step()
        optimiser.step()

    return step


def afresh() -> None:
    gc.collect()  # recorded steps keep their memory until then
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def whole_seconds(recipe: str, corpus: Corpus, train: Dataset) -> tuple[float, float, int]:
    """From texts to model, of that in epochs with their looks at valid, and the most bytes on a GPU."""
    from longtail.nn.frugal import fit

    afresh()
    epochs, learn = [0.0], fit.train

    def timed(*given: Any) -> Any:
        begin = time.perf_counter()
        history = learn(*given)
        epochs[0] += time.perf_counter() - begin
        return history

    fit.train = timed
    try:
        begin = time.perf_counter()
        longtail.Recipe.parse(recipe).fit(train, corpus.valid)
        seconds = time.perf_counter() - begin
    finally:
        fit.train = learn
    return seconds, epochs[0], torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0


class Timed(Exception):
    """Ends a training that was only to be timed."""


def net_seconds(recipe: str, corpus: Corpus, train: Dataset, steps: int) -> tuple[float, int, int, int]:
    """Of one step of this net in its own training, how many of them make an epoch, how many epochs it takes, and the
    most bytes on a GPU."""
    from longtail.nn.frugal import fit

    afresh()

    def only_steps(task: FrugalTask, course: Course, identity: object) -> None:
        optimiser = torch.optim.AdamW(task.groups(), fused=True)
        for module in task.modules.values():
            module.train()

        def step(batch: np.ndarray) -> None:
            task.begin_step(0.1)
            optimiser.zero_grad(set_to_none=True)
            task.backward(batch, 1.0)
            optimiser.step()

        (found,) = seconds([step], list(islice(task.batches(course.epochs, 0), steps)), task.device)
        peak = torch.cuda.max_memory_allocated() if task.device.type == "cuda" else 0
        raise Timed(found, task.steps, course.epochs, peak)

    whole, fit.train = fit.train, only_steps
    try:
        longtail.Recipe.parse(recipe).fit(train, corpus.valid)
    except Timed as timed:
        return timed.args
    finally:
        fit.train = whole
    raise AssertionError(f"{recipe} was not trained as a frugal net")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--nets", nargs="+", default=[], help="recipes whose epochs are timed")
    parser.add_argument("--beside", action="store_true", help="with --nets: the plain loop, too")
    parser.add_argument("--whole", action="store_true", help="with --nets: whole trainings")
    parser.add_argument("--rows", type=int, help="only the first so many, to try the script")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    corpus = longtail.load(options.data)
    train = corpus.train if options.rows is None else corpus.train.take(np.arange(options.rows))
    if options.whole:
        print(f"{len(train):,} rows, {len(train.labels):,} labels, {options.threads} threads\n")
        print("| net | seconds | of that in epochs | GPU peak, MB |\n| --- | --: | --: | --: |")
        for recipe in options.nets:
            whole, epochs, peak = whole_seconds(recipe, corpus, train)
            print(f"| `{recipe}` | {whole:.1f} | {epochs:.1f} | {peak / 1e6:.0f} |", flush=True)
        return
    with reading_once():
        if options.beside or not options.nets:
            beside_plain(options, corpus, train)
        if options.nets:
            print(f"\n{len(train):,} rows, {len(train.labels):,} labels, {options.threads} threads\n")
            print("| net | milliseconds a step | seconds an epoch | epochs | minutes | GPU peak, MB |")
            print("| --- | --: | --: | --: | --: | --: |")
        for recipe in options.nets:
            each, steps, epochs, peak = net_seconds(recipe, corpus, train, options.steps)
            whole = f"{each * steps:.2f} | {epochs} | {each * steps * epochs / 60:.2f} | {peak / 1e6:.0f}"
            print(f"| `{recipe}` | {1000 * each:.2f} | {whole} |", flush=True)


def beside_plain(options: argparse.Namespace, corpus: Corpus, train: Dataset) -> None:
    settings = Astec(dimension=options.dimension, batch=options.batch)
    fit = FrugalFit.begin(settings, train, corpus.valid, (), settings.body)
    order = np.random.default_rng(0).permutation(len(train))
    batches = [order[begin : begin + options.batch] for begin in range(0, len(train), options.batch)]
    epoch, batches = len(batches), batches[: options.steps]
    plain = [plain_step(fit, train, options.dimension, on_host) for on_host in (True, False)]
    ours, host, device = seconds([our_step(fit, train, options.batch), *plain], batches, fit.device)
    print(
        f"{len(train):,} rows, {len(train.labels):,} labels, {fit.tokenizer.size:,} words, {options.dimension} numbers"
    )
    print(f"{fit.device}, {options.threads} threads, batch {options.batch}, {epoch} steps an epoch\n")
    print("| | milliseconds a step | seconds an epoch |\n| --- | --- | --- |")
    print(f"| plain PyTorch, targets from the host | {1000 * host:.1f} | {epoch * host:.1f} |")
    print(f"| plain PyTorch, targets set on the device | {1000 * device:.1f} | {epoch * device:.1f} |")
    print(f"| astec | {1000 * ours:.1f} | {epoch * ours:.1f} |")
    print(f"\n{host / ours:.2f} x and {device / ours:.2f} x")


if __name__ == "__main__":
    main()
