"""A disk that fails at any single call of the journal: what failed is not acknowledged, and the journal goes on."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from faults import Faults, injected
from longtail.errors import LongtailError, WriteError, what_to_do
from longtail.serve.journal import Entry, Journal

BATCHES = [[Entry(f"{batch}-{number}", f"label {number}") for number in range(3)] for batch in range(3)]


def work(path: Path, faults: Faults) -> tuple[list[Entry], str | None]:
    """Open the journal and add three batches; the acknowledged labels, and why the journal could not be opened."""
    acknowledged: list[Entry] = []
    with injected(faults):
        try:
            journal = Journal(path)
        except LongtailError as error:
            return acknowledged, str(error)
        with journal:
            for batch in BATCHES:
                try:
                    journal.add(batch)
                except WriteError as error:
                    assert "cannot be written" in str(error) and error.strerror
                else:
                    acknowledged += batch
    return acknowledged, None


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_fault_at_every_call(number: int, lasting: bool, torn: bool, tmp_path: Path) -> None:
    before = Entry("before", "a label that was acknowledged before")
    path = tmp_path / "model.added.jsonl"

    def begin() -> None:
        path.unlink(missing_ok=True)
        with Journal(path) as journal:
            journal.add([before])
        if torn:
            with path.open("ab") as file:
                file.write(b'{"id": "never ackno')

    begin()
    counted = Faults()
    everything, _ = work(path, counted)
    assert everything == [entry for batch in BATCHES for entry in batch] and len(counted.calls) >= 10
    for place in range(len(counted.calls)):
        begin()
        faults = Faults(place, number, lasting)
        acknowledged, why = work(path, faults)
        words = f"call {place}, {counted.calls[place]}"
        assert faults.failed, words
        if why is not None:
            assert str(path) in why and (what_to_do(OSError(number, "")) in why or "can be written" in why), words
        elif not lasting:
            assert len(acknowledged) >= 6, words  # one batch at most was refused
        with Journal(path) as journal:  # the disk is well again
            assert journal.entries == [before, *acknowledged], words
            journal.add([Entry("after", "x")])
        with Journal(path) as journal:
            assert journal.entries == [before, *acknowledged, Entry("after", "x")], words
