"""What is served, as the command line names it: small enough to send to another process, which then loads it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from longtail.data.read import Columns, columns_of, load
from longtail.serve.models import Served, load_models
from longtail.serve.similar_examples import TrainingExamples


@dataclass(frozen=True)
class Content:
    """Models and the data whose similar training texts are shown."""

    models: tuple[str, ...]  # FOLDER or NAME=FOLDER
    examples: str | None = None  # name or folder of a data set
    columns: Columns | None = None  # of that data; None: the usual ones
    several: bool = False  # whether other processes of this machine serve the same models
    database: str | None = None  # address of the database that keeps added labels

    def load(self) -> tuple[Mapping[str, Served], TrainingExamples | None]:
        """Loads models and examples.

        Returns:
            Models by name; the examples, None where there are none.

        Raises:
            ModelError: a model cannot be loaded.
            NotStored: the database does not answer, or refuses.
            DataError: the data cannot be read, or has none of the labels of a model.
        """
        with ExitStack() as opened:
            served = load_models(self.models, several=self.several, database=self.database)
            for one in served.values():
                opened.callback(one.close)  # also where the service does not start
            examples = None
            if self.examples is not None:
                columns = self.columns or Columns()
                first = next(iter(served.values())).now.model
                known = columns_of(self.examples, first.table)
                columns = columns if known is None else columns.over(known)
                fields = None if columns.text else first.text_field
                examples = TrainingExamples.of(load(self.examples, columns=columns, text=fields, valid_share=0))
                for one in served.values():
                    examples.check(one.now.model.labels, one.path)
            opened.pop_all()
            return served, examples
