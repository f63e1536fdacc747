"""The paths over a real socket: what they answer, and that it is what the model says offline."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from serving import Running, serving

import longtail
from longtail.cutoff import Cutoff
from longtail.data import Corpus
from longtail.model_files import store_cutoff
from longtail.serve.similar_examples import TrainingExamples


@pytest.fixture(scope="module")
def running(trained: Path, tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    import shutil

    place = tmp_path_factory.mktemp("app")
    for name in ("towers.longtail", "means.longtail"):
        shutil.copytree(trained / name, place / name)
    examples = TrainingExamples.of(tiny)
    with serving(place / "towers.longtail", place / "means.longtail", examples=examples) as one:
        yield one


def test_it_is_alive_and_ready(running: Running) -> None:
    assert running.get("/health").json == {"status": "alive"}
    assert running.get("/ready").json == {"status": "ready"}


@pytest.mark.parametrize("name", ["towers", "means"])
def test_many_texts_get_what_the_model_says_offline(running: Running, trained: Path, tiny: Corpus, name: str) -> None:
    model = longtail.load_model(trained / f"{name}.longtail")
    texts = list(tiny.test.texts or ())
    offline = model.predict(texts, 4)
    answers = running.post("/predict", {"texts": texts, "k": 4, "model": name}).json
    assert answers["model"] == name and len(answers["answers"]) == len(texts) == 60
    for row, answer in enumerate(answers["answers"]):
        assert [label["id"] for label in answer["labels"]] == [one.id for one in offline.answers(row)]
        scores = [label["score"] for label in answer["labels"]]
        np.testing.assert_allclose(scores, [one.score for one in offline.answers(row)], rtol=1e-5)
    first = answers["answers"][0]["labels"][0]
    label = model.labels.row_of[first["id"]]
    assert first["text"] == model.labels.word(label) and first["count"] == model.labels.counts[label]


def test_requests_at_the_same_time_share_batches_and_keep_their_answers_apart(
    running: Running, trained: Path, tiny: Corpus
) -> None:
    model = longtail.load_model(trained / "towers.longtail")
    texts = list(tiny.train.texts or ())[:80]
    ks = [1 + place % 3 for place in range(80)]
    before = running.service.counters.batches.value(model="towers")
    with ThreadPoolExecutor(16) as pool:
        asked = [{"text": text, "k": k} for text, k in zip(texts, ks, strict=True)]
        found = [reply.json for reply in pool.map(lambda one: running.post("/predict", one), asked)]
    batches = running.service.counters.batches.value(model="towers") - before
    assert batches < 80
    for text, k, answer in zip(texts, ks, found, strict=True):
        (labels,) = (one["labels"] for one in answer["answers"])
        assert [label["id"] for label in labels] == [one.id for one in model.predict([text], k).answers(0)]


def test_threshold_leaves_out_what_scores_less(running: Running) -> None:
    every = running.post("/predict", {"text": "a castle", "k": 10}).json["answers"][0]["labels"]
    cut = every[2]["score"]
    some = running.post("/predict", {"text": "a castle", "k": 10, "threshold": cut}).json["answers"][0]["labels"]
    assert some == [label for label in every if label["score"] >= cut] and 0 < len(some) < len(every)
    assert running.post("/predict", {"text": "a castle", "threshold": 1e9}).json["answers"] == [{"labels": []}]


def test_the_dial_ranks_as_the_model_does_offline(running: Running, trained: Path, tiny: Corpus) -> None:
    model, texts = longtail.load_model(trained / "towers.longtail"), list((tiny.test.texts or ())[:40])
    orders = {}
    for dial in (0, 0.3, 1.0, 2):
        reply = running.post("/predict", {"texts": texts, "k": 3, "dial": dial})
        assert reply.status == 200
        orders[dial] = [[label["id"] for label in one["labels"]] for one in reply.json["answers"]]
        wanted = list(model.predict(texts, 3, dial=dial))
        assert orders[dial] == [[answer.id for answer in answers] for answers in wanted]
        scores = [label["score"] for one in reply.json["answers"] for label in one["labels"]]
        assert scores == pytest.approx([answer.score for answers in wanted for answer in answers], rel=1e-5)
    plain = running.post("/predict", {"texts": texts, "k": 3}).json["answers"]
    assert orders[0] == [[label["id"] for label in one["labels"]] for one in plain] != orders[1.0]


def test_a_dial_without_probabilities_is_refused_with_what_to_do(running: Running) -> None:
    reply = running.post("/predict", {"text": "a castle", "dial": 0.3, "model": "means"})
    assert reply.status == 422 and "centroid + rerank + calibrate" in reply.json["error"]
    assert running.post("/predict", {"text": "a castle", "dial": 0, "model": "means"}).status == 200


def test_more_labels_than_there_are(running: Running) -> None:
    labels = running.post("/predict", {"text": "apple", "k": 1000}).json["answers"][0]["labels"]
    assert len({label["id"] for label in labels}) == 10


def test_models_tell_what_they_are(running: Running, tiny: Corpus) -> None:
    answer = running.get("/models").json
    towers, means = answer["models"]
    assert (towers["name"], means["name"], answer["examples"]) == ("towers", "means", "tiny")
    assert means["recipe"] == "centroid + rerank" and not means["takes_labels"] and "encoders can" in means["why_not"]
    assert towers["probabilities"] and not means["probabilities"]
    assert towers["takes_labels"] and towers["why_not"] is None
    assert sum(means["bands"].values()) == means["labels"] == len(tiny.labels)
    assert means["train_rows"] == len(tiny.train)


def test_labels_are_found_by_their_words(running: Running) -> None:
    found = running.get("/labels?query=DRAG").json
    assert [label["text"] for label in found["labels"]] == ["a dragon"] and found["total"] == 1
    every = running.get("/labels?model=means&limit=3&offset=1").json
    counts = [label["count"] for label in every["labels"]]
    assert every["total"] == 10 and len(counts) == 3 and counts == sorted(counts, reverse=True)
    assert running.get("/labels?query=nothing+has+this").json == {"model": "towers", "total": 0, "labels": []}


def test_examples_are_the_most_similar_examples_of_each_label(running: Running, tiny: Corpus) -> None:
    answer = running.post(
        "/examples", {"text": "castle and guitar", "labels": ["L2", "L6", "L9", "no such"], "limit": 3}
    )
    found = answer.json["examples"]
    assert found["no such"] == []
    for label in ("L2", "L6", "L9"):
        assert 0 < len(found[label]) <= 3
        column = tiny.labels.row_of[label]
        for example in found[label]:
            row = tiny.train.ids.index(example["id"])
            assert column in tiny.train.targets[[row]].indices
            assert example["text"] == (tiny.train.texts or ())[row]
        similarity = [example["similarity"] for example in found[label]]
        assert similarity == sorted(similarity, reverse=True)
    assert "castle" in found["L2"][0]["text"] and "guitar" in found["L6"][0]["text"]


def test_without_data_there_are_no_examples(folders: tuple[Path, Path]) -> None:
    with serving(folders[1]) as bare:
        answer = bare.post("/examples", {"text": "castle", "labels": ["L2"]})
        assert answer.status == 404 and "--examples" in answer.json["error"]
        assert bare.get("/models").json["examples"] is None


def test_examples_of_other_data_are_refused(tiny: Corpus) -> None:
    examples = TrainingExamples.of(tiny)
    examples.check(tiny.labels, "model")
    with pytest.raises(longtail.errors.DataError, match="none of the labels"):
        examples.check(longtail.LabelSet(ids=("other",)), "model")


def test_figures_are_in_prometheus_form(running: Running) -> None:
    running.post("/predict", {"text": "apple"})
    answer = running.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    figures = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}
    assert figures["longtail_ready"] == 1 and figures['longtail_labels{model="means"}'] == 10
    assert figures['longtail_texts_total{model="towers"}'] >= 1
    assert figures["process_resident_memory_bytes"] > 1e7
    count = figures['longtail_request_seconds_count{path="/predict"}']
    assert count == figures['longtail_request_seconds_bucket{path="/predict",le="+Inf"}'] >= 1
    buckets = [
        value for name, value in figures.items() if name.startswith('longtail_batch_texts_bucket{model="towers"')
    ]
    assert buckets == sorted(buckets)


def test_logs_are_json_lines_without_texts(running: Running) -> None:
    running.post("/predict", {"text": "an unmistakable zebra sentence", "k": 2})
    running.get("/labels?query=unmistakable")
    running.get("/unmistakable")
    running.post("/predict", {"texts": ["unmistakable", 5]})
    log = running.log.getvalue()
    assert "unmistakable" not in log and "zebra" not in log
    asked = [event for event in running.events if event["event"] == "request" and event["path"] == "/predict"]
    assert any(event["status"] == 200 and event["texts"] == 1 and event["model"] == "towers" for event in asked)
    assert all(event["ms"] >= 0 and len(event["id"]) == 16 for event in asked)


def test_answers_carry_headers_that_keep_browsers_careful(running: Running) -> None:
    answer = running.post("/predict", {"text": "apple"})
    assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"] and "server" not in answer.headers
    page = running.get("/")
    policy = page.headers["content-security-policy"]
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in policy and "unsafe" not in policy and "http" not in policy
    for asset in ("/assets/page.css", "/assets/page.js"):
        assert running.get(asset).status == 200


def test_the_schema_names_every_path_and_bound(running: Running) -> None:
    answer = running.get("/openapi.json").json
    assert set(answer["paths"]) == {"/predict", "/labels", "/examples", "/models", "/health", "/ready", "/metrics"}
    assert answer["components"]["schemas"]["PredictRequest"]["properties"]["k"]["maximum"] == 1000
    assert answer["components"]["schemas"]["PredictRequest"]["properties"]["dial"]["maximum"] == 2
    assert "cdn" not in json.dumps(answer).lower()
    assert running.get("/docs").status == 404


def test_a_stored_threshold_answers_unless_another_is_given(folders: tuple[Path, Path]) -> None:
    _, means = folders  # whose labels have different scores
    with serving(means) as running:
        every = running.post("/predict", {"text": "a castle", "k": 10}).json["answers"][0]["labels"]
        assert running.get("/models").json["models"][0]["cutoff"] is None
    store_cutoff(means, Cutoff(every[2]["score"], 2, "f1,labels=2"))
    with serving(means) as running:
        stored = running.get("/models").json["models"][0]["cutoff"]
        assert stored == {"threshold": every[2]["score"], "most": 2, "chosen": "f1,labels=2"}

        def asked(**more: float) -> list[str]:
            reply = running.post("/predict", {"text": "a castle", **more}).json["answers"][0]["labels"]
            return [label["id"] for label in reply]

        ids = [label["id"] for label in every]
        above = [label["id"] for label in every if label["score"] >= every[2]["score"]]
        assert asked() == ids[:2] and asked(k=10) == above
        assert asked(threshold=0) == ids[:5] and asked(threshold=0, k=10) == ids


def test_a_book_is_answered_in_time_and_a_library_is_refused(running: Running) -> None:
    book = "the dragon castle by the sea " * 70_000  # two million characters
    for name in ("towers", "means"):
        begin = time.monotonic()
        reply = running.post("/predict", {"text": book, "model": name})
        assert reply.status == 200 and reply.json["answers"][0]["labels"]
        assert time.monotonic() - begin < running.service.settings.timeout
    assert running.post("/predict", {"text": "a" * 3_000_001}).status == 422
