"""Labels that join while it serves: on disk before they are acknowledged, there again after any end."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from serving import serving
from typer.testing import CliRunner

import longtail
from longtail.cli import app
from longtail.errors import ModelError, WriteError
from longtail.serve.journal import Entry, Journal, journal_of
from longtail.serve.models import Served

ENTRIES = [Entry("a", "a label"), Entry("b", "an ümläut\nand a line end"), Entry("c \ud800", "broken \udfff Unicode")]


def test_what_was_added_is_there_again(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        assert journal.entries == []
        journal.add(ENTRIES[:1])
        journal.add(ENTRIES[1:])
    with Journal(tmp_path / "j") as journal:
        assert journal.entries == ENTRIES and journal.torn == 0


def test_wherever_it_was_cut_whole_lines_stay(tmp_path: Path) -> None:
    """kill -9 while a line is written leaves some first bytes of it."""
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.add(ENTRIES)
    raw = path.read_bytes()
    ends = [place + 1 for place, byte in enumerate(raw) if byte == 10]
    for cut in sorted({*range(0, len(raw), 7), *ends, *(end - 1 for end in ends)}):
        path.write_bytes(raw[:cut])
        whole = sum(end <= cut for end in ends)
        with Journal(path) as journal:
            assert journal.entries == ENTRIES[:whole]
            assert journal.torn == cut - ([0, *ends][whole])
            journal.add([Entry("next", "next")])
        with Journal(path) as journal:
            assert journal.entries == [*ENTRIES[:whole], Entry("next", "next")]


def test_damage_in_the_middle_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.add(ENTRIES)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"an ", b"no ") + lines[2])
    with pytest.raises(ModelError, match=r"j:2: a damaged line"):
        Journal(path)
    assert path.read_bytes().count(b"\n") == 3  # and nothing was cut off


@given(some.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "j"
        path.write_bytes(raw)
        try:
            with Journal(path) as journal:
                assert journal.entries == []
        except ModelError as error:
            assert "damaged line" in str(error)


def test_one_service_at_a_time(tmp_path: Path) -> None:
    with Journal(tmp_path / "j"), pytest.raises(ModelError, match="held by another service"):
        Journal(tmp_path / "j")


@pytest.mark.parametrize("kind", ["pipe", "folder", "/dev/zero", "/dev/null"])
def test_labels_are_not_kept_in_what_is_no_file(kind: str, tmp_path: Path) -> None:
    """A pipe would never answer, a device never end, and one that forgets all would lose what it acknowledged."""
    path = tmp_path / "j"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(kind)
    with pytest.raises(ModelError, match=r"j: is no regular file, and is not read; added labels are kept in a file"):
        Journal(path)
    assert os.path.lexists(path)


def test_a_journal_may_be_a_link_to_another_disk(tmp_path: Path) -> None:
    (tmp_path / "j").symlink_to(tmp_path / "elsewhere")
    with Journal(tmp_path / "j") as journal:
        journal.add(ENTRIES[:1])
    with Journal(tmp_path / "j") as journal:
        assert journal.entries == ENTRIES[:1]
    assert (tmp_path / "j").is_symlink() and (tmp_path / "elsewhere").stat().st_size


def test_an_empty_journal_does_not_stay(tmp_path: Path) -> None:
    with Journal(tmp_path / "j"):
        assert (tmp_path / "j").exists()  # its lock keeps a second service out
    assert not (tmp_path / "j").exists()
    with Journal(tmp_path / "j") as journal:
        journal.add(ENTRIES[:1])
    assert (tmp_path / "j").stat().st_size


def test_a_file_removed_between_opening_and_locking_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    removed: list[int] = []

    def late(file: int, how: int) -> None:
        if not removed:  # another service ends here, and removes its empty journal
            (tmp_path / "j").unlink()
            removed.append(file)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with Journal(tmp_path / "j") as journal:
        journal.add(ENTRIES[:1])
    assert removed
    with Journal(tmp_path / "j") as journal:
        assert journal.entries == ENTRIES[:1]


def test_a_model_that_is_not_served_after_all_leaves_no_journal(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("text,labels\nsome words,another\n")
    command = ["serve", str(folders[0]), "--port", "0", "--examples", str(tmp_path / "other.csv"), "--text-column"]
    answer = CliRunner().invoke(app, [*command, "text", "--label-column", "labels"])
    assert answer.exit_code and answer.exception is not None and "none of the labels" in str(answer.exception), (
        answer.output
    )
    assert not journal_of(folders[0]).exists()


def test_a_full_disk_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.add(ENTRIES[:1])
        write = os.write

        def half(file: int, raw: bytes) -> int:
            write(file, raw[: len(raw) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", half)
            with pytest.raises(OSError, match="No space"):
                journal.add(ENTRIES[1:])
        assert journal.entries == ENTRIES[:1]
        journal.add(ENTRIES[2:])
    with Journal(tmp_path / "j") as journal:
        assert journal.entries == [ENTRIES[0], ENTRIES[2]] and journal.torn == 0


def test_it_is_flushed_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[bytes] = []
    fsync = os.fsync

    def watched(file: int) -> None:
        fsync(file)
        flushed.append((tmp_path / "j").read_bytes())

    with Journal(tmp_path / "j") as journal:
        monkeypatch.setattr(os, "fsync", watched)
        journal.add(ENTRIES[:2])
    assert len(flushed) == 1 and flushed[0].count(b"\n") == 2


def test_an_added_label_is_predicted_and_stays(folders: tuple[Path, Path]) -> None:
    towers = folders[0]
    offline = longtail.load_model(towers).with_labels(["a castle by the harbour"], ["new"])
    with serving(towers) as running:
        answer = running.post("/labels", {"labels": [{"text": "a castle by the harbour", "id": "new"}]})
        assert answer.json == {"model": "towers", "added": ["new"], "known": [], "labels": 11}
        found = running.post("/predict", {"text": "castle harbour", "k": 11}).json["answers"][0]["labels"]
        assert [label["id"] for label in found] == [
            one.id for one in offline.predict(["castle harbour"], 11).answers(0)
        ]
        new = next(label for label in found if label["id"] == "new")
        assert new["added"] and new["band"] == "unseen" and new["count"] == 0
        assert running.get("/labels?query=by+the+harb").json["labels"][0]["id"] == "new"
        again = running.post("/labels", {"labels": [{"text": "a castle by the harbour", "id": "new"}]})
        assert again.json == {"model": "towers", "added": [], "known": ["new"], "labels": 11}
        other = running.post("/labels", {"labels": [{"text": "something else", "id": "new"}]})
        assert other.status == 409 and "another id" in other.json["error"]
        assert running.get("/models").json["models"][0]["added"] == 1
    with serving(towers) as running:
        assert running.get("/models").json["models"][0]["labels"] == 11
        assert running.post("/predict", {"text": "castle harbour", "k": 11}).json["answers"][0]["labels"] == found
    assert longtail.load_model(towers).labels.ids == offline.labels.ids[:10]  # the model folder itself is as it was


def test_of_several_labels_all_or_none_join(folders: tuple[Path, Path]) -> None:
    with serving(folders[0]) as running:
        both = [{"text": "fine", "id": "fine"}, {"text": "not a castle", "id": "L2"}]
        assert running.post("/labels", {"labels": both}).status == 409
        twice = [{"text": "one", "id": "x"}, {"text": "two", "id": "x"}]
        assert running.post("/labels", {"labels": twice}).status == 409
        same = [{"text": "same"}, {"text": "same"}]
        assert running.post("/labels", {"labels": same}).json["added"] == ["same"]
        assert running.get("/models").json["models"][0]["labels"] == 11
    assert len(journal_of(folders[0]).read_text().splitlines()) == 1


def test_a_model_that_takes_no_labels_says_why(folders: tuple[Path, Path]) -> None:
    with serving(folders[1]) as running:
        answer = running.post("/labels", {"labels": [{"text": "new"}]})
        assert answer.status == 422 and "takes no new labels" in answer.json["error"]
    assert not journal_of(folders[1]).exists()
    journal_of(folders[1]).write_text("{}\n")
    with pytest.raises(ModelError, match="has labels that were added to"):
        Served("means", folders[1])


def test_a_journal_that_cannot_be_written_refuses_the_label(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(folders[0]) as running:

        def full(self: Journal, entries: list[Entry]) -> None:
            raise WriteError(self.path, OSError(errno.ENOSPC, "No space left on device"))

        with monkeypatch.context() as patch:
            patch.setattr(Journal, "add", full)
            assert running.post("/labels", {"labels": [{"text": "new"}]}).status == 503
        found = running.post("/predict", {"text": "new", "k": 11}).json["answers"][0]["labels"]
        assert all(label["id"] != "new" for label in found)
        assert any(event["event"] == "journal" for event in running.events)
        assert "new" not in [word for event in running.events for word in json.dumps(event).split('"')]


def test_a_model_trained_again_keeps_its_own_labels(folders: tuple[Path, Path]) -> None:
    """The journal stays beside the model; labels that the new model knows are its own."""
    with Journal(journal_of(folders[0])) as journal:
        journal.add([Entry("L3", "not a dragon"), Entry("n", "new one")])
    served = Served("towers", folders[0])
    labels = served.now.model.labels
    served.close()
    assert labels.ids[10:] == ("n",) and labels.word(3) == "a dragon" and served.renamed == 1
