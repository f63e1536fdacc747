"""What a student of LEVER starts from: the teacher's encoder if it has the same architecture, else its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

from longtail.data import Corpus
from longtail.errors import DataError
from longtail.learners.dpr import Dpr
from longtail.learners.renee import Renee
from longtail.nn.dual.dual_fit import DualEncoderFit
from longtail.nn.encoders.build import load_encoder, same_architecture, with_dropout
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.encoders.tokenizers import learn_words
from longtail.nn.onevsall.onevsall_fit import OneVsAllFit
from longtail.plan import DataFacts
from longtail.recipe import Recipe
from longtail.store import load

# A student that keeps its initial weights.
STILL = "batch_size=32, epochs=1, learning_rate=1e-9, weight_decay=0, validate_every=0"


@pytest.fixture(scope="module")
def folders(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two encoders that differ in their width, and a teacher that started from the first."""
    words = learn_words([*(tiny.train.texts or ()), *tiny.labels.texts], 200)
    made: dict[str, str] = {}
    for name, width in (("narrow", 16), ("wide", 24)):
        place = tmp_path_factory.mktemp(name)
        config = transformers.BertConfig(
            vocab_size=words.size, hidden_size=width, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=40,
        )  # fmt: skip
        transformers.AutoModel.from_config(config).save_pretrained(place)
        (place / "tokenizer.json").write_bytes(words.to_bytes())
        made[name] = str(place)
    teacher = Recipe.parse(f"dpr(encoder='{made['narrow']}', batch_size=64, epochs=3, learning_rate=0.01)").fit(
        tiny.train, tiny.valid
    )
    return made | {"teacher": str(teacher.save(tmp_path_factory.mktemp("models") / "teacher"))}


def trained_weights(recipe: str, tiny: Corpus) -> dict[str, Any]:
    scorer: Any = Recipe.parse(recipe).fit(tiny.train, tiny.valid).scorer
    return dict(scorer.encoder.weights)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if {name: array.shape for name, array in one.items()} != {name: array.shape for name, array in other.items()}:
        return False
    return all(np.allclose(one[name], other[name], atol=1e-5) for name in one)


@pytest.mark.parametrize(
    ("student", "settings", "where"),
    [
        ("encoder='{narrow}'", "", "teacher"),
        ("encoder='{narrow}'", ", tau='auto', min_documents=0", "teacher"),  # every try
        ("encoder='{narrow}'", ", init_student=false", "narrow"),
        ("encoder='{wide}'", "", "wide"),
        ("encoder='{narrow}', init_from='{teacher}'", ", init_student=false", "teacher"),
    ],
)
def test_a_student_starts_from_a_teacher_of_the_same_architecture(
    student: str, settings: str, where: str, folders: dict[str, str], tiny: Corpus
) -> None:
    found = trained_weights(
        f"renee({student}, {STILL}) + lever(teacher='{{teacher}}'{settings})".format(**folders), tiny
    )
    scorer: Any = load(folders["teacher"]).scorer
    places = {"teacher": scorer.encoder.weights}
    places |= {name: TextEncoder.of(*load_encoder(folders[name]), 32).weights for name in ("narrow", "wide")}
    assert [name for name, weights in places.items() if same(found, weights)] == [where]


def test_encoders_that_are_built_for_the_data_start_by_themselves(folders: dict[str, str], tiny: Corpus) -> None:
    own = f"renee(encoder='bag', dimension=16, {STILL})"
    scorer: Any = Recipe.parse(f"{own} + lever(teacher='{folders['teacher']}')").fit(tiny.train, tiny.valid).scorer
    assert scorer.encoder.settings["kind"] == "bag"
    teacher = "dpr(encoder='bag', dimension=16, batch_size=64, epochs=2)"
    both = [trained_weights(f'{own} + lever(teacher="{teacher}"{more})', tiny) for more in ("", ", init_student=false")]
    assert same(*both)


