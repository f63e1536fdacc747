"""Seeds, stages that recipes share, what stays on disk, and saved models as lines."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longtail
from longtail.comparison import SavedModel, SavedPredictions, parse_entry, read_comparison, read_seeds, summarise
from longtail.comparison.entries import reseeded
from longtail.comparison.runs import ONCE, compare, each
from longtail.comparison.stages import LOG, QUICK
from longtail.data import Corpus
from longtail.errors import DataError, LongtailError, ModelError
from longtail.learners.parabel import Parabel
from longtail.progress import listening
from longtail.recipe import Recipe
from longtail.report.result import Result

FIGURES = ("P@1", "PSP@5", "C@5")


class Fits:
    """Counts the trainings of a learner."""

    def __init__(self, kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        fit = kind.fit

        def counted(learner: Any, *arguments: Any) -> Any:
            self.number += 1
            return fit(learner, *arguments)

        monkeypatch.setattr(kind, "fit", counted)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Fits:
    monkeypatch.setattr("longtail.comparison.runs.warm_up", lambda *_: None)  # it trains on a few rows
    return Fits(Parabel, monkeypatch)


def figures(results: list[Result]) -> list[dict[str, float]]:
    return [result.measures.values for result in results]


def log(folder: Path) -> list[str]:
    return [json.loads(line)["stage"] for line in (folder / LOG).read_text().splitlines()]


def test_seeds_are_read_and_reach_every_part() -> None:
    assert read_seeds(3) == read_seeds("3") == (0, 1, 2)
    assert read_seeds("3,7,11") == read_seeds([3, 7, 11]) == (3, 7, 11)
    assert read_seeds("5,") == (5,)
    for wrong in ("", "x", "0", "-1", "1,1", 0, [], [-1]):
        with pytest.raises(DataError, match="seeds are a number such as 5"):
            read_seeds(wrong)
    recipe = Recipe.parse("parabel(seed=4) + gandalf + ranknet + rerank")
    assert str(reseeded(recipe, 2)) == "parabel(seed=6) + gandalf(seed=2) + ranknet(seed=2) + rerank"
    assert reseeded(recipe, 0) is recipe
    assert reseeded(Recipe.parse("bm25 + rerank"), 5) == Recipe.parse("bm25 + rerank")
    inner = reseeded(Recipe.parse("renee(init_from='ngame(epochs=3)') + lever(teacher='dpr')"), 1)
    assert inner.learner.init_from == "ngame(epochs=3, seed=1)"  # type: ignore[attr-defined]
    assert inner.tail[0].teacher == "dpr(seed=1)"  # type: ignore[attr-defined]


def test_each_seed_is_trained_and_figures_are_means(tiny: Corpus) -> None:
    recipes = ["parabel(trees=1)", "centroid"]
    several, once = compare(tiny, recipes, seeds=[0, 3])
    alone = [compare(tiny, [f"parabel(trees=1, seed={seed})"])[0] for seed in (0, 3)]
    assert several.seeds == (0, 3) and len(several.runs) == 2
    for name in FIGURES:
        values = [one.measures[name] for one in alone]
        assert several.measures[name] == pytest.approx(np.mean(values))
        assert several.deviation(name) == pytest.approx(np.std(values, ddof=1))
    assert sum(part.contribution for part in several.measures.bins) == pytest.approx(several.measures["P@5"])
    assert once.runs == () and once.notes == (ONCE,) and math.isnan(once.deviation("P@1"))


def test_recipes_that_share_a_learner_train_it_once(tiny: Corpus, fits: Fits) -> None:
    recipes = ["parabel", "parabel + rerank", "parabel + rerank + calibrate", "parabel(trees=1)"]
    results = compare(tiny, recipes)
    assert fits.number == 2
    assert [one.recipe for one in results[1].shared] == ["parabel"]
    assert results[1].shared[0].seconds <= results[1].train_seconds
    assert results[0].shared == results[3].shared == ()
    for text, result in zip(recipes, results, strict=True):
        model = Recipe.parse(text).fit(tiny.train, tiny.valid)
        found = model.predict(tiny.test.rows, 5, tiny.test.excluded)
        np.testing.assert_array_equal(found.indices, result.predictions.indices)
        np.testing.assert_array_equal(found.scores, result.predictions.scores)


def test_folds_are_trained_once_too(tiny: Corpus, fits: Fits, tmp_path: Path) -> None:
    compare(tiny, ["parabel", "parabel + ranknet(folds=2)", "parabel + ranknet(folds=2) + rerank"])
    assert fits.number == 3, fits.number  # the learner and two folds, for both recipes
    before = fits.number
    compare(tiny, ["parabel + ranknet(folds=2)"], checkpoint_dir=tmp_path)
    compare(tiny, ["parabel + ranknet(folds=2) + rerank"], checkpoint_dir=tmp_path)
    assert fits.number == before + 3
    assert sum("fold" in name for name in log(tmp_path)) == 2


def test_a_teacher_is_shared_with_the_recipe_of_its_own(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from longtail.learners.dpr import Dpr

    monkeypatch.setattr("longtail.comparison.runs.warm_up", lambda *_: None)
    counted = Fits(Dpr, monkeypatch)
    teacher = "dpr(encoder='bag', dimension=16, epochs=1)"
    results = compare(tiny, [teacher, f"centroid + lever(teacher={teacher!r})"])
    assert counted.number == 1
    assert [one.recipe for one in results[1].shared] == [teacher]
    assert results[1].teaching is not None


def test_a_comparison_goes_on_where_it_stopped(tiny: Corpus, fits: Fits, tmp_path: Path) -> None:
    recipes = ["parabel", "parabel + rerank", "centroid"]
    whole = compare(tiny, recipes, seeds=2)
    assert fits.number == 2
    started = each(tiny, recipes, checkpoint_dir=tmp_path, seeds=2)
    next(started)
    started.close()
    assert fits.number == 4
    again = compare(tiny, recipes, checkpoint_dir=tmp_path, seeds=2)
    assert fits.number == 4
    assert figures(again) == figures(whole)
    assert [one.intervals for one in again] == [one.intervals for one in whole]
    assert [one.against_first for one in again] == [one.against_first for one in whole]
    third = compare(tiny, [*recipes, "bm25"], checkpoint_dir=tmp_path, seeds=3)  # one more seed, one more recipe
    assert fits.number == 5
    assert [run.measures.values for run in third[0].runs[:2]] == [run.measures.values for run in whole[0].runs]
    assert [run.train_seconds for run in third[0].runs[:2]] == [run.train_seconds for run in again[0].runs]
    assert len(log(tmp_path)) == len(set(log(tmp_path)))


def test_what_is_on_disk_belongs_to_its_data_and_k(tiny: Corpus, fits: Fits, tmp_path: Path) -> None:
    compare(tiny, ["parabel"], checkpoint_dir=tmp_path)
    compare(replace(tiny, test=tiny.valid, valid=tiny.test), ["parabel"], checkpoint_dir=tmp_path)
    assert fits.number == 2
    (more,) = compare(tiny, ["parabel"], ks=(1, 8), checkpoint_dir=tmp_path)
    assert fits.number == 2 and more.predictions.places == 8  # predicted again, not trained
    (file, *_) = sorted((tmp_path / "results").glob("*.safetensors"))
    file.write_bytes(b"half")
    with pytest.raises(ModelError, match="remove it to train again"):
        for _ in range(2):
            compare(tiny, ["parabel"], checkpoint_dir=tmp_path)
            compare(replace(tiny, test=tiny.valid, valid=tiny.test), ["parabel"], checkpoint_dir=tmp_path)


def test_a_quick_reranker_is_not_kept(tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(tiny, ["centroid + rerank"], checkpoint_dir=tmp_path)
    assert log(tmp_path) == ["centroid"] and QUICK > 0
    monkeypatch.setattr("longtail.comparison.stages.QUICK", 0.0)
    compare(tiny, ["centroid + rerank(strength=0.5)"], checkpoint_dir=tmp_path)
    assert log(tmp_path) == ["centroid", "centroid | rerank(strength=0.5)"]


def test_lines_appear_as_recipes_finish(tiny: Corpus) -> None:
    lines: list[str] = []

    class Listener:
        def start(self, name: str, total: int | None) -> int:
            return 0

        def advance(self, handle: int, amount: int) -> None: ...

        def finish(self, handle: int) -> None: ...

        def note(self, line: str) -> None:
            lines.append(line)

    with listening(Listener()):
        for number, _ in enumerate(each(tiny, ["centroid", "bm25"])):
            assert sum(line.startswith("done: ") for line in lines) == number + 1
    assert lines[0].startswith("done: centroid: P@1 ")


def test_a_saved_model_is_a_line(tiny: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    Recipe.parse("centroid").fit(tiny.train, tiny.valid).save(folder)
    line = parse_entry(str(folder))
    assert isinstance(line, SavedModel)
    trained, saved = compare(tiny, ["centroid", str(folder)], seeds=2, checkpoint_dir=tmp_path / "run")
    assert saved.measures.values == trained.measures.values
    assert math.isnan(saved.train_seconds) and saved.as_json()["train_seconds"] is None
    assert saved.notes[0] == "a saved model, not trained here: centroid"
    assert saved.against_first["P@1"].verdict == "no difference shown"
    (read, *_) = compare(tiny, [str(folder)], checkpoint_dir=tmp_path / "run")
    assert read.measures.values == saved.measures.values


def test_a_file_of_predictions_is_a_line(tiny: Corpus, tmp_path: Path) -> None:
    """Arrays match by the order of the documents, JSON lines by their ids, in any order."""
    model, test = Recipe.parse("centroid").fit(tiny.train, tiny.valid), tiny.test
    found = model.predict(test.rows, 5, test.excluded)
    arrays, lines = tmp_path / "found.npz", tmp_path / "found.jsonl"
    found.save(arrays)
    written = [
        {"id": name, "labels": [{"id": one.id, "score": float(one.score)} for one in found.answers(row)]}
        for row, name in enumerate(test.ids)
    ]
    lines.write_text("".join(json.dumps(one) + "\n" for one in reversed(written)))
    assert isinstance(parse_entry(str(arrays)), SavedPredictions)
    given = ["centroid", str(arrays), str(lines)]
    trained, *read = compare(tiny, given, seeds=2, checkpoint_dir=tmp_path / "run")
    for one in read:
        assert all(one.measures[name] == trained.measures[name] for name in ("P@1", "nDCG@5", "PSP@5", "C@5"))
        assert math.isnan(one.train_seconds) and math.isnan(one.predict_seconds)
        assert one.notes[0].startswith("read from a file")
        assert one.against_first["P@1"].verdict == "no difference shown"
    # Another file under the name is read again.
    model.predict(test.rows, 1, test.excluded).save(arrays)
    (other,) = compare(tiny, [str(arrays)], checkpoint_dir=tmp_path / "run")
    assert other.measures["P@5"] < read[0].measures["P@5"] and other.measures["P@1"] == read[0].measures["P@1"]
    model.predict(tiny.valid.take(range(3)).rows, 1).save(arrays)
    with pytest.raises(DataError, match="predictions for 3 documents"):
        compare(tiny, [str(arrays)])
    with pytest.raises(DataError, match="does not exist; give a file of predictions"):
        compare(tiny, ["missing.npz"])
    with pytest.raises(DataError, match=r"missing.longtail: does not exist; give the folder of a saved model"):
        compare(tiny, ["missing.longtail"])
    with pytest.raises(DataError, match="is no folder of a saved model"):
        compare(tiny, [str(tmp_path / "run")])


def test_a_saved_model_over_other_labels_is_matched_by_id(tiny: Corpus, tmp_path: Path) -> None:
    labels = tiny.labels
    order = np.arange(len(labels))[::-1]
    turned = replace(
        labels,
        ids=(*(labels.ids[row] for row in order), "another"),
        texts=(*(labels.texts[row] for row in order), "another one"),
        counts=np.append(labels.counts[order], 0),
        features=None,
        broader=None,
    )
    from scipy import sparse

    def over(data: Any) -> Any:
        columns = sparse.hstack([data.targets[:, order], sparse.csr_array((len(data), 1), dtype=np.float32)])
        excluded = None
        if data.excluded is not None:
            empty = sparse.csr_array((len(data), 1), dtype=np.bool_)
            excluded = sparse.csr_array(sparse.hstack([data.excluded[:, order], empty]))
        return replace(data, labels=turned, targets=sparse.csr_array(columns), excluded=excluded)

    Recipe.parse("centroid").fit(over(tiny.train), over(tiny.valid)).save(tmp_path / "model")
    trained, saved = compare(tiny, ["centroid", str(tmp_path / "model")])
    assert saved.measures["P@1"] == pytest.approx(trained.measures["P@1"], abs=2)  # ties break by label row
    assert any("1 of its labels are not in the data" in note for note in saved.notes)
    foreign = replace(turned, ids=tuple(f"x{row}" for row in range(len(turned))))
    others = [replace(over(data), labels=foreign) for data in (tiny.train, tiny.valid)]
    Recipe.parse("centroid").fit(*others).save(tmp_path / "other")
    with pytest.raises(DataError, match=r"none of the .* labels of the model"):
        compare(tiny, [str(tmp_path / "other")])


def test_a_comparison_describes_itself_and_reads_back(tiny: Corpus, tmp_path: Path) -> None:
    results = compare(tiny, ["parabel(trees=1)", "centroid"], seeds=2)
    told = summarise(results, tiny, seeds=(0, 1), settings={"at": [1, 3, 5]}, versions={"longtail": "x"}, command="c")
    told.save(tmp_path / "c.json")
    read = longtail.read_comparison(tmp_path / "c.json")
    assert read.as_json() == json.loads(json.dumps(told.as_json()))
    assert read.recipes == ("parabel(trees=1)", "centroid")
    assert read.data["test_rows"] == len(tiny.test) and len(read.data["hash"]["train"]) == 32
    assert read.seeds == (0, 1) and read.split == "test" and read.versions == {"longtail": "x"}
    assert set(read.results[1]["against_first"]["P@1"]) == {
        "difference", "low", "high", "p_bootstrap", "p", "p_corrected", "verdict",
    }  # fmt: skip
    if find_spec("pandas") is None:
        with pytest.raises(DataError, match="pip install pandas"):
            read.to_pandas()
        return
    frame = read.to_pandas()
    assert len(frame) == 3 and list(frame.columns[:4]) == ["data", "split", "recipe", "seed"]
    assert frame[frame.recipe == "parabel(trees=1)"]["P@1"].mean() == pytest.approx(results[0].measures["P@1"])


def test_what_is_no_comparison_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_comparison(tmp_path / "none.json")
    for content, words in (
        ("[", "not JSON"),
        ("[]", "no comparison"),
        ('{"format": "longtail.comparison.v1"}', "lacks"),
    ):
        (tmp_path / "c.json").write_text(content)
        with pytest.raises(DataError, match=words):
            read_comparison(tmp_path / "c.json")


def test_wrong_words_are_refused(tiny: Corpus) -> None:
    for recipes in ([], "centroid", ["no such learner"]):
        with pytest.raises(LongtailError):
            compare(tiny, recipes)


def test_seeds_reach_the_members_of_a_combination() -> None:
    seeded = reseeded(Recipe.parse('fuse("parabel(trees=2)", "bm25", trees=3)'), 7)
    assert str(seeded) == 'fuse("parabel(trees=2, seed=7)", "bm25", trees=3, seed=7)'
