"""A graph between clusters and labels, of which each cluster keeps its strongest labels. No torch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from longtail.arrays import Bools, Ints, Longs, Matrix
from longtail.nn.label_tree.label_levels import LabelLevels


class ClusterGraph(NamedTuple):
    """The labels of each cluster."""

    members: Ints  # (clusters, links): labels, -1 behind a cluster's last
    parent: Ints  # (labels,) the cluster that an example's labels ask for in training


def partition(levels: LabelLevels) -> ClusterGraph:
    """Every label in the one cluster of the tree.

    Args:
        levels: with one level of clusters.

    Returns:
        The graph.
    """
    begins, width = levels.begins[0], levels.widest(0)
    places = begins[:-1, None] + np.arange(width)
    inside = places < begins[1:, None]
    members = np.where(inside, levels.order[np.minimum(places, len(levels.order) - 1)], -1)
    return ClusterGraph(members.astype(np.int32), levels.node_of_label[0])


def strongest_links(
    found: Ints, weights: Matrix, targets: Matrix, clusters: int, links: int, home: Ints
) -> ClusterGraph:
    """Link each cluster with the labels of the examples that were sent to it.

    A link's strength is the sum of the examples' cluster scores times their targets. A label's strongest cluster keeps
    it whatever its rank there, or rare labels would fall out of every cluster and never be found again.

    Args:
        found: (examples, clusters of an example) the best clusters.
        weights: (examples, clusters of an example) their scores.
        targets: csr (examples, labels).
        clusters: how many there are.
        links: labels that a cluster keeps, or more where it is the strongest cluster of more.
        home: (labels,) the cluster of labels without any link.

    Returns:
        The graph.
    """
    examples, each = found.shape
    starts = each * np.arange(examples + 1)
    sent = sparse.csr_array((np.asarray(weights).ravel(), found.ravel(), starts), shape=(examples, clusters))
    strength = sparse.coo_array(sent.T.tocsr() @ targets.tocsr())
    cluster, label, value = strength.row.astype(np.int64), strength.col.astype(np.int64), strength.data
    parent = _strongest(cluster, label, value, home)
    own = np.flatnonzero(~_is_among(cluster, label, parent))  # labels that no example brought to their cluster
    cluster = np.append(cluster, parent[own])
    label = np.append(label, own)
    value = np.append(value, np.zeros(len(own), value.dtype))
    kept_first = parent[label] == cluster
    order = np.lexsort((label, -value, ~kept_first, cluster))
    cluster, label, kept_first = cluster[order], label[order], kept_first[order]
    rank = np.arange(len(cluster)) - np.searchsorted(cluster, cluster)
    keep = kept_first | (rank < links)
    cluster, label = cluster[keep], label[keep]
    rank = np.arange(len(cluster)) - np.searchsorted(cluster, cluster)
    members = np.full((clusters, int(rank.max(initial=0)) + 1), -1, dtype=np.int32)
    members[cluster, rank] = label
    return ClusterGraph(members, parent)


def _strongest(cluster: Longs, label: Longs, value: Longs, home: Ints) -> Ints:
    """The strongest cluster of each label; `home` of those without any."""
    parent = home.copy()
    order = np.lexsort((cluster, -value, label))
    first = np.flatnonzero(np.diff(label[order], prepend=-1))
    parent[label[order[first]]] = cluster[order[first]]
    return parent


def _is_among(cluster: Longs, label: Longs, parent: Ints) -> Bools:
    """Which labels are linked with their parent: (labels,)."""
    found = np.zeros(len(parent), dtype=np.bool_)
    found[label[parent[label] == cluster]] = True
    return found
