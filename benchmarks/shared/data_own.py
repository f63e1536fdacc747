"""Small files of what longtail itself wrote or fetched before: checkpoints, finished trainings, journals, jobs,
pretrained encoders; and documents with subjects; and what reads them."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

Rng = np.random.Generator
Reader = Callable[[], object]
WORDS = ("red", "ant", "hill", "sea", "glass")
COMPARED = ["knn", "knn + rerank", "bm25 + calibrate"]
EPOCHS_DONE = {"dual": 3, "head": 1}  # of the tower and the classifiers, and of the one training
NET = "encoder='bag', dimension=4, batch_size=8, epochs=2, validate_every=1"
RECIPES = {"dual": f"ngame({NET}, classifier_epochs=1)", "head": f"renee({NET})"}


def _any(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _subjects(folder: Path, rng: Rng) -> Reader:
    pack, ending = _any(rng, ((bytes, ""), (gzip.compress, ".gz")))
    for split, rows in (("train", 5), ("test", 3)):
        (folder / split).mkdir()
        for n in range(rows):
            place = folder / split / f"{split}{n}.txt{ending}"
            place.write_bytes(pack(f"{WORDS[n]} of the {WORDS[n // 2]}\nmore é".encode()))
            if rng.random() < 0.7:
                place = folder / split / f"{split}{n}.tsv{ending}"
                place.write_bytes(pack(f"<http://x/{n}>\t{WORDS[n]}\n<http://x/0>\tred\n".encode()))
            else:
                (folder / split / f"{split}{n}.key").write_text(f"{WORDS[n]}\nred\n")
    return _with_vocabulary(folder, rng)


def _subject_table(folder: Path, rng: Rng) -> Reader:
    for split in ("train", "validate"):
        lines = [f"{WORDS[n]} and more\t<http://x/{n}> <http://x/{n // 2}>" for n in range(5)]
        (folder / f"{split}.tsv").write_text("\n".join([*lines, "nothing\t"]) + "\n")
    return _with_vocabulary(folder, rng)


def _with_vocabulary(folder: Path, rng: Rng) -> Reader:
    if rng.random() < 0.7:
        (folder / "vocabulary.tsv").write_text("".join(f"<http://x/{n}>\t{word}\n" for n, word in enumerate(WORDS)))
    else:
        lines = [f'<http://x/{n}> a skos:Concept ; skos:prefLabel "{word}"@en .' for n, word in enumerate(WORDS)]
        (folder / "words.ttl").write_text("@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n" + "\n".join(lines))

    def read() -> None:
        from longtail.data.read import load
        from longtail.inspection import inspect

        inspect(load(folder))

    return read


@cache
def _encoder() -> Path:
    """A folder as transformers writes one, with random weights."""
    import transformers

    from longtail.nn.encoders.tokenizers import learn_words

    place = Path(tempfile.mkdtemp())
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=40, max_position_embeddings=20, **sizes)
    transformers.BertModel(config).save_pretrained(place)
    (place / "tokenizer.json").write_bytes(learn_words([" ".join(WORDS)], 36).to_bytes())
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    return place


def _encoder_folder(folder: Path, rng: Rng) -> Reader:
    place = folder / "encoder"
    shutil.copytree(_encoder(), place)

    def read() -> None:
        from longtail.nn.encoders.build import load_encoder
        from longtail.nn.encoders.encode import encode
        from longtail.nn.encoders.tokens import tokenise

        encoder, tokenizer = load_encoder(str(place))
        vectors = encode(encoder.eval(), tokenise(["red hill", "", "é"], tokenizer, 8))
        if not np.isfinite(vectors).all():
            raise FloatingPointError("vectors that are not finite")

    return read


@cache
def _corpus() -> Any:
    """Twelve documents over five labels."""
    from longtail.data.read import load

    with tempfile.TemporaryDirectory() as place:
        for split in ("train", "valid", "test"):
            rows = [{"text": f"{WORDS[n % 5]} of {WORDS[n % 3]}", "labels": [WORDS[n % 5]]} for n in range(12)]
            lines = [json.dumps({"id": f"{split}{n}", **row}) for n, row in enumerate(rows)]
            (Path(place) / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
        return load(place)


class _Stopped(Exception):
    """Ends a training early, as a kill does."""


@cache
def _checkpoints(name: str) -> Path:
    """Checkpoints of a training that was stopped before its last epoch."""
    from longtail.callbacks import Measured, calling

    place, epochs = Path(tempfile.mkdtemp()), []

    def stop(measured: Measured) -> None:
        if measured.epoch:  # 0: a stage that is no training
            epochs.append(measured.epoch)
            if len(epochs) == EPOCHS_DONE[name]:
                raise _Stopped

    with suppress(_Stopped), calling(stop):
        _train(name, place)
    return place


def _train(name: str, place: Path) -> Any:
    from longtail.nn.training.checkpoint import checkpointing
    from longtail.recipe import Recipe

    with checkpointing(place):
        return Recipe.parse(RECIPES[name]).fit(_corpus().train, _corpus().valid)


def _checkpoint(folder: Path, rng: Rng, name: str) -> Reader:
    place = folder / "run"
    shutil.copytree(_checkpoints(name), place)

    def read() -> None:
        from longtail.nn.training.checkpoint import checkpoint_status

        checkpoint_status(place)
        _train(name, place).predict(["red"], 3)

    return read


@cache
def _finished() -> Path:
    """The checkpoint directory of a comparison that has ended."""
    from longtail.comparison import compare
    from longtail.comparison.summary import FILE, summarise

    place = Path(tempfile.mkdtemp())
    summarise(compare(_corpus(), ["knn", "knn + rerank", "bm25 + calibrate"], (1, 3), place), _corpus()).save(
        place / FILE
    )
    return place


def _comparison(folder: Path, rng: Rng) -> Reader:
    place = folder / "run"
    shutil.copytree(_finished(), place)
    results = sorted((place / "results").iterdir())
    if rng.random() < 0.5:  # stages are read where a result is not there
        results[0].unlink()

    def read() -> None:
        from longtail.comparison import compare
        from longtail.comparison.summary import read_comparison

        compare(_corpus(), COMPARED, (1, 3), place)
        str(read_comparison(place).recipes)

    return read


def _journal(folder: Path, rng: Rng) -> Reader:
    from longtail.serve.journal import Entry, Journal

    with Journal(folder / "m.added.jsonl") as journal:
        journal.add([Entry(word, word) for word in WORDS])

    def read() -> None:
        with Journal(folder / "m.added.jsonl") as journal:
            journal.add([Entry("new", "new")])

    return read


@cache
def _model() -> Path:
    from longtail.recipe import Recipe

    return Recipe.parse("bm25").fit(_corpus().train, _corpus().valid).save(Path(tempfile.mkdtemp()) / "model")


def _jobs(folder: Path, rng: Rng) -> Reader:
    from longtail.batch_prediction import prediction_jobs

    (folder / "shards").mkdir()
    for n in range(2):
        lines = [json.dumps({"id": f"{n}-{word}", "text": word}) for word in WORDS]
        (folder / "shards" / f"{n}.jsonl").write_text("\n".join(lines) + "\n")
    jobs = partial(prediction_jobs, _model(), folder / "shards", folder / "out", k=3, threshold=None, dial=0.0)
    if rng.random() < 0.5:  # written before the damage, or after it
        jobs()

    def read() -> None:
        found = jobs()
        for number in found.left():
            found.run(number)

    return read


TUNED = "knn(neighbours=1..60 log) + rerank(strength=0..1)"


@cache
def _tuned() -> Path:
    """The checkpoint directory of a search that was stopped while its last trial ran."""
    place = Path(tempfile.mkdtemp())
    with _study(place) as study:
        for neighbours in range(3):
            study.settle(study.ask(0, 9), "done", {"nDCG@5": neighbours / 3, "seconds": 1.0})
        study.settle(study.ask(0, 9), "failed", "it did not fit")
        study.ask(0, 9)
    return place


@contextmanager
def _study(place: Path) -> Any:
    from longtail.tuning.objective import Objective
    from longtail.tuning.search_space import SearchSpace
    from longtail.tuning.study import Study
    from longtail.tuning.trial_journal import journal

    with journal(place) as storage:
        study = Study(SearchSpace.parse(TUNED), (Objective.parse("nDCG@5"),), 0, storage)
        study.resume({"recipe": TUNED}, place)
        yield study


def _tuning(folder: Path, rng: Rng) -> Reader:
    place = folder / "run"
    shutil.copytree(_tuned(), place)

    def read() -> None:
        with _study(place) as study:
            study.settle(study.ask(0, 9), "done", {"nDCG@5": 0.5, "seconds": 1.0})
            study.importance()

    return read


def _token(folder: Path, rng: Rng) -> Reader:
    from longtail.serve.settings import Settings, read_token

    (folder / "token").write_text("a-token-of-some-letters\nand a line that nobody reads\n")
    return lambda: Settings(token=read_token(folder / "token"))


OWN: dict[str, Callable[[Path, Rng], Reader]] = {
    "subjects": _subjects,
    "subject table": _subject_table,
    "encoder": _encoder_folder,
    "checkpoint dual": partial(_checkpoint, name="dual"),
    "checkpoint head": partial(_checkpoint, name="head"),
    "comparison": _comparison,
    "journal": _journal,
    "jobs": _jobs,
    "tuning": _tuning,
    "token": _token,
}
