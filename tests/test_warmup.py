from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from lines import Lines
from longtail.data import Corpus
from longtail.progress import listening
from longtail.recipe import Recipe
from longtail.warmup import LABELS, few_rows, warm_up

# Every kernel's types after warming up, and again after the recipes ran on other rows: nothing new may be compiled.
FRESH = """
import sys
import numpy as np
from longtail.data import Dataset, LabelSet
from longtail.recipe import Recipe
from longtail.warmup import warm_up

def compiled():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("longtail.linear"):
            for key, value in vars(module).items():
                if hasattr(value, "signatures") and hasattr(value, "py_func"):
                    found[value.py_func.__qualname__] = len(value.signatures)
    return found

rng = np.random.default_rng(0)
targets = (rng.random((900, 230)) < 0.01).astype(np.float32)
texts = [" ".join(f"w{word}" for word in np.flatnonzero(row)) + " plain" for row in targets]
labels = LabelSet(ids=tuple(map(str, range(230))))
data = Dataset(labels=labels, targets=targets, ids=tuple(map(str, range(900))), texts=texts)
data = data.over(data.labels.counted(data.targets))
recipes = [Recipe.parse(text) for text in sys.argv[1:]]
warm_up(recipes, data)
before = compiled()
for recipe in recipes:
    recipe.fit(data, data.take(np.arange(100))).predict(data.rows, 5)
assert sum(before.values()) > 10, before
print({name: number for name, number in compiled().items() if number != before.get(name)})
"""


def test_nothing_is_left_to_compile() -> None:
    recipes = ["parabel", "parabel + rerank", "parabel + ranknet", "centroid"]
    done = subprocess.run([sys.executable, "-c", FRESH, *recipes], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{}"


def test_what_is_chosen_while_warming_up_is_not_logged(tiny: Corpus) -> None:
    recipe = Recipe.parse('centroid + gandalf(soft_scale="auto")')
    notes = Lines()
    with listening(notes):
        warm_up([recipe], tiny.train)
    assert notes.lines == []
    with listening(notes):
        recipe.fit(tiny.train, tiny.valid)
    assert any(line.startswith("gandalf: chosen soft_scale=") for line in notes.lines)


def test_rows_have_the_form_that_is_asked_for() -> None:
    texts, features, both = few_rows(True), few_rows(False, True), few_rows(True, True)
    assert texts.texts is not None and texts.features is None
    assert features.texts is None and features.features is not None
    assert both.texts is not None and both.features is not None
    assert (texts.labels.counts > 0).all() and len(texts.labels) == LABELS


def test_ahead_of_the_first_run() -> None:
    def run(*recipes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "longtail.warmup", *recipes], capture_output=True, text=True)

    done = run("centroid + rerank")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    wrong = run("centroyd")
    assert wrong.returncode == 1 and "did you mean 'centroid'" in wrong.stderr and "Traceback" not in wrong.stderr


def test_features_alone_and_both(tiny: Corpus, numbers: Corpus) -> None:
    warm_up([Recipe.parse("centroid")], numbers.train)
    warm_up([Recipe.parse("centroid(feature_weight=0.5)")], replace(tiny.train, features=numbers.train.features))


@pytest.mark.parametrize(
    "recipe", ["centroid(feature_weight=0.5)", "knn(neighbours=999)", "knn + ranknet(folds=999999)"]
)
def test_what_the_few_rows_cannot_train_is_let_go(recipe: str, tiny: Corpus) -> None:
    warm_up([Recipe.parse(recipe)], tiny.train)


def test_recipes_inside_others_are_not_run(tiny: Corpus) -> None:
    started: list[str] = []

    class Listener:
        def start(self, name: str, total: int | None) -> int:
            started.append(name)
            return 0

        def advance(self, handle: int, amount: int) -> None: ...

        def finish(self, handle: int) -> None: ...

    with listening(Listener()):
        warm_up([Recipe.parse("centroid"), Recipe.parse("centroid + rerank"), Recipe.parse("bm25")], tiny.train)
    assert started[0] == "compiling kernels"
    assert started.count("predicting") == 1
