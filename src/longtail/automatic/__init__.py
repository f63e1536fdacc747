"""A model within a given time, without a recipe: members in order of expected gain, then their combination.

Start reading at `timed_search.py`: `auto` inspects the data, trains members, combines them, and stops in time.

- `member_order.py`: facts of the data that decide which members are tried, and in which order
- `pilot.py`: their order, found on a sample
- `schedule.py`: which member is next; numbers in, numbers out, so that tests need no clock
- `fusing.py`: models that are kept for the combination, and what the combination reaches on examples it has not seen
- `reranking.py`: how strongly the best of them raises rare labels
- `auto_result.py`: what was tried, as a table, JSON and a section of the model card

May import the rooms below it and `reuse`; not comparison, report, serve, export and cli.
"""

from longtail.automatic.auto_result import AutoResult, Tried
from longtail.automatic.timed_search import auto

__all__ = ["AutoResult", "Tried", "auto"]
