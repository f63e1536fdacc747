"""Labels won and lost between two recipes, against plain loops."""

from __future__ import annotations

import json

from report_sample import sample_corpus, sample_result

from longtail.metrics.frequency import BANDS
from longtail.report.findings import find
from longtail.report.versus import ENTRIES, FEWEST, MOST, describe, versus_section


def test_won_labels_agree_with_a_plain_loop() -> None:
    corpus = sample_corpus()
    results = [sample_result(f"r{seed}", corpus, skill=0.2 + 0.3 * seed, seed=seed) for seed in range(3)]
    findings = find(results, corpus)
    told = describe(results, corpus, findings)
    truth = corpus.test.targets.toarray() > 0

    def found(number: int) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = {}
        for row, top in enumerate(results[number].predictions.indices[:, :5].tolist()):
            for label in top:
                if truth[row, label]:
                    rows.setdefault(label, []).append(row)
        return rows

    for one in range(3):
        for other in range(3):
            if one == other:
                continue
            mine, theirs = found(one), found(other)
            won = {label: rows for label, rows in mine.items() if label not in theirs}
            pair = told["pairs"][f"{one}-{other}"]
            assert sum(pair["bands"]) == len(won)
            for label, hits, row in pair["labels"]:
                (number,) = (label_ for label_ in won if corpus.labels.texts[label_] == told["labels"][label][0])
                assert hits == len(won[number])
                assert told["rows"][row][0] == corpus.test.ids[won[number][0]]
                assert BANDS[told["labels"][label][1]] == BANDS[findings.band[number]]
            listed = [hits for _, hits, _ in pair["labels"]]
            assert listed == sorted((len(rows) for rows in won.values()), reverse=True)[:MOST]


def test_many_recipes_list_fewer_labels() -> None:
    corpus = sample_corpus()
    results = [sample_result(f"r{seed}", corpus, seed=seed) for seed in range(20)]
    told = describe(results, corpus, find(results, corpus))
    assert all(len(pair["labels"]) <= max(FEWEST, ENTRIES // 380) for pair in told["pairs"].values())
    assert len(json.dumps(told)) < 400_000


def test_one_recipe_has_no_such_section() -> None:
    corpus = sample_corpus()
    assert versus_section([sample_result("r", corpus)], corpus, find([sample_result("r", corpus)], corpus)) is None
