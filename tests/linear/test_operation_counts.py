"""What a training touches is counted when asked for, and is the same every time."""

from __future__ import annotations

from longtail.data import Corpus
from longtail.linear.operation_counts import count_touched, counting_operations, is_counting
from longtail.recipe import Recipe


def counted(corpus: Corpus, recipe: str) -> dict[str, int]:
    with counting_operations() as found:
        assert is_counting()
        Recipe.parse(recipe).fit(corpus.train, corpus.valid)
    return {kind: sum(numbers) for kind, numbers in found.items()}


def test_counts_are_exact_and_grow_with_the_work(tiny: Corpus) -> None:
    once = counted(tiny, "parabel(trees=1, max_leaf_labels=3, branches=2)")
    assert set(once) == {"scores", "once", "groups", "nodes"} and min(once.values()) > 0
    assert counted(tiny, "parabel(trees=1, max_leaf_labels=3, branches=2)") == once
    longer = counted(tiny, "parabel(trees=3, max_leaf_labels=3, branches=2)")
    assert longer["once"] > 2 * once["once"] and longer["scores"] >= longer["once"]


def test_nothing_is_counted_otherwise() -> None:
    assert not is_counting()
    count_touched("scores", 5)
    with counting_operations() as found:
        pass
    assert not found and not is_counting()
