import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as some
from report_sample import sample_corpus, sample_result

from longtail.report.example_documents import choose, differing, on_the_tail, payload
from longtail.report.findings import find


@given(some.integers(0, 999), some.integers(0, 60), some.integers(0, 40))
def test_choice_is_repeatable_unique_and_as_many_as_there_are(seed: int, rows: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    differ, tail = rng.random(rows) < 0.5, rng.random(rows) < 0.3
    chosen = choose(differ, tail, number)
    assert chosen.tolist() == choose(differ, tail, number).tolist()
    assert len(set(chosen.tolist())) == len(chosen) == min(rows, number)


def test_choice_and_each_prefix_of_it_is_a_mix() -> None:
    rng = np.random.default_rng(3)
    differ, tail = rng.random(5000) < 0.5, rng.random(5000) < 0.2
    chosen = choose(differ, tail, 200)
    for part in (chosen, chosen[:20]):
        assert 0.3 < differ[part].mean() < 0.8
        assert 0.25 < tail[part].mean() < 0.75


def test_one_kind_fills_up_when_the_others_are_missing() -> None:
    plain = np.zeros(500, dtype=np.bool_)
    assert len(choose(plain, plain, 200)) == 200


def test_payload_holds_words_hits_and_flags() -> None:
    corpus = sample_corpus(rows=30)
    results = [sample_result("a", corpus, skill=0.9), sample_result("b", corpus, skill=0.1, seed=1)]
    findings = find(results, corpus)
    data = json.loads(payload(results, corpus, findings, 10**6))
    assert data["recipes"] == ["a", "b"] and len(data["rows"]) == 30
    differ, tail = differing(findings), on_the_tail(findings)
    for row in data["rows"]:
        number = corpus.test.ids.index(row["id"])
        true = corpus.test.targets[[number]].indices.tolist()
        assert {data["labels"][label][0] for label in row["true"]} == {corpus.labels.word(one) for one in true}
        assert row["differ"] == differ[number] and row["tail"] == tail[number]
        for top, result in zip(row["top"], results, strict=True):
            answers = result.predictions.top(5).answers(number)
            assert [data["labels"][label][0] for label, _ in top] == [answer.text for answer in answers]
            assert [hit for _, hit in top] == [int(corpus.labels.row_of[answer.id] in true) for answer in answers]


def test_payload_is_cut_to_its_budget() -> None:
    corpus = sample_corpus(rows=60)
    results = [sample_result("a", corpus)]
    findings = find(results, corpus)
    whole = json.loads(payload(results, corpus, findings, 10**6))["rows"]
    cut = payload(results, corpus, findings, 9000)
    kept = json.loads(cut)["rows"]
    assert len(cut.encode()) <= 9000 and 0 < len(kept) < len(whole)
    assert kept == whole[: len(kept)] or [row["id"] for row in kept] == [row["id"] for row in whole[: len(kept)]]
    assert json.loads(payload(results, corpus, findings, 0))["rows"] == []


def test_payload_can_not_end_its_script_element() -> None:
    corpus = sample_corpus(rows=30, hostile=True)
    results = [sample_result("</script>", corpus)]
    written = payload(results, corpus, find(results, corpus), 10**6)
    assert "<" not in written and ">" not in written and "&" not in written
    data = json.loads(written)
    assert data["recipes"] == ["</script>"]
    assert any("<img src=" in row["text"] for row in data["rows"])
    written.encode("utf-8")


def test_long_lists_of_true_labels_are_cut_and_counted() -> None:
    corpus = sample_corpus(rows=3)
    from dataclasses import replace

    from scipy import sparse

    everything = sparse.csr_array(np.ones((3, 60), dtype=np.float32))
    full = replace(corpus, test=replace(corpus.test, targets=everything))
    results = [sample_result("a", full)]
    row = json.loads(payload(results, full, find(results, full), 10**6))["rows"][0]
    assert len(row["true"]) == 30 and row["more"] == 30
