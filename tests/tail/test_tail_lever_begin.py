"""Where a student of LEVER begins: with the teacher's encoder if that is of its own make, else as it was told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import transformers

from longtail.data import Corpus
from longtail.nn.encoders import load_encoder
from longtail.nn.tokenizers import learn_words
from longtail.nn.towers import Reader
from longtail.recipe import Recipe
from longtail.store import load

STILL = "batch=32, epochs=1, rate=1e-9, weight_decay=0, measure_every=0"  # a student that stays where it began


@pytest.fixture(scope="module")
def folders(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two encoders that differ in their width, and a teacher that began with the first."""
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
    teacher = Recipe.parse(f"dpr(encoder='{made['narrow']}', batch=64, epochs=3, rate=0.01)").fit(
        tiny.train, tiny.valid
    )
    return made | {"teacher": str(teacher.save(tmp_path_factory.mktemp("models") / "teacher"))}


def begun(recipe: str, tiny: Corpus) -> dict[str, Any]:
    scorer: Any = Recipe.parse(recipe).fit(tiny.train, tiny.valid).scorer
    return dict(scorer.reader.weights)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if {name: array.shape for name, array in one.items()} != {name: array.shape for name, array in other.items()}:
        return False
    return all(np.allclose(one[name], other[name], atol=1e-5) for name in one)


@pytest.mark.parametrize(
    ("student", "settings", "where"),
    [
        ("encoder='{narrow}'", "", "teacher"),
        ("encoder='{narrow}'", ", tau='auto', documents=0", "teacher"),  # every try
        ("encoder='{narrow}'", ", begin=false", "narrow"),
        ("encoder='{wide}'", "", "wide"),
        ("encoder='{narrow}', warm='{teacher}'", ", begin=false", "teacher"),
    ],
)
def test_a_student_begins_with_the_encoder_of_a_teacher_of_its_make(
    student: str, settings: str, where: str, folders: dict[str, str], tiny: Corpus
) -> None:
    found = begun(f"renee({student}, {STILL}) + lever(teacher='{{teacher}}'{settings})".format(**folders), tiny)
    scorer: Any = load(folders["teacher"]).scorer
    places = {"teacher": scorer.reader.weights}
    places |= {name: Reader.of(*load_encoder(folders[name]), 32).weights for name in ("narrow", "wide")}
    assert [name for name, weights in places.items() if same(found, weights)] == [where]


def test_encoders_that_are_made_for_the_data_begin_by_themselves(folders: dict[str, str], tiny: Corpus) -> None:
    own = f"renee(encoder='bag', dimension=16, {STILL})"
    scorer: Any = Recipe.parse(f"{own} + lever(teacher='{folders['teacher']}')").fit(tiny.train, tiny.valid).scorer
    assert scorer.reader.settings["kind"] == "bag"
    teacher = "dpr(encoder='bag', dimension=16, batch=64, epochs=2)"
    both = [begun(f'{own} + lever(teacher="{teacher}"{more})', tiny) for more in ("", ", begin=false")]
    assert same(*both)
