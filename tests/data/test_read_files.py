"""Streaming: compression, line numbers, encodings, and every way a file can be broken."""

from __future__ import annotations

import gzip
import lzma
import os
from pathlib import Path

import pytest

from longtail.data import files
from longtail.data.files import chunks, find, lines, objects, whole_object
from longtail.errors import DataError
from longtail.progress import listening


def write(path: Path, raw: bytes) -> Path:
    packers = {".gz": gzip.compress, ".xz": lzma.compress}
    path.write_bytes(packers.get(path.suffix, bytes)(raw))
    return path


@pytest.mark.parametrize("name", ["rows.txt", "rows.txt.gz", "rows.txt.xz"])
def test_lines_are_numbered_from_one_however_the_file_is_packed(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "ä\n\nc\r\nlast".encode())
    assert list(lines(path)) == [(1, "ä"), (2, ""), (3, "c\r"), (4, "last")]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "one\u2028still one\x0b\x0c\x85\nsecond\n".encode())
    assert [text for _, text in lines(path)] == ["one\u2028still one\x0b\x0c\x85", "second"]


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    assert list(lines(write(tmp_path / "a.txt", b"\xef\xbb\xbfa\nb\n"))) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_pieces_of_any_size_give_the_same_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    raw = b"a\n\nlong line that spans pieces\nb"
    path = write(tmp_path / "a.txt", raw)
    monkeypatch.setattr(files, "CHUNK", size)
    assert b"".join(piece for _, piece in chunks(path)) == raw
    expected = raw.decode().split("\n")
    assert list(lines(path)) == list(enumerate(expected, 1))


def test_reading_reports_its_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "train.jsonl.gz", b'{"id": 1}\n' * 5000)

    class Listener:
        def __init__(self) -> None:
            self.heard: list[tuple[object, ...]] = []

        def start(self, name: str, total: int | None) -> int:
            self.heard.append((name, total))
            return 0

        def advance(self, handle: int, amount: int) -> None:
            self.heard.append((amount,))

        def finish(self, handle: int) -> None:
            self.heard.append(("end",))

    listener = Listener()
    with listening(listener):
        list(objects(path))
    size = path.stat().st_size
    assert listener.heard[0] == ("reading train", size)
    assert sum(entry[0] for entry in listener.heard[1:-1]) == size  # type: ignore[misc]
    assert listener.heard[-1] == ("end",)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no /dev/fd on this system")
def test_a_pipe_that_is_handed_over_is_read_like_a_file() -> None:
    """As shells give it for <(command)."""
    ours, theirs = os.pipe()
    os.write(theirs, b"one\ntwo\n")
    os.close(theirs)
    assert list(lines(Path(f"/dev/fd/{ours}"))) == [(1, "one"), (2, "two")]
    os.close(ours)


def test_find_takes_any_packing_and_refuses_two(tmp_path: Path) -> None:
    assert find(tmp_path, "train.jsonl") is None
    packed = write(tmp_path / "train.jsonl.gz", b"")
    assert find(tmp_path, "train.jsonl") == packed
    write(tmp_path / "train.jsonl", b"")
    with pytest.raises(DataError, match=r"train\.jsonl and train\.jsonl\.gz are both here.*keep one"):
        find(tmp_path, "train.jsonl")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.txt: no such file"):
        list(lines(tmp_path / "gone.txt"))


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_a_packed_file_of_no_bytes(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"train.jsonl{ending}"
    path.touch()
    with pytest.raises(DataError, match=r"train\.jsonl.*has 0 bytes; copy or make it again"):
        list(lines(path))


@pytest.mark.parametrize("ending", [".gz", ".xz"])
@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_a_packed_file_cut_short(tmp_path: Path, ending: str, kept: float) -> None:
    path = write(tmp_path / f"train.jsonl{ending}", b"".join(b"%d\n" % (n * n) for n in range(9000)))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(DataError, match="ends too early; copy or make it again"):
        list(lines(path))


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_a_plain_file_with_a_packed_name(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"train.jsonl{ending}"
    path.write_bytes(b'{"id": "plain text, never packed"}\n')
    with pytest.raises(DataError, match=f"not whole {ending[1:]} data.*drop {ending} from its name"):
        list(lines(path))


def test_a_flipped_bit_inside_gzip(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl.gz", b"".join(b"%d\n" % (n * n) for n in range(9000)))
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0x10
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"a\.jsonl\.gz"):
        list(lines(path))


def test_a_packed_file_with_a_plain_name(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(gzip.compress(b'{"id": 1}\n'))
    with pytest.raises(DataError, match="this is gzip data; add "):
        list(lines(path))


def test_bytes_that_are_not_utf8_name_their_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b"fine\nfine\ncaf\xe9 au lait\n")
    with pytest.raises(DataError, match=r"a\.jsonl:3: byte 0xe9 is not UTF-8; pass --encoding auto") as caught:
        list(lines(path))
    assert caught.value.line == 3


def test_a_few_bytes_with_a_zero_are_no_other_unicode(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"\x00\n\x00\n")
    assert [line for _, line in lines(path)] == ["\x00", "\x00"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_another_unicode_is_named(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path / "a.csv", "\ufefftext,labels\nGr\u00f6\u00dfe,a\n".encode(encoding))
    with pytest.raises(DataError, match="this is UTF-16, not UTF-8; pass --encoding auto where the command has it, "):
        list(lines(path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": ', "broken JSON"),
        ("{'id': 1}", "broken JSON"),
        ('{"id": 1} {"id": 2}', "broken JSON"),
        ("[1]", "got a list"),
        ("7", "got a number"),
        ("null", "got null"),
        ('"word"', "got a string"),
        ("[" * 100_000, "broken JSON"),
        ("1" * 10_000, "broken JSON"),
    ],
)
def test_a_line_that_is_no_object_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "a.jsonl", ('{"id": 1}\n' * 5 + "\n" + line + "\n").encode())
    with pytest.raises(DataError, match=rf"a\.jsonl:7: .*{message}") as caught:
        list(objects(path))
    assert "\n" not in str(caught.value)


def test_blank_lines_between_objects_are_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b'\n{"a": 1}\r\n  \n{"a": 2}\n\n')
    assert list(objects(path)) == [(2, {"a": 1}), (4, {"a": 2})]


@pytest.mark.parametrize(("raw", "message"), [(b"{\n1}", ":2: broken JSON"), (b"[]", "got a list"), (b"", "broken")])
def test_a_broken_whole_file(tmp_path: Path, raw: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        whole_object(write(tmp_path / "corpus.json", raw))
