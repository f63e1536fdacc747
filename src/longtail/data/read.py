"""`load`: read a data set, whatever its layout, as a `Corpus`."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

from scipy import sparse

from longtail.data.corpus import Corpus, make_corpus
from longtail.data.facts import check_text_field, read_facts
from longtail.data.files import find, listing
from longtail.data.folder import read_folder
from longtail.data.labels import Propensity
from longtail.errors import DataError

SHIPPED = ("wordnet",)


def load(
    path: str | Path,
    *,
    text: str | None = None,
    valid_share: float = 0.05,
    test_share: float | None = None,
    seed: int = 0,
    propensity: Propensity | None = None,
) -> Corpus:
    """Read the data set at `path`, a folder or a file; `"wordnet"` is the set that ships with longtail."""
    place = _place(path)
    if text is not None:
        check_text_field(text)
    facts = read_facts(place)
    constants = propensity or facts.propensity
    if find(place, "train.jsonl") is None:
        raise DataError(f"looked for train.jsonl, found {listing(place)}", place)
    splits = read_folder(place, text or facts.text or "title+text", constants)
    corpus = make_corpus(
        name=facts.name or place.resolve().name,
        train=splits.train,
        valid=splits.valid,
        test=splits.test,
        valid_share=valid_share,
        test_share=test_share,
        seed=seed,
        text_field=splits.text_field,
        notes=splits.notes,
    )
    return _recounted(corpus) if facts.counted_on == "train+valid" else corpus


def _place(path: str | Path) -> Path:
    place = Path(path)
    if place.exists():
        return place
    if str(path) in SHIPPED:
        return Path(str(resources.files("longtail") / "data" / str(path)))
    raise DataError(
        f"no such file or folder; give the path of a data set, or the name of one that ships with longtail: "
        f"{', '.join(SHIPPED)}",
        place,
    )


def _recounted(corpus: Corpus) -> Corpus:
    """Counts over train and valid together, for a valid split that was held out of the training rows."""
    both = sparse.vstack([corpus.train.targets, corpus.valid.targets], format="csr")
    labels = corpus.labels.counted(both)
    return replace(
        corpus, train=corpus.train.over(labels), valid=corpus.valid.over(labels), test=corpus.test.over(labels)
    )
