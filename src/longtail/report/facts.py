"""The sections of the page that make results repeatable: the data, the command, versions, definitions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from longtail.data.corpus import Corpus
from longtail.metrics.frequency import BANDS, TAIL_ROWS, pos80
from longtail.report import words
from longtail.report.findings import Findings
from longtail.report.markup import Safe, join, tag
from longtail.report.zipf import zipf_svg

NOTES = 40  # notes of a corpus that are shown
MEANING = {
    "P": "the share of the top k that is true, over all test rows",
    "PSP": "like P, but a hit counts by how rare its label is (inverse propensity), over the best that any "
    "ranking could reach in the top k",
    "C": "coverage: labels hit at least once in the top k of some row, over labels with a test positive",
    "train": "seconds to fit the recipe on the train split",
    "predict": "seconds to predict the whole test split",
    "memory": "the most memory the process held while the recipe ran",
}
_MORE = {
    "nDCG": "like P, but a hit counts less the lower it stands, over the best possible order",
    "frequency groups": "labels sorted by training rows and cut into groups with equal shares of the training "
    "positives; zero-shot labels have no training row",
}
BAND_MEANING = {
    "head": "the most frequent labels, which together hold the first half of the training positives",
    "torso": f"the rest of the labels with more than {TAIL_ROWS} training rows",
    "tail": f"labels with 1 to {TAIL_ROWS} training rows",
    "unseen": "labels without a training row (zero-shot)",
}


def table_box(name: str, *parts: Safe, class_: str) -> Safe:
    """A table that scrolls inside its own box; the box takes the keyboard so that it can be scrolled."""
    return tag(
        "div",
        tag("table", *parts, class_=class_),
        class_="box",
        role="region",
        aria_label=name,
        tabindex=0,
    )


def data_facts(corpus: Corpus, findings: Findings) -> Safe:
    labels = corpus.labels
    positives = int(labels.counts.sum())
    wanted = np.zeros(len(labels), dtype=bool)  # labels with a row in valid or test
    wanted[corpus.valid.targets.indices] = wanted[corpus.test.targets.indices] = True
    unseen = int((wanted & (labels.counts == 0)).sum())
    facts = [
        ("train rows", words.count(len(corpus.train))),
        ("valid rows", words.count(len(corpus.valid))),
        ("test rows", words.count(len(corpus.test))),
        ("labels", words.count(len(labels))),
        ("zero-shot", words.count(unseen)),
        ("labels a row", _mean(positives, labels.train_rows)),
        ("rows a label", _mean(positives, len(labels))),
        ("Pos-80%", f"{pos80(labels):.1f}%"),
        ("PSP’s A and B", f"{corpus.propensity.a:g}, {corpus.propensity.b:g}"),
    ]
    pairs = (tag("div", tag("dt", name), tag("dd", value)) for name, value in facts)
    return join(
        [
            tag("dl", *pairs, class_="facts"),
            tag(
                "p",
                "Pos-80%: the share of labels, most frequent first, that holds 80% of the training positives. "
                f"The text of a row is its field “{corpus.text_field}”.",
                class_="note",
            ),
            tag(
                "div",
                tag("figure", tag("figcaption", tag("h3", "The tail")), zipf_svg(labels)),
                tag("figure", tag("figcaption", tag("h3", "Bands")), _band_table(corpus, findings)),
                class_="pair even",
            ),
            _corpus_notes(corpus),
        ]
    )


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
    """The exact command with a copy button, and what it ran on."""
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
    power = join([" Inverse propensity of a label with n training rows, of N in all: 1 + C (n + B)", tag("sup", "−A")])
    constant = join([", where C = (ln N − 1) (B + 1)", tag("sup", "A"), "."])
    described: dict[str, Safe | str] = {
        "P@k": _sentence(MEANING["P"]),
        f"PSP@k ({corpus.propensity})": join([_sentence(MEANING["PSP"]), power, constant]),
        "C@k": _sentence(MEANING["C"]),
        "nDCG@k": _sentence(_MORE["nDCG"]),
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
