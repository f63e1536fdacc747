"""Clusters of equal size of many dense vectors, by balanced spherical 2-means, level by level.

A group is halved at the median of the difference between its members' cosines to two centres. Then each centre becomes
the mean of its half, and so on until the mean cosine hardly grows. On the CPU a group too large for the cache finds its
centres on a sample, and only the final cut reads every member; a smaller group is copied once and halved down to
clusters. On another device all groups of a level are halved at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Floats, Longs
from longtail.errors import DataError
from longtail.progress import stage
from longtail.selection import at_place
from longtail.threads import in_threads

if TYPE_CHECKING:
    from torch import Tensor

GAIN = 1e-4  # growth of the mean cosine below which 2-means stops
ROUNDS = 20  # of 2-means, at most
WHOLE = 16384  # members of a group that fits in the cache, and of the sample of a larger one
PIECE = 2048  # members of a larger group that are scored at once
ROOM = 1 << 29  # numbers in one batch of groups on a device: 2 GiB


def balanced_clusters(
    vectors: AnyArray | Tensor, size: int | None = None, number: int | None = None, seed: int = 0, device: str = "cpu"
) -> Longs:
    """Clusters whose sizes differ by one at most: of at most `size` rows, or exactly `number` of them.

    Clusters are numbered along the tree, so neighbouring numbers are neighbouring clusters. The same seed gives the
    same clusters on the same kind of device. Every vector is read log2(number) times; memory is little more than the
    vectors on the CPU, and twice their float32 size on a device.

    Args:
        vectors: (rows, dimension) float32 or float16 of any norm: array, memory map, or tensor on any device. A vector
            of zeros has no direction and goes to any cluster with room.
        size: rows of a cluster, at most.
        number: of clusters; give this or `size`.
        seed: draws the first two centres of each group.
        device: where to compute.

    Returns:
        (rows,) the cluster of each row.

    Raises:
        DataError: the vectors are no matrix or not finite, `size` and `number` are both given or cannot be met, or
            the device is missing.
    """
    rows = _checked(vectors, size, number)
    number = -(-rows // size) if size is not None else number or 0
    cluster = np.empty(rows, dtype=np.int64)
    if rows:
        if device != "cpu":
            order = _on_device(vectors, number, seed, device)
        else:  # the compiled kernels take plain arrays, no memory maps and no tensors
            order = _on_cpu(np.asarray(vectors), number, seed)
        cluster[order] = np.repeat(np.arange(number), np.diff(_starts(np.arange(number + 1), rows, number)))
    return cluster


def _checked(vectors: AnyArray | Tensor, size: int | None, number: int | None) -> int:
    if vectors.ndim != 2:
        raise DataError(f"vectors to cluster must be a (rows, dimension) matrix, got shape {vectors.shape}")
    if (size is None) == (number is None):
        raise DataError("give either the size of a cluster or the number of clusters")
    if size is not None and size < 1:
        raise DataError(f"a cluster holds at least one row, got size {size}")
    rows = len(vectors)
    if number is not None and not min(rows, 1) <= number <= rows:
        raise DataError(f"{rows:,} rows cannot make {number:,} clusters: choose from 1 to {rows:,}")
    return rows


def _starts(leaves: Longs, rows: int, number: int) -> Longs:
    """Where clusters begin in the order of the tree."""
    return leaves * rows // number


def _on_cpu(vectors: AnyArray, number: int, seed: int) -> Longs:
    """The rows in the order of the tree."""
    rows = len(vectors)
    order = np.arange(rows, dtype=np.int64)
    level, small = [(0, number)], []

    def bounds(group: tuple[int, int]) -> tuple[int, int]:
        return group[0] * rows // number, group[1] * rows // number

    def cut(group: tuple[int, int]) -> None:
        begin, end = bounds(group)
        members, left = order[begin:end], bounds((0, _middle(*group)))[1] - begin
        sample = np.random.default_rng((seed, *group)).choice(len(members), WHOLE, replace=False, shuffle=False)
        share = min(max(round(WHOLE * left / len(members)), 1), WHOLE - 1)
        place = np.arange(WHOLE)
        direction = _halve(_unit_rows(vectors, members[np.sort(sample)]), place, share, _mixed(seed, *group))
        scores = np.empty(len(members), dtype=np.float32)
        for low in range(0, len(members), PIECE):
            _products(_unit_rows(vectors, members[low : low + PIECE]), direction, scores[low : low + PIECE])
        first = _highest(scores, left)
        order[begin:end] = np.concatenate([members[first], members[~first]])

    def cut_down(group: tuple[int, int], advance: Callable[[int], None]) -> None:
        begin, end = bounds(group)
        place = np.arange(end - begin)
        _descend(_unit_rows(vectors, order[begin:end]), place, *group, rows, number, seed)
        order[begin:end] = order[begin:end][place]
        advance(end - begin)

    with stage("clustering", total=rows) as advance:
        while level:
            level = [group for group in level if group[1] - group[0] > 1]
            large = [group for group in level if np.diff(bounds(group))[0] > WHOLE]
            small += [group for group in level if np.diff(bounds(group))[0] <= WHOLE]
            in_threads(lambda item, large=large: cut(large[item]), range(len(large)))  # type: ignore[misc]
            level = [half for low, high in large for half in ((low, _middle(low, high)), (_middle(low, high), high))]

        in_threads(lambda item: cut_down(small[item], advance), range(len(small)))
    return order


def _middle(low: int, high: int) -> int:
    return (low + high + 1) // 2


def _unit_rows(vectors: AnyArray, members: Longs) -> Floats:
    """(members, dimension) unit vectors of the members in float32."""
    rows: Floats = np.take(vectors, members, axis=0).astype(np.float32, copy=False)
    bad = _normalise(rows)
    if bad >= 0:
        raise DataError(f"vectors to cluster: row {members[bad]} holds a number that is not finite; encode it again")
    return rows


def _on_device(vectors: AnyArray | Tensor, number: int, seed: int, device: str) -> Longs:
    """The rows in the order of the tree, by torch, one level at a time."""
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise DataError(f"device {device!r}: this machine has no GPU that torch can use; pass device='cpu'")
    rows, dimension = vectors.shape
    rng = np.random.default_rng(seed)
    with torch.inference_mode(), stage("clustering", total=int(np.ceil(np.log2(number)))) as advance:
        units = torch.empty((rows, dimension), dtype=torch.float32, device=device)
        for low in range(0, rows, 1 << 16):
            part = vectors[low : low + (1 << 16)]
            piece = part.to(device) if isinstance(part, torch.Tensor) else torch.tensor(np.asarray(part), device=device)
            units[low : low + len(piece)] = torch.nn.functional.normalize(piece.float(), dim=1, eps=1e-20)
        bad = (~units.sum(1).isfinite()).nonzero()
        if len(bad):
            raise DataError(f"vectors to cluster: row {int(bad[0])} holds a number that is not finite; encode it again")
        order = torch.arange(rows, device=device)
        level = np.array([[0, number]])
        while len(level := level[level[:, 1] - level[:, 0] > 1]):
            middle = (level[:, 0] + level[:, 1] + 1) // 2
            begin, end = _starts(level[:, 0], rows, number), _starts(level[:, 1], rows, number)
            left = _starts(middle, rows, number) - begin
            # Two different members of each group are its first centres.
            first = (rng.random(len(level)) * (end - begin)).astype(np.int64)
            second = (first + 1 + (rng.random(len(level)) * (end - begin - 1)).astype(np.int64)) % (end - begin)
            together = max(1, ROOM // (dimension * int((end - begin).max())))
            for low in range(0, len(level), together):
                here = slice(low, low + together)
                groups = [torch.from_numpy(each[here]).to(device) for each in (begin, end - begin, left, first, second)]
                _cut_all(torch, units, order, *groups)
            level = np.stack([level[:, 0], middle, middle, level[:, 1]], axis=1).reshape(-1, 2)
            advance(1)
        found: Longs = order.cpu().numpy()
    return found


def _cut_all(torch: Any, units: Any, order: Any, begin: Any, size: Any, left: Any, first: Any, second: Any) -> None:
    """Halve many groups at once: reorders their members in `order`, the `left` nearest to one centre first."""
    place = torch.arange(int(size.max()), device=units.device)
    real = place < size[:, None]  # (groups, largest); smaller groups are padded with zeros
    where = (begin[:, None] + place).clamp(max=len(order) - 1)
    members = order[where]
    block = units[members]  # (groups, largest, dimension)
    block *= real[:, :, None]
    total = block.sum(1)
    each = torch.arange(len(block), device=units.device)
    direction = block[each, first] - block[each, second]
    before = torch.full((len(block),), -torch.inf, device=units.device)
    for _ in range(ROUNDS):
        scores = torch.bmm(block, direction[:, :, None]).squeeze(2).masked_fill(~real, -torch.inf)
        ranks = scores.argsort(dim=1, descending=True, stable=True)
        side = torch.zeros_like(real).scatter_(1, ranks, place < left[:, None])
        one = torch.bmm(side[:, None].float(), block).squeeze(1)
        other = total - one
        mean = (one.norm(dim=1) + other.norm(dim=1)) / size
        gains = mean - before >= GAIN
        if not bool(gains.any()):
            break
        unit = torch.nn.functional.normalize
        direction = torch.where(gains[:, None], unit(one, dim=1) - unit(other, dim=1), direction)
        before = torch.where(gains, mean, before)
    halves = torch.where(real, ~side, 2).argsort(dim=1, stable=True)
    order[where[real]] = members.gather(1, halves)[real]


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _normalise(rows):  # type: ignore[no-untyped-def]
    """Divide every row by its norm, in place. Returns the first row that is not finite, or -1."""
    for row in range(rows.shape[0]):
        total = np.float32(0)
        for column in range(rows.shape[1]):
            total += rows[row, column] * rows[row, column]
        if not total < np.inf:  # infinite or NaN
            return row
        scale = np.float32(1) / max(np.sqrt(total), np.float32(1e-20))
        for column in range(rows.shape[1]):
            rows[row, column] *= scale
    return -1


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _products(rows, direction, scores):  # type: ignore[no-untyped-def]
    """Write the product of each row with the direction into `scores`."""
    for row in range(len(rows)):
        total = np.float32(0)
        for column in range(len(direction)):
            total += rows[row, column] * direction[column]
        scores[row] = total


@njit(nogil=True, cache=True)
def _highest(scores, number):  # type: ignore[no-untyped-def]
    """Which `number` scores are the highest; of equal scores the first ones."""
    bound = at_place(scores.copy(), len(scores) - number)
    chosen = np.zeros(len(scores), np.bool_)
    taken = 0
    for place in range(len(scores)):
        if scores[place] > bound:
            chosen[place] = True
            taken += 1
    for place in range(len(scores)):
        if taken == number:
            break
        if scores[place] == bound:
            chosen[place] = True
            taken += 1
    return chosen


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _halve(rows, members, left, seed):  # type: ignore[no-untyped-def]
    """Reorder the members so that the first `left` are one half. Returns the difference of the two centres."""
    number, dimension = len(members), rows.shape[1]
    first = seed % number
    second = (first + 1 + (seed >> 31) % (number - 1)) % number
    direction, total, one = (
        np.empty(dimension, np.float32),
        np.zeros(dimension, np.float32),
        np.empty(dimension, np.float32),
    )
    for column in range(dimension):
        direction[column] = rows[members[first], column] - rows[members[second], column]
    for place in range(number):
        for column in range(dimension):
            total[column] += rows[members[place], column]
    scores = np.empty(number, np.float32)
    before = np.float32(-np.inf)
    for _ in range(ROUNDS):
        for place in range(number):
            member = members[place]
            score = np.float32(0)
            for column in range(dimension):
                score += rows[member, column] * direction[column]
            scores[place] = score
        side = _highest(scores, left)
        for column in range(dimension):
            one[column] = 0
        for place in range(number):
            if side[place]:
                member = members[place]
                for column in range(dimension):
                    one[column] += rows[member, column]
        # The sum of the other half is the total less this one.
        norm, other_norm = np.float32(0), np.float32(0)
        for column in range(dimension):
            norm += one[column] * one[column]
            other_norm += (total[column] - one[column]) * (total[column] - one[column])
        norm, other_norm = np.sqrt(norm), np.sqrt(other_norm)
        mean = (norm + other_norm) / number
        if mean - before < GAIN:
            break
        before = mean
        norm, other_norm = max(norm, np.float32(1e-12)), max(other_norm, np.float32(1e-12))
        for column in range(dimension):
            direction[column] = one[column] / norm - (total[column] - one[column]) / other_norm
    low, high = 0, left
    halves = np.empty(number, np.int64)
    for place in range(number):
        if side[place]:
            halves[low] = members[place]
            low += 1
        else:
            halves[high] = members[place]
            high += 1
    for place in range(number):
        members[place] = halves[place]
    return direction


@njit(nogil=True, cache=True)
def _mixed(seed, low, high):  # type: ignore[no-untyped-def]
    """62 random bits per group, which choose its first two centres."""
    mixed = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(low) * np.uint64(0xD1342543DE82EF95)
    mixed += np.uint64(high) * np.uint64(0xBF58476D1CE4E5B9)
    for _ in range(2):
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) >> np.uint64(2))


@njit(nogil=True, cache=True)
def _descend(rows, members, low, high, all_rows, number, seed):  # type: ignore[no-untyped-def]
    """Halve the group of clusters low..high down to its clusters: reorders `members`, which index `rows`."""
    base = low * all_rows // number
    waiting = [(low, high)]
    while len(waiting):
        low, high = waiting.pop()
        if high - low < 2:
            continue
        middle = (low + high + 1) // 2
        begin, cut, end = low * all_rows // number, middle * all_rows // number, high * all_rows // number
        if end - begin > 2:  # two members are two clusters in any order
            _halve(rows, members[begin - base : end - base], cut - begin, _mixed(seed, low, high))
        waiting.append((low, middle))
        waiting.append((middle, high))
