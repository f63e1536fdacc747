"""The sections of the page for repeating the results: the data, the command, versions, definitions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from longtail.data.corpus import Corpus
from longtail.data.labels import LabelSet
from longtail.drawing import words
from longtail.drawing.markup import Safe, join, tag
from longtail.metrics.frequency import BANDS, TAIL_ROWS, pos80
from longtail.report.download import csv_link
from longtail.report.findings import Findings
from longtail.report.zipf import zipf_svg

NOTES = 40  # notes of a corpus that are shown
MEANING = {
    "P": "precision: the share of the top k that is correct, over all test documents",
    "PSP": "propensity-scored precision: hits count by how rare their labels are (inverse propensity), in percent of "
    "the most that any ranking could reach in the top k",
    "C": "coverage: the share of labels with a test positive that are found at least once in the top k of a document",
    "S": "of a document's labels with training examples, the share in its top k",
    "U": "of a document's labels without training examples, which were held out, the share in its top k",
    "H": "the harmonic mean of S and U: high only where both are",
    "MRR": "1 / rank of the first hit in the top k, 0 without a hit, mean over documents",
    "R": "recall: the share of a document's labels that is in the top k, mean over documents",
    "train": "seconds to fit the recipe on the train split",
    "predict": "seconds to predict the whole test split, with 100 candidates of a document where the dial needs them",
    "memory": "the most memory that the process held while the recipe ran",
}
_MORE = {
    "nDCG": "like P, but a hit counts less the lower it is ranked, in percent of the best possible order",
    "F1": "2 hits / (predicted labels in the top k + true labels) of each document, mean over documents",
    "frequency groups": "labels sorted by training examples and cut into groups with equal shares of the training "
    "positives; zero-shot labels have no training example",
}
BAND_MEANING = {
    "head": "the most frequent labels, which together hold the first half of the training positives",
    "torso": f"the other labels with more than {TAIL_ROWS} training examples",
    "tail": f"labels with 1 to {TAIL_ROWS} training examples",
    "unseen": "labels without a training example (zero-shot)",
}


def table_box(name: str, *parts: Safe, class_: str) -> Safe:
    """A table that scrolls inside its own box. The box takes the focus, so that the keyboard can scroll it.

    Args:
        name: what a screen reader calls the box.
        parts: the table's head and bodies.
        class_: the table's CSS class.

    Returns:
        The box.
    """
    return tag(
        "div",
        tag("table", *parts, class_=class_),
        class_="box",
        role="region",
        aria_label=name,
        tabindex=0,
    )


def data_facts(corpus: Corpus, findings: Findings) -> Safe:
    """The content of the section on the data: sizes, the tail as a chart, the bands and the notes.

    Args:
        corpus: the data set.
        findings: the band of each label.

    Returns:
        Markup.
    """
    labels = corpus.labels
    positives = int(labels.counts.sum())
    wanted = np.zeros(len(labels), dtype=bool)  # labels with a positive in valid or test
    wanted[corpus.valid.targets.indices] = wanted[corpus.test.targets.indices] = True
    unseen = int((wanted & (labels.counts == 0)).sum())
    facts = [
        ("train examples", words.count(len(corpus.train))),
        ("valid examples", words.count(len(corpus.valid))),
        ("test examples", words.count(len(corpus.test))),
        ("labels", words.count(len(labels))),
        ("zero-shot", words.count(unseen)),
        ("labels per example", _mean(positives, labels.train_rows)),
        ("examples per label", _mean(positives, len(labels))),
        ("Pos-80%", f"{pos80(labels):.1f}%"),
        ("A and B of PSP", f"{corpus.propensity.a:g}, {corpus.propensity.b:g}"),
    ]
    pairs = (tag("div", tag("dt", name), tag("dd", value)) for name, value in facts)
    return join(
        [
            tag("dl", *pairs, class_="facts"),
            tag(
                "p",
                "Pos-80%: the share of labels, most frequent first, that holds 80% of the training positives. "
                f"The text of a document is its field “{corpus.text_field}”.",
                class_="note",
            ),
            tag(
                "div",
                tag("figure", tag("figcaption", tag("h3", "The tail"), tag("p", _counts(labels))), zipf_svg(labels)),
                tag("figure", tag("figcaption", tag("h3", "Bands")), _band_table(corpus, findings)),
                class_="pair even",
            ),
            _corpus_notes(corpus),
        ]
    )


def _counts(labels: LabelSet) -> Safe:
    """How many labels have how many training examples, as CSV."""
    examples, number = np.unique(labels.counts, return_counts=True)
    rows = list(zip(examples.tolist(), number.tolist(), strict=True))
    return csv_link("labels-by-training-examples", ("training examples", "labels"), rows)


def _mean(total: int, number: int) -> str:
    return f"{total / number:.2f}" if number else words.NOTHING


def _band_table(corpus: Corpus, findings: Findings) -> Safe:
    everything = np.ones(len(findings.band), dtype=np.bool_)
    labels = findings.per_band(everything)
    positives = np.bincount(findings.band, weights=corpus.labels.counts, minlength=len(BANDS))
    test = np.bincount(findings.band[corpus.test.targets.indices], minlength=len(BANDS))
    head = tag(
        "thead",
        tag(
            "tr",
            tag("th", "Band", scope="col", class_="left"),
            tag("th", "labels", scope="col"),
            tag("th", "of labels", scope="col"),
            tag("th", "of train positives", scope="col"),
            tag("th", "of test positives", scope="col"),
        ),
    )
    rows = (
        tag(
            "tr",
            tag(
                "th",
                tag("button", name, type="button", class_="help", data_help=f"{name}: {BAND_MEANING[name]}"),
                scope="row",
                class_="left",
            ),
            tag("td", words.count(labels[number])),
            tag("td", words.share(labels[number], labels.sum())),
            tag("td", words.share(positives[number], positives.sum())),
            tag("td", words.share(test[number], test.sum())),
        )
        for number, name in enumerate(BANDS)
    )
    return table_box("Bands of labels", head, tag("tbody", *rows), class_="plain")


def _corpus_notes(corpus: Corpus) -> Safe | None:
    if not corpus.notes:
        return None
    shown = [tag("li", words.cut(note, 500)) for note in corpus.notes[:NOTES]]
    if len(corpus.notes) > NOTES:
        shown.append(tag("li", f"and {words.count(len(corpus.notes) - NOTES)} more"))
    return tag("div", tag("h3", "Notes on the data"), tag("ul", *shown, class_="notes"))


def repeat(command: str, versions: Mapping[str, str]) -> Safe:
    """The exact command with a copy button, and the versions it ran on.

    Args:
        command: the command line.
        versions: version by name, of longtail, of libraries and of the machine.

    Returns:
        Markup.
    """
    pairs = (tag("div", tag("dt", name), tag("dd", value)) for name, value in versions.items())
    return join(
        [
            tag(
                "div",
                tag("pre", tag("code", command, id="command"), tabindex=0, aria_label="The command"),
                tag("button", "Copy", type="button", id="copy", aria_live="polite"),
                class_="command",
            ),
            tag("dl", *pairs, class_="facts versions"),
        ]
    )


def definitions(corpus: Corpus) -> Safe:
    """What the page's terms mean.

    Args:
        corpus: the data set, for the constants of its propensity.

    Returns:
        A definition list.
    """
    power = join(
        [" A label with n of the N training examples has the inverse propensity 1 + C (n + B)", tag("sup", "−A")]
    )
    constant = join([", where C = (ln N − 1) (B + 1)", tag("sup", "A"), "."])
    described: dict[str, Safe | str] = {
        "P@k": _sentence(MEANING["P"]),
        f"PSP@k ({corpus.propensity})": join([_sentence(MEANING["PSP"]), power, constant]),
        "C@k": _sentence(MEANING["C"]),
        **({f"{one}@k": _sentence(MEANING[one]) for one in "SUH"} if corpus.held_out_labels else {}),
        **{f"{name}@k": _sentence(_MORE[name]) for name in ("nDCG", "F1")},
        **{f"{name}@k": _sentence(MEANING[name]) for name in ("MRR", "R")},
        "frequency groups": _sentence(_MORE["frequency groups"]),
        **{name: _sentence(text) for name, text in BAND_MEANING.items()},
        "train time": _sentence(MEANING["train"]),
        "predict time": _sentence(MEANING["predict"]),
        "peak memory": _sentence(MEANING["memory"]),
    }
    pairs = (tag("div", tag("dt", name), tag("dd", text)) for name, text in described.items())
    return tag("dl", *pairs, class_="definitions")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
