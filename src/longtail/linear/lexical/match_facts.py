"""What is known of a label whose names were found in a text: one line of numbers for each (text, label) pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.arrays import AnyArray, Doubles, Floats, Ints, Longs, Matrix
from longtail.linear.lexical.names import LEARNED, MAIN, OTHER, Matches, Names

FACTS = (
    "log of occurrences",
    "log of the first place",
    "first place as a share of the text",
    "distance of first and last place as a share of the text",
    "terms of the longest name",
    "found by its own name",
    "found by another name",
    "found by a learned name: the surest",
    "found by learned names: together",
    "labels that share the name",
    "idf of the rarest name",
    "inside a longer name everywhere",
    "log of the text's terms",
    "log of the labels found in the text",
    "log share of training texts with the label",
    "log of how often it is right where it is found",
    "log of how often it is found",
    "broader labels found too",
    "narrower labels found too",
    "related labels found too",
)


@dataclass(frozen=True, eq=False)
class FoundPairs:
    """Labels found in texts: (pairs,), ordered by row, then label."""

    rows: Ints
    labels: Ints
    numbers: Floats  # (pairs, FACTS)


@dataclass(frozen=True, eq=False)
class NameFacts:
    """What training texts say of names and labels."""

    texts: int  # training texts
    texts_with: Ints  # (names,) training texts with the name
    counts: Ints  # (labels,) training texts with the label
    found: Ints  # (labels,) training texts in which a name of the label was found
    right: Ints  # (labels,) of them, those that have the label
    broader: Matrix | None = None
    related: Matrix | None = None

    @classmethod
    def learn(cls, names: Names, matches: Matches, targets: Matrix, relations: tuple[Matrix | None, ...]) -> NameFacts:
        """Count over training texts.

        Args:
            names: the names.
            matches: of the names in the texts.
            targets: csr (texts, labels), 1 where a label is right.
            relations: broader and related labels, or None.

        Returns:
            The facts.
        """
        rows, number = targets.shape
        once = np.unique(matches.rows.astype(np.int64) * len(names.labels) + matches.names) % max(len(names.labels), 1)
        keys = np.unique(matches.rows.astype(np.int64) * number + names.labels[matches.names])
        labels = keys % max(number, 1)
        hit = _contains(targets, keys)
        return cls(
            rows,
            np.bincount(once, minlength=len(names.labels)).astype(np.int32),
            np.bincount(targets.indices, minlength=number).astype(np.int32),
            np.bincount(labels, minlength=number).astype(np.int32),
            np.bincount(labels[hit], minlength=number).astype(np.int32),
            *relations,
        )


def pair_facts(names: Names, matches: Matches, facts: NameFacts) -> FoundPairs:
    """Join the matches of each label of a text.

    Args:
        names: the names.
        matches: of the names in texts.
        facts: what training texts said.

    Returns:
        The pairs.
    """
    number = len(facts.counts)
    keys = matches.rows.astype(np.int64) * max(number, 1) + names.labels[matches.names]
    order = np.argsort(keys, kind="stable")  # places stay in order within a pair
    keys = keys[order]
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    pair_keys = keys[begins]
    rows, labels = (pair_keys // max(number, 1)).astype(np.int32), (pair_keys % max(number, 1)).astype(np.int32)
    numbers = np.zeros((len(begins), len(FACTS)), dtype=np.float32)
    if len(begins):
        _of_matches(names, matches, facts, order, begins, rows, numbers)
    in_row = np.bincount(rows, minlength=len(matches.lengths))
    numbers[:, 12] = np.log1p(matches.lengths[rows])
    numbers[:, 13] = np.log1p(in_row[rows])
    numbers[:, 14] = np.log((facts.counts[labels] + 0.5) / (facts.texts + 1.0))
    numbers[:, 15] = np.log((facts.right[labels] + 0.5) / (facts.found[labels] + 1.0))
    numbers[:, 16] = np.log1p(facts.found[labels])
    _of_relations(facts, rows, labels, pair_keys, numbers)
    return FoundPairs(rows, labels, numbers)


def _of_matches(
    names: Names, matches: Matches, facts: NameFacts, order: Longs, begins: Longs, rows: Ints, numbers: Floats
) -> None:
    """The facts of a pair that come from its matches: (matches,) arrays in the order of pairs, reduced pair by pair."""
    name = matches.names[order]
    kinds, weights = names.kinds[name], names.weights[name]
    sizes = np.diff(names.bounds)[name]
    places = matches.places[order].astype(np.float32)
    ends = np.append(begins[1:], len(order)) - 1
    lengths = np.maximum(matches.lengths[rows], 1).astype(np.float32)

    def largest(values: AnyArray) -> AnyArray:
        found: AnyArray = np.maximum.reduceat(values, begins)
        return found

    learned = np.where(kinds == LEARNED, weights, 0)
    numbers[:, 0] = np.log1p(ends - begins + 1)
    numbers[:, 1] = np.log1p(places[begins])
    numbers[:, 2] = places[begins] / lengths
    numbers[:, 3] = (places[ends] - places[begins]) / lengths
    numbers[:, 4] = largest(sizes)
    numbers[:, 5] = largest(kinds == MAIN)
    numbers[:, 6] = largest(kinds == OTHER)
    numbers[:, 7] = largest(learned)
    numbers[:, 8] = np.add.reduceat(-np.log1p(-np.minimum(learned, 0.99)), begins)
    numbers[:, 9] = -largest(-np.log1p(_sharing(names))[name])
    idf: Doubles = np.log((facts.texts + 1.0) / (facts.texts_with + 1.0))
    numbers[:, 10] = largest(idf[name])
    numbers[:, 11] = np.minimum.reduceat(sizes < matches.longest[order], begins)


def _sharing(names: Names) -> Longs:
    """(names,) how many names of labels are spelled like this one."""
    starts, members = names.spelled_alike
    sizes = np.diff(starts)
    sharing = np.empty(len(members), dtype=np.int64)
    sharing[members] = np.repeat(sizes, sizes)
    return sharing


def _of_relations(facts: NameFacts, rows: Ints, labels: Ints, keys: Longs, numbers: Floats) -> None:
    """How many broader, narrower and related labels of a pair's label were found in the same text."""
    relations = [(17, facts.broader), (18, None if facts.broader is None else facts.broader.T.tocsr())]
    for column, relation in (*relations, (19, facts.related)):
        if relation is None or not len(keys):
            continue
        degree = np.diff(relation.indptr)[labels]
        others = np.repeat(relation.indptr[labels] - np.concatenate([[0], np.cumsum(degree)[:-1]]), degree)
        others = relation.indices[others + np.arange(len(others))]
        wanted = np.repeat(rows, degree).astype(np.int64) * len(facts.counts) + others
        spot = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        pair = np.repeat(np.arange(len(rows)), degree)
        numbers[:, column] = np.bincount(pair[keys[spot] == wanted], minlength=len(rows))


def _contains(targets: Matrix, keys: Longs) -> AnyArray:
    """(keys,) whether the target at key = row x labels + label is set."""
    have = (
        np.repeat(np.arange(targets.shape[0]), np.diff(targets.indptr)) * np.int64(targets.shape[1]) + targets.indices
    )
    have = np.sort(have)
    if not len(have):
        return np.zeros(len(keys), dtype=np.bool_)
    spot = np.minimum(np.searchsorted(have, keys), len(have) - 1)
    found: AnyArray = have[spot] == keys
    return found


def hits(targets: Matrix, pairs: FoundPairs) -> AnyArray:
    """Whether the label of each pair is right.

    Args:
        targets: csr (rows, labels).
        pairs: labels found in these rows.

    Returns:
        (pairs,) bool.
    """
    return _contains(targets, pairs.rows.astype(np.int64) * targets.shape[1] + pairs.labels)