def test_encoders_are_compared_without_their_weights(folders: dict[str, str], tiny: Corpus, tmp_path: Path) -> None:
    scorer: Any = load(folders["teacher"]).scorer
    encoder = scorer.encoder
    for name, alike in (("narrow", True), ("wide", False)):
        bare = tmp_path / name
        shutil.copytree(folders[name], bare, ignore=shutil.ignore_patterns("*.safetensors"))
        assert same_architecture(str(bare), None, encoder.settings, encoder.definition.tobytes()) == alike
    bare = tmp_path / "narrow"
    assert same_architecture(str(bare), 16, encoder.settings, encoder.definition.tobytes())  # its own width
    assert not same_architecture(str(bare), 8, encoder.settings, encoder.definition.tobytes())
    less = with_dropout(encoder.settings, 0.0)
    assert less != encoder.settings and same_architecture(str(bare), None, less, encoder.definition.tobytes())
    (bare / "tokenizer.json").write_bytes(learn_words(["other words"], 10).to_bytes())
    assert not same_architecture(str(bare), None, encoder.settings, encoder.definition.tobytes())


def test_a_foreign_encoder_is_compared_by_its_config(tmp_path: Path) -> None:
    config = {"model_type": "electra", "hidden_size": 16, "hidden_dropout_prob": 0.1, "_name_or_path": "somewhere"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = learn_words(["some words"], 10).to_bytes()
    (tmp_path / "tokenizer.json").write_bytes(words)
    kept = {"model_type": "electra", "hidden_size": 16, "hidden_dropout_prob": 0.3}
    settings = {"kind": "foreign", "config": kept, "pooling": "mean", "places": 40, "dimension": None}
    assert same_architecture(str(tmp_path), None, settings, words)
    assert not same_architecture(str(tmp_path), None, settings | {"config": kept | {"hidden_size": 24}}, words)


def test_a_warm_student_has_its_own_dropout(folders: dict[str, str], tiny: Corpus) -> None:
    warm = f"renee(init_from='{folders['teacher']}', encoder_dropout=0.25, {STILL})"
    scorer: Any = Recipe.parse(warm).fit(tiny.train, tiny.valid).scorer
    assert scorer.encoder.settings["dropout"] == scorer.encoder.settings["attention_dropout"] == 0.25


def test_a_folder_may_start_with_the_letters_of_an_encoder_with_random_weights(
    folders: dict[str, str], tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folders["narrow"], "tiny-but-trained")
    towers = DualEncoderFit.begin(Dpr(encoder="tiny-but-trained"), tiny.train, tiny.valid, ())
    assert towers.learning_rate == 2e-4
    fit = OneVsAllFit.begin(Renee(encoder="tiny-but-trained"), tiny.train, tiny.valid, ())
    assert fit.learning_rate == 6e-5
    scorer: Any = load(folders["teacher"]).scorer
    assert Renee(encoder="tiny-but-trained").same_architecture(scorer)


def test_a_path_may_begin_at_home(folders: dict[str, str], tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside the quotes of a recipe no shell reads the tilde."""
    home = Path(folders["narrow"]).parent
    monkeypatch.setenv("HOME", str(home))
    encoder = f"~/{Path(folders['narrow']).name}"
    Dpr(encoder=encoder).check(tiny.train)
    assert load_encoder(encoder)[0].dimension == 16
    monkeypatch.setenv("HOME", str(Path(folders["teacher"]).parent))
    teacher = Recipe.parse("renee(init_from='~/teacher')").plan(DataFacts.of(tiny.train))
    assert (
        teacher.train_seconds
        == Recipe.parse(f"renee(init_from='{folders['teacher']}')").plan(DataFacts.of(tiny.train)).train_seconds
    )
    with pytest.raises(DataError, match="no encoder '~nobody-here/x'"):
        Dpr(encoder="~nobody-here/x").check(tiny.train)
