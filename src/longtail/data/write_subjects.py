"""Writers of documents with subjects: folders of NAME.txt with NAME.tsv, or tables without a header; a SKOS vocabulary.

`subjects.py` and `vocabulary.py` read them, and so do Annif and Maui.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from longtail.data.corpus import Corpus
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.data.skos import SKOS
from longtail.data.subjects import URN
from longtail.data.vocabulary import UNKNOWN
from longtail.data.write import new_data_folder, one_line, write_facts, write_lines
from longtail.errors import DataError
from longtail.progress import stage

VOCABULARY = "vocabulary.nt"
# Letters that a file name may have on every system; others are written as %XX.
PLAIN = " !#$&'()+,-.;=@[]^_`{}~"


def write_subjects(corpus: Corpus, path: str | Path, *, overwrite: bool = False, tables: bool = False) -> Path:
    """Writes documents with subjects and their vocabulary.

    Args:
        corpus: the data set. A label id that is no URI becomes one, from which `load` has the id back.
        path: the folder to write.
        overwrite: replaces a data set that longtail wrote there.
        tables: writes `train.tsv.gz` and so on, where a document is a line, instead of folders of files.

    Returns:
        The folder.

    Raises:
        DataError: documents have no texts, weights, vectors or excluded pairs, which this form cannot hold; or the
            folder cannot be written.
    """
    splits = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
    for split, data in splits.items():
        lost = {
            "weights below 1": (data.targets.data < 1).any(),
            "features": data.features is not None,
            "excluded pairs": data.excluded is not None,
        }
        if data.texts is None or any(lost.values()):
            what = ", ".join(name for name, found in lost.items() if found) or "no texts"
            raise DataError(f"{split} of {corpus.name} has {what}, which this form cannot hold; use --to folder")
    uris = [uri_of(label) for label in corpus.labels.ids]
    language = (corpus.label_language or UNKNOWN).partition(",")[0]
    with new_data_folder(Path(path), overwrite) as folder:
        write_lines(folder / VOCABULARY, triples(corpus.labels, uris, language))
        for split, data in splits.items():
            if not len(data):
                continue
            with stage(f"writing {split}", total=len(data)) as advance:
                if tables:
                    write_lines(folder / f"{split}.tsv.gz", _rows(data, uris))
                    advance(len(data))
                    continue
                (folder / split).mkdir()
                for name, text, labels in _documents(data):
                    plain = quote(name, safe=PLAIN)
                    (folder / split / f"{plain}.txt").write_bytes(text.encode("utf-8", "replace"))
                    subjects = "".join(f"<{uris[label]}>\t{one_line(corpus.labels.word(label))}\n" for label in labels)
                    (folder / split / f"{plain}.tsv").write_bytes(subjects.encode("utf-8", "replace"))
                    advance(1)
        write_facts(folder, corpus, {})
    return Path(path)


def uri_of(label: str) -> str:
    """The URI of a label: its id, where that is one.

    Args:
        label: the id.

    Returns:
        The URI.
    """
    scheme, colon, rest = label.partition(":")
    proper = colon and rest and scheme.isascii() and scheme.replace("+", "").replace("-", "").isalnum()
    if proper and "/" in rest and not set(label) & set('<>"{}|\\^`') and label.isprintable() and " " not in label:
        return label
    return URN + quote(label, safe="")


def triples(labels: LabelSet, uris: list[str], language: str) -> Iterator[str]:
    """A label set as SKOS, in N-Triples.

    Args:
        labels: the labels.
        uris: of the labels.
        language: of their names.

    Yields:
        The lines.
    """
    relations = [(kind, links) for kind, links in (("broader", labels.broader), ("related", labels.related))]
    for row, uri in enumerate(uris):
        yield f"<{uri}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{SKOS}Concept> ."
        for kind, names in (("prefLabel", (labels.word(row),)), ("altLabel", labels.names[row])):
            for name in names:
                yield f'<{uri}> <{SKOS}{kind}> "{_literal(name)}"@{language} .'
        for kind, links in relations:
            if links is not None:
                for other in links.indices[links.indptr[row] : links.indptr[row + 1]].tolist():
                    yield f"<{uri}> <{SKOS}{kind}> <{uris[other]}> ."


def _literal(text: str) -> str:
    for letter, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(letter, written)
    return text


def _documents(data: Dataset) -> Iterator[tuple[str, str, list[int]]]:
    columns, bounds = data.targets.indices.tolist(), pairwise(data.targets.indptr.tolist())
    for name, text, (start, end) in zip(data.ids, data.texts or (), bounds, strict=True):
        yield name, text, columns[start:end]


def _rows(data: Dataset, uris: list[str]) -> Iterator[str]:
    for _, text, labels in _documents(data):
        yield f"{one_line(text).replace(chr(9), ' ')}\t{' '.join(f'<{uris[label]}>' for label in labels)}"
