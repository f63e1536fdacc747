"""Claim: a step of `astec` takes less time than a step of a plain PyTorch loop of the same size.

    python benchmarks/shallow_nets.py DATA [--dimension 512] [--batch 512] [--steps 20] [--threads 2]
    python benchmarks/shallow_nets.py DATA --nets astec "astec + gandalf" decaf eclare inceptionxml inceptionxml-lf
    python benchmarks/shallow_nets.py DATA --whole --nets astec decaf eclare inceptionxml inceptionxml-lf

The plain loop: `EmbeddingBag`, a linear layer over all labels, `BCEWithLogitsLoss` on dense targets, AdamW; the dense
targets are made on the host, as data loaders do, or on the device. All sides have the same rows, batches and words, run
on the same device and take turns; the best of three rounds of `--steps` steps counts. Prints milliseconds of a step,
seconds of an epoch and the ratios. With `--nets` the plain loop runs only with `--beside`: prints the step, the epoch
and all epochs of each net with its own settings, and the peak memory of a GPU. With `--whole` each net is trained from
texts to a model: prints its seconds and how many of them are epochs.
"""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import longtail
from longtail.progress import listening
from shared.command import parser_for
from shared.tables import header, row, table
from shared.timing import gpu_peak, reset_gpu, synchronize

if TYPE_CHECKING:
    from longtail.nn.shallow.shallow_fit import ShallowFit

ROUNDS = 3


def seconds(sides: list[Callable[[np.ndarray], None]], batches: list[np.ndarray]) -> list[float]:
    """Of one step of each side: the best of its rounds, after one step to warm up. Sides take turns, so that other
    work on the machine hits all of them."""
    best = [float("inf")] * len(sides)
    for step in sides:
        step(batches[0])
    for place, step in list(enumerate(sides)) * ROUNDS:
        synchronize()
        begin = time.perf_counter()
        for batch in batches:
            step(batch)
        synchronize()
        best[place] = min(best[place], (time.perf_counter() - begin) / len(batches))
    return best


def plain_step(fit: ShallowFit, train: longtail.Dataset, dimension: int, on_host: bool) -> Callable[[np.ndarray], None]:
    """The plain PyTorch loop."""
    import torch
    from torch import nn

    from longtail.nn.onevsall.batch_targets import TrainingTargets

    device, labels = fit.device, len(train.labels)
    words = nn.EmbeddingBag(fit.tokenizer.size, dimension, mode="sum").to(device)
    head = nn.Linear(dimension, labels).to(device)
    optimiser = torch.optim.AdamW([*words.parameters(), *head.parameters()], lr=5e-3)
    loss_of, sparse_targets = nn.BCEWithLogitsLoss(), TrainingTargets(train.targets)

    def step(batch: np.ndarray) -> None:
        run = fit.texts.take(batch, device)
        if on_host:
            targets = torch.from_numpy(train.targets[batch].toarray()).to(device)
        else:
            known = sparse_targets.batch(batch, device)
            targets = torch.zeros((len(batch), labels), device=device)
            targets[known.rows, known.labels] = known.positive_weight
        vectors = torch.relu(words(run.words, run.starts, per_sample_weights=run.weights))
        scores = head(nn.functional.dropout(vectors, 0.5))
        optimiser.zero_grad()
        loss_of(scores, targets).backward()
        optimiser.step()

    return step


