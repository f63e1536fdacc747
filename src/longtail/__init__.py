"""longtail finds the right few labels among millions, including the ones almost nobody has used yet.

import longtail

corpus = longtail.load("wordnet")
model = longtail.Recipe.parse("centroid + rerank").fit(corpus.train, corpus.valid)
for answer in model.predict(["a large cat that roars"], k=3).answers(0):
    print(answer.text, answer.score)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from longtail.comparison import compare as compare
    from longtail.data import Corpus as Corpus
    from longtail.data import Dataset as Dataset
    from longtail.data import LabelSet as LabelSet
    from longtail.data import Propensity as Propensity
    from longtail.data import Rows as Rows
    from longtail.data.read import Columns as Columns
    from longtail.data.read import load as load
    from longtail.metrics import evaluate as evaluate
    from longtail.model import Model as Model
    from longtail.predictions import Predictions as Predictions
    from longtail.recipe import Recipe as Recipe
    from longtail.store import load as load_model

# Loaded on first use, so that `import longtail` stays light.
_HOMES = {
    "Columns": "longtail.data.read:Columns",
    "Corpus": "longtail.data:Corpus",
    "Dataset": "longtail.data:Dataset",
    "LabelSet": "longtail.data:LabelSet",
    "Model": "longtail.model:Model",
    "Predictions": "longtail.predictions:Predictions",
    "Propensity": "longtail.data:Propensity",
    "Recipe": "longtail.recipe:Recipe",
    "Rows": "longtail.data:Rows",
    "compare": "longtail.comparison:compare",
    "evaluate": "longtail.metrics:evaluate",
    "load": "longtail.data.read:load",
    "load_model": "longtail.store:load",
}
__all__ = [
    "Columns",
    "Corpus",
    "Dataset",
    "LabelSet",
    "Model",
    "Predictions",
    "Propensity",
    "Recipe",
    "Rows",
    "__version__",
    "compare",
    "evaluate",
    "load",
    "load_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'longtail' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
