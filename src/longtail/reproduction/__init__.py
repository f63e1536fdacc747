"""The tables and figures of the papers, run on any data.

Start reading at `run.py`: `reproduce` trains the rows of a table and returns a `Reproduction`.

- `tables/PAPER/NAME.toml`: one table or figure: rows are recipes, columns measures; published figures beside them
- `tables/PAPER/paper.toml`: its title, other names, and what is not implemented and why
- `paper_tables.py`, `table_rows.py`: these files as data, checked when they are read; rows may be sweeps
- `own_encoder.py`: rows with one encoder in place of those that they name
- `thinned.py`: fewer training examples, for tables that ask how many a method needs
- `outcome.py`: our figures and effects beside the published ones
- `page.py`: the same as a Markdown page
- `listing.py`: which tables there are, what they need, how long they take

May import the comparison and what is below it.
"""

from longtail.reproduction.outcome import Reproduction
from longtail.reproduction.paper_tables import PaperTable, Publication, find_paper, papers
from longtail.reproduction.run import reproduce

__all__ = ["PaperTable", "Publication", "Reproduction", "find_paper", "papers", "reproduce"]