def our_step(fit: ShallowFit, train: longtail.Dataset, batch: int) -> Callable[[np.ndarray], None]:
    import torch

    from longtail.nn.onevsall.batch_targets import TrainingTargets
    from longtail.nn.shallow.shallow_task import ShallowTask

    fit.make_labels()
    assert fit.labels is not None
    task = ShallowTask(
        fit.encoder, fit.texts, fit.labels, TrainingTargets(train.targets), batch,
        fit.settings.learning_rate, fit.device,
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


class EpochClock:
    """A listener for a whole training: the seconds of its epochs, with their evaluation on valid."""

    def __init__(self) -> None:
        self.total, self.begin = 0.0, None
        self.open: list[str] = []
        self.last = ""  # the outer stage before

    def start(self, name: str, total: int | None) -> int:
        if not self.open:
            evaluates = name.endswith("valid texts") or (name == "searching" and self.last.endswith("valid texts"))
            if name.startswith("training "):
                self.begin = time.perf_counter() if self.begin is None else self.begin
            elif not evaluates:
                self.stop()
            self.last = name
        self.open.append(name)
        return len(self.open) - 1

    def stop(self) -> None:
        if self.begin is not None:
            self.total, self.begin = self.total + time.perf_counter() - self.begin, None

    def advance(self, handle: int, amount: int) -> None: ...

    def finish(self, handle: int) -> None:
        self.open.pop()

    def note(self, line: str) -> None: ...


def whole_seconds(recipe: str, corpus: longtail.Corpus, train: longtail.Dataset) -> tuple[float, float, int]:
    """From texts to model, of that in epochs with their evaluation on valid, and the peak bytes of a GPU."""
    reset_gpu()
    clock = EpochClock()
    begin = time.perf_counter()
    with listening(clock):
        longtail.Recipe.parse(recipe).fit(train, corpus.valid)
    whole = time.perf_counter() - begin
    clock.stop()
    return whole, clock.total, gpu_peak()


class Measured(Exception):
    """Ends a training when enough of its steps were timed."""


class StepClock:
    """A listener for the first training of a recipe: times rounds of so many steps, then ends it."""

    def __init__(self, steps: int) -> None:
        self.steps, self.rounds = steps, []
        self.rows = self.epochs = self.batch = 0
        self.count, self.begin = -1, 0.0  # -1: the first step warms up
        self.training: list[bool] = []

    def start(self, name: str, total: int | None) -> int:
        found = re.match(r"training .*: epoch (\d+) of (\d+)", name)
        if found:
            if found[1] == "1":
                self.epochs = int(found[2])
                self.rows = (total or 0) // self.epochs
            self._restart()
        self.training.append(found is not None)
        return len(self.training) - 1

    def advance(self, handle: int, amount: int) -> None:
        if not self.training[handle]:
            return
        self.batch = max(self.batch, amount)
        self.count += 1
        if self.count == 0:
            self._restart()
        elif self.count == self.steps:
            self._end_round()

    def finish(self, handle: int) -> None:
        if self.training.pop() and self.count > 0 and len(self.rounds) < ROUNDS:  # an epoch of few steps
            self._end_round()

    def note(self, line: str) -> None: ...

    def _restart(self) -> None:
        synchronize()
        self.begin = time.perf_counter()

    def _end_round(self) -> None:
        synchronize()
        self.rounds.append((time.perf_counter() - self.begin) / self.count)
        self.count = 0
        if len(self.rounds) == ROUNDS:
            raise Measured
        self._restart()


def net_seconds(
    recipe: str, corpus: longtail.Corpus, train: longtail.Dataset, steps: int
) -> tuple[float, int, int, int]:
    """Of one step of this net in its own training, the steps of an epoch, the epochs, and the peak bytes of a GPU."""
    reset_gpu()
    clock = StepClock(steps)
    try:
        with listening(clock):
            longtail.Recipe.parse(recipe).fit(train, corpus.valid)
    except Measured:
        pass
    if not clock.rounds:
        raise SystemExit(f"{recipe} has no training loop whose steps could be timed")
    return min(clock.rounds), math.ceil(clock.rows / clock.batch), clock.epochs, gpu_peak()


def beside_plain(options: argparse.Namespace, corpus: longtail.Corpus, train: longtail.Dataset) -> None:
    from longtail.learners.astec import Astec
    from longtail.nn.shallow.shallow_fit import ShallowFit

    settings = Astec(dimension=options.dimension, batch_size=options.batch)
    fit = ShallowFit.begin(settings, train, corpus.valid, (), settings.body)
    order = np.random.default_rng(0).permutation(len(train))
    batches = [order[begin : begin + options.batch] for begin in range(0, len(train), options.batch)]
    epoch, batches = len(batches), batches[: options.steps]
    plain = [plain_step(fit, train, options.dimension, on_host) for on_host in (True, False)]
    ours, host, device = seconds([our_step(fit, train, options.batch), *plain], batches)
    print(
        f"{len(train):,} rows, {len(train.labels):,} labels, {fit.tokenizer.size:,} words, {options.dimension} numbers"
    )
    print(f"{fit.device}, {options.threads} threads, batch {options.batch}, {epoch} steps an epoch\n")
    times = {
        "plain PyTorch, targets from the host": host,
        "plain PyTorch, targets set on the device": device,
        "astec": ours,
    }
    rows = [[name, f"{1000 * taken:.1f}", f"{epoch * taken:.1f}"] for name, taken in times.items()]
    print(table(["", "milliseconds a step", "seconds an epoch"], rows))
    print(f"\n{host / ours:.2f} x and {device / ours:.2f} x")


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", help="name or folder of a data set with texts")
    parser.add_argument("--dimension", type=int, default=512, help="of the word vectors")
    parser.add_argument("--batch", type=int, default=512, help="rows of a step")
    parser.add_argument("--steps", type=int, default=20, help="of a round")
    parser.add_argument("--threads", type=int, help="of torch; all where none are named")
    parser.add_argument("--nets", nargs="+", default=[], help="recipes whose epochs are timed")
    parser.add_argument("--beside", action="store_true", help="with --nets: the plain loop, too")
    parser.add_argument("--whole", action="store_true", help="with --nets: whole trainings")
    parser.add_argument("--rows", type=int, help="only the first so many, to try the script")
    options = parser.parse_args()
    import torch

    from longtail.nn.encoders.token_cache import sharing_tokens

    options.threads = options.threads or torch.get_num_threads()
    torch.set_num_threads(options.threads)
    corpus = longtail.load(options.data)
    train = corpus.train if options.rows is None else corpus.train.take(np.arange(options.rows))
    sizes = f"{len(train):,} rows, {len(train.labels):,} labels, {options.threads} threads"
    if options.whole:
        print(f"{sizes}\n\n{header(['net', 'seconds', 'of that in epochs', 'GPU peak, MB'])}")
        for recipe in options.nets:
            whole, epochs, peak = whole_seconds(recipe, corpus, train)
            print(row([f"`{recipe}`", f"{whole:.1f}", f"{epochs:.1f}", f"{peak / 1e6:.0f}"]), flush=True)
        return
    with sharing_tokens():
        if options.beside or not options.nets:
            beside_plain(options, corpus, train)
        if options.nets:
            columns = ["milliseconds a step", "seconds an epoch", "epochs", "minutes", "GPU peak, MB"]
            print(f"\n{sizes}\n\n{header(['net', *columns])}")
        for recipe in options.nets:
            each, steps, epochs, peak = net_seconds(recipe, corpus, train, options.steps)
            cells: list[Any] = [f"{1000 * each:.2f}", f"{each * steps:.2f}", epochs]
            cells += [f"{each * steps * epochs / 60:.2f}", f"{peak / 1e6:.0f}"]
            print(row([f"`{recipe}`", *cells]), flush=True)


if __name__ == "__main__":
    main()
