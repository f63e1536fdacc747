"""Comparisons: recipes on the same data, the same split, the same measures.

Start reading at `runs.py`: `compare` trains and measures, `each` yields results as they are there.

- `entries.py`: what a line is, a recipe with a seed, a saved model or saved predictions
- `single_run.py`: one line with one seed, trained and measured
- `stages.py`: fitted stages on disk, trained once for all recipes that share them
- `line_jobs.py`: a recipe with a seed as a job: on processes, by a scheduler, on a Ray cluster
- `finished.py`: results on disk, so that a comparison that was stopped goes on
- `uncertainty.py`: intervals, differences to the first recipe, measures on clean documents
- `summary.py`: `Comparison`, the self-describing JSON, and `read_comparison`

May import everything but serve, export and cli.
"""

from longtail.comparison.entries import SavedModel, SavedPredictions, parse_entry, read_seeds, saved_entry
from longtail.comparison.runs import (
    checkpoint_dir_of,
    checkpointing_for,
    compare,
    each,
    seconds_spent_before,
    seeds_of,
)
from longtail.comparison.single_run import run
from longtail.comparison.summary import Comparison, read_comparison, summarise
from longtail.comparison.uncertainty import judged

__all__ = [
    "Comparison",
    "SavedModel",
    "SavedPredictions",
    "checkpoint_dir_of",
    "checkpointing_for",
    "compare",
    "each",
    "judged",
    "parse_entry",
    "read_comparison",
    "read_seeds",
    "run",
    "saved_entry",
    "seconds_spent_before",
    "seeds_of",
    "summarise",
]
