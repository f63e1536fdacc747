"""The published data sets of the papers: their constants and sizes, what makes them, and the papers' recipes.

Propensity constants are facts of a data set, but its files do not hold them, and papers disagree on some. Those here
are the repository's, except where `note` says otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from longtail.data.labels import Propensity

READ = "repository files"
DISTILBERT = "distilbert/distilbert-base-uncased"
PAPER_LEVER = "blend=0.5, calibration='cosine', excluded_is_self=false, guard=false"


@dataclass(frozen=True)
class PublishedSet:
    """One data set as the papers print it."""

    name: str
    train: int
    test: int | None
    labels: int
    labels_a_row: float
    rows_a_label: float
    propensity: Propensity
    tokens: int  # of a text, in the papers' encoders
    made_by: str  # "repository files", which longtail reads, or the command of longtail that builds it, or both
    papers: tuple[str, ...]
    recipes: tuple[str, ...] = ()  # with the papers' settings
    note: str = ""
    raw: tuple[tuple[str, int], ...] = ()  # counts of the raw files, which a builder prints too

    def counts(self) -> dict[str, float | None]:
        """The counts that builders print beside their own.

        Returns:
            Counts by name; None for one that was not published.
        """
        return {
            "train": self.train,
            "test": self.test,
            "labels": self.labels,
            "labels an example": self.labels_a_row,
            "examples a label": self.rows_a_label,
            **dict(self.raw),
        }


def _renee(
    rows: int, tokens: int, dropout: float, warmup: int, encoder: float, head: float, batch: int, decay: float = 1e-4
) -> str:
    """Renée with the settings of LEVER's table 19; `rows` are those of train and of label texts."""
    share = warmup / (100 * -(-rows // batch))  # longtail's warm-up is a share of the steps
    return (
        f"renee(encoder='{DISTILBERT}', epochs=100, max_tokens={tokens}, dropout={dropout}, warmup={share:.3f}, "
        f"learning_rate={encoder:g}, head_learning_rate={head:g}, batch_size={batch}, head_weight_decay={decay:g}, "
        "momentum=0.9, schedule='cosine', propensity_power=0)"
    )


def _lever(tau: int, documents: int, tokens: int, cluster: int | None, margin: float, batch: int, epochs: int) -> str:
    """LEVER with the settings of its tables 16 and 22; the teacher is NGAME over labels."""
    mining = "mining_start=1.0" if cluster is None else f"max_cluster_size={cluster}"
    teacher = (
        f"ngame(encoder=\\'{DISTILBERT}\\', anchors=\\'labels\\', loss=\\'logistic\\', classifiers=false, "
        f"margin={margin}, {mining}, learning_rate=0.0002, batch_size={batch}, epochs={epochs}, max_tokens={tokens})"
    )
    return f"lever(tau={tau}, min_documents={documents}, {PAPER_LEVER}, teacher='{teacher}')"


def _unidec(tokens: int) -> str:
    """UniDEC with the settings of the thesis, which are the same for all sets."""
    return f"unidec:paper(max_tokens={tokens})"


def _dexa(tokens: int, *more: str) -> str:
    """DEXA on NGAME's batches and loss; what a set has of its own is in a supplement that is not public."""
    settings = ["margin=0.3", "learning_rate=0.0002", *more, f"max_tokens={tokens}"]
    return f"ngame(encoder='{DISTILBERT}', {', '.join(settings)}) + dexa"


def _set(
    name: str,
    sizes: tuple[int, int | None, int, float, float],
    constants: tuple[float, float],
    tokens: int,
    papers: str,
    *recipes: str,
    made_by: str = READ,
    note: str = "",
    raw: tuple[tuple[str, int], ...] = (),
) -> PublishedSet:
    return PublishedSet(
        name, *sizes, Propensity(*constants), tokens, made_by, tuple(papers.split(", ")), recipes, note, raw
    )


AMAZON, WIKI, OTHERS = (0.6, 2.6), (0.5, 0.4), (0.55, 1.5)
GANDALF = "inceptionxml-lf + gandalf(threshold=0.1)"
BOTH = "its examples a label are those of train and test together"
DISPUTED = "constants are disputed: papers also use 0.6, 2.6 and 0.5, 0.4"

PUBLISHED: tuple[PublishedSet, ...] = (
    _set(
        "LF-AmazonTitles-131K", (294_805, 134_835, 131_073, 2.29, 5.15), AMAZON, 32, "LEVER, Gandalf, UniDEC, DEXA",
        f"{_renee(425_878, 32, 0.85, 5000, 1e-5, 5e-2, 512)} + {_lever(15, 0, 32, 8, 0.3, 1600, 300)}",
        GANDALF, _unidec(32), _dexa(32, "batch_size=1600", "epochs=300"),
    ),
    _set(
        "LF-Amazon-131K", (294_805, 134_835, 131_073, 2.29, 5.15), AMAZON, 128, "LEVER, UniDEC, DEXA",
        f"{_renee(425_878, 128, 0.85, 5000, 1e-5, 5e-2, 512)} + {_lever(20, 0, 128, 512, 0.3, 700, 400)}",
        _unidec(128), _dexa(128),
    ),
    _set(
        "LF-WikiSeeAlsoTitles-320K", (693_082, 177_515, 312_330, 2.11, 4.67), OTHERS, 32, "Gandalf, UniDEC",
        GANDALF, _unidec(32),
        made_by=f"{READ}, or build seealso --words 0",
        note="constants: papers also use 0.5, 0.4 and 0.6, 2.6",
    ),
    _set(
        "LF-WikiSeeAlso-320K", (693_082, 177_515, 312_330, 2.11, 4.68), OTHERS, 128, "LEVER, UniDEC, DEXA",
        f"{_renee(1_005_412, 128, 0.75, 5000, 2e-4, 2e-1, 2048)} + {_lever(4, 0, 128, 512, 0.3, 1024, 300)}",
        _unidec(128), _dexa(128),
        made_by=f"{READ}, or build seealso",
        note="constants: papers also use 0.5, 0.4 and 0.6, 2.6",
    ),
    _set(
        "LF-WikiTitles-500K", (1_813_391, 783_743, 501_070, 4.74, 17.15), WIKI, 32, "Gandalf, UniDEC",
        GANDALF, _unidec(32),
    ),
    _set(
        "LF-Wikipedia-500K", (1_813_391, 783_743, 501_070, 4.77, 24.75), WIKI, 256, "LEVER, UniDEC, DEXA",
        f"{_renee(2_314_461, 256, 0.7, 5000, 5e-5, 4e-3, 2048)} + {_lever(60, 15, 256, 16, 0.3, 512, 40)}",
        "depsl:paper(max_tokens=256)", _dexa(256), note=BOTH,
    ),
    _set(
        "LF-AmazonTitles-1.3M", (2_248_619, 970_237, 1_305_265, 22.20, 38.24), AMAZON, 32,
        "LEVER, Gandalf, UniDEC, DEXA",
        f"{_renee(3_553_884, 32, 0.7, 15000, 1e-6, 1e-2, 1024)} + {_lever(15, 0, 32, 8, 0.3, 1600, 400)}",
        GANDALF, _unidec(32), _dexa(32, "batch_size=1600", "epochs=300"),
    ),
    _set(
        "LF-AOL-270K", (3_922_479, 519_352, 272_825, 2.01, 28.83), OTHERS, 32, "LEVER",
        f"{_renee(4_195_304, 32, 0.6, 20000, 1e-6, 1e-3, 1024)} + {_lever(100, 0, 32, None, 0.05, 3200, 300)}",
        made_by="build prefixes", note="the paper does not print its constants",
        raw=(("log lines", 36_389_567), ("train queries", 8_700_222), ("suffixes kept", 10_000_000)),
    ),
    _set(
        "LF-WikiHierarchy-1M", (1_589_378, 397_952, 976_214, 25.98, 42.31), WIKI, 32, "LEVER",
        f"{_renee(2_565_592, 32, 0.7, 20000, 1e-4, 2e-3, 1024, 1e-2)} + {_lever(4, 0, 32, 1024, 0.3, 6400, 300)}",
        made_by="build hierarchy", note="the paper does not print its constants",
    ),
    _set(
        "ORCAS-800K", (7_371_396, 2_551_398, 799_953, 1.75, 16.12), OTHERS, 32, "DEXA",
        _dexa(32, "batch_size=1600", "epochs=100"),
        made_by="build clicks", note="how it was drawn is not published",
        raw=(("log lines", 18_823_602), ("log queries", 10_405_342)),
    ),
    _set(
        "MS MARCO", (502_931, 6_980, 8_841_823, 1.1, 0.06), OTHERS, 64, "UniDEC", _unidec(64),
        made_by="build passages", note="no constants are published; nearly all labels are zero-shot",
        raw=(("train judgements", 532_761),),
    ),
    _set(
        "EURLex-4K", (15_539, 3_809, 3_993, 5.31, 25.73), OTHERS, 128, "RankNet and TAUG",
        "bonsai + taug(head_share=0.1) + ranknet", note=f"{DISPUTED}; {BOTH}",
    ),
    _set(
        "AmazonCat-13K", (1_186_239, 306_782, 13_330, 5.04, 448.57), OTHERS, 128, "RankNet and TAUG",
        "bonsai + taug(head_share=0.01) + ranknet", note=DISPUTED,
    ),
    _set(
        "Wiki10-31K", (14_146, 6_616, 30_938, 18.64, 8.52), OTHERS, 128, "RankNet and TAUG",
        "bonsai + taug(head_share=0.01) + ranknet", note=DISPUTED,
    ),
    _set(
        "Amazon-670K", (490_449, 153_025, 670_091, 5.45, 3.99), AMAZON, 128, "RankNet and TAUG",
        "bonsai + taug(head_share=0.01) + ranknet",
        note="the paper prints 490,499 rows and its two averages under swapped headings",
    ),
)  # fmt: skip


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def find_published(name: str) -> PublishedSet | None:
    """Finds a set by its name.

    Args:
        name: in any case, with or without marks: "lf_aol_270k".

    Returns:
        The set; None where none is called so.
    """
    return next((one for one in PUBLISHED if _plain(one.name) == _plain(name)), None)


ALIKE = 0.02  # difference of a size up to which it is that of a published set: builders cannot match to the row


def _sized_like(one: PublishedSet, rows: int, labels: int) -> bool:
    return abs(rows - one.train) <= ALIKE * one.train and abs(labels - one.labels) <= ALIKE * one.labels


def constants_note(names: tuple[str, ...], rows: int, labels: int, propensity: Propensity) -> str | None:
    """A warning where data is named or sized like a published set but has other constants.

    Args:
        names: of the data and of its folder.
        rows: of train.
        labels: of the data.
        propensity: constants of the data.

    Returns:
        The warning; None where there is nothing to warn of.
    """
    by_name = next(filter(None, map(find_published, names)), None)
    by_size = next((one for one in PUBLISHED if _sized_like(one, rows, labels)), None)
    like = by_name or by_size
    if like is None or like.propensity == propensity:
        return None
    how = "named" if by_name is not None else "sized"
    a, b = like.propensity.a, like.propensity.b
    return (
        f"this data is {how} like {like.name}, whose PSP is published with {like.propensity}, but has {propensity}; "
        f"to compare with papers: --propensity {a:g},{b:g}"
    )
