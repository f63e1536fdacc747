"""longtail finds the right few labels among millions, including the ones almost nobody has used yet.

import longtail

corpus = longtail.load("wordnet")
model = longtail.Recipe.parse("centroid + rerank").fit(corpus.train, corpus.valid)
for answer in model.predict(["a large cat that roars"], k=3).answers(0):
    print(answer.text, answer.score)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from longtail.version import __version__ as __version__

if TYPE_CHECKING:
    from longtail.automatic import auto as auto
    from longtail.comparison import compare as compare
    from longtail.comparison import read_comparison as read_comparison
    from longtail.data import Corpus as Corpus
    from longtail.data import Dataset as Dataset
    from longtail.data import LabelSet as LabelSet
    from longtail.data import Propensity as Propensity
    from longtail.data import Rows as Rows
    from longtail.data.in_memory import corpus as corpus
    from longtail.data.read import Columns as Columns
    from longtail.data.read import load as load
    from longtail.frame_predictor import predictor as predictor
    from longtail.metrics import evaluate as evaluate
    from longtail.model import Model as Model
    from longtail.predictions import Predictions as Predictions
    from longtail.recipe import Recipe as Recipe
    from longtail.reproduction import reproduce as reproduce
    from longtail.store import load as load_model
    from longtail.tuning.search import tune as tune

# Imported on first use, so that `import longtail` is quick.
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
    "auto": "longtail.automatic:auto",
    "compare": "longtail.comparison:compare",
    "corpus": "longtail.data.in_memory:corpus",
    "evaluate": "longtail.metrics:evaluate",
    "load": "longtail.data.read:load",
    "load_model": "longtail.store:load",
    "predictor": "longtail.frame_predictor:predictor",
    "read_comparison": "longtail.comparison:read_comparison",
    "reproduce": "longtail.reproduction:reproduce",
    "tune": "longtail.tuning.search:tune",
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
    "auto",
    "compare",
    "corpus",
    "evaluate",
    "load",
    "load_model",
    "predictor",
    "read_comparison",
    "reproduce",
    "tune",
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
