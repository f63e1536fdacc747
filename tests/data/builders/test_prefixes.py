"""Query completion: every step against a slow, plain reference over small logs in the format of the published files."""

from __future__ import annotations

import gzip
import random
import re
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from longtail.data.builders.prefix_log import normalised
from longtail.data.builders.prefixes import PrefixSettings, build_prefixes
from longtail.data.builders.requirements import AOL
from longtail.data.corpus import Corpus
from longtail.data.labels import Propensity
from longtail.data.read import load
from longtail.errors import DataError

HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
WORDS = ("cheap", "nike", "shoes", "a", "new", "york", "times", "map", "of", "rome")
Line = tuple[str, str, str]  # person, query, time


def written(path: Path, rows: list[Line]) -> Path:
    lines = [HEADER, *(f"{person}\t{query}\t{time}\t\t\n" for person, query, time in rows)]
    path.write_bytes(gzip.compress("".join(lines).encode()))
    return path


def made_up(seed: int, number: int = 400) -> list[Line]:
    """Few words, so that queries share prefixes and suffixes; some repeat, some have odd characters or spaces."""
    rng = random.Random(seed)
    rows: list[Line] = []
    for _ in range(number):
        query = " ".join(rng.choices(WORDS, k=rng.randint(1, 4)))
        query = rng.choice([query, query, query, query.upper(), f"-{query}", f"{query}.com", query.replace("a", "à")])
        day = rng.choice(["2006-03-01", "2006-04-11", "2006-05-17", "2006-05-20", "2006-05-25", "2006-05-31"])
        rows.append((str(rng.randint(1, 9)), query, f"{day} 07:17:12"))
        if rng.random() < 0.2:
            rows.append(rows[-1])  # a second click
    return rows


def build(folder: Path, logs: list[Path], **options: object) -> Corpus:
    settings = PrefixSettings(**options)  # type: ignore[arg-type]
    build_prefixes(logs, folder / "built", settings, propensity=Propensity(), accepted=True)
    return load(folder / "built", valid_share=0)


def rows_of(corpus: Corpus, split: str) -> dict[str, dict[str, float]]:
    data = getattr(corpus, split)
    found: dict[str, dict[str, float]] = {}
    for row, text in enumerate(data.texts):
        one = data.targets[[row]]
        found[text] = {corpus.labels.texts[label]: float(w) for label, w in zip(one.indices, one.data, strict=True)}
    assert len(found) == len(data)
    return found


def mix(state: int) -> int:
    state ^= state >> 33
    state = state * 0xFF51AFD7ED558CCD % 2**64
    state ^= state >> 33
    state = state * 0xC4CEB9FE1A85EC53 % 2**64
    return state ^ state >> 33


def key(text: str) -> int:
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return mix(state)


def reference(rows: list[Line], published: bool, seed: int = 0) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Train and test rows with their suffixes, before labels are chosen; every suffix may be one."""
    asked = (Counter[str](), Counter[str]())
    before = ("", "")
    for person, raw, time in rows:
        ascii_only = unicodedata.normalize("NFKC", raw).encode("ascii", "ignore").decode()
        query = " ".join(ascii_only.lower().split())
        if len(query) < 3 or (person, query) == before:
            continue
        before = (person, query)
        words = re.sub("[^A-Za-z0-9]+", " ", query)
        if published and words != words.strip():
            continue
        words = words.strip()
        split = 0 if "2006-03-01" <= time[:10] < "2006-05-18" else 1 if "2006-05-25" <= time[:10] < "2006-06-01" else 2
        if words and split < 2:
            asked[split][words] += 1

    def suffixes(query: str, kept: set[str]) -> dict[str, int]:
        parts = query.split(" ")
        endings = [" ".join(parts[start:]) for start in range(len(parts))]
        return {one: max(0, len(query) - len(one) - 2) for one in endings if len(one) <= 100 and one in kept}

    def draw(query: str, kept: set[str], split: int) -> str:
        found = suffixes(query, kept)
        low, high = min(found.values(), default=99), len(query) - 2
        if high < low:
            return ""
        end = low + mix(key(query) ^ (2 * seed + split)) % (high - low + 1)
        return query[: end + 1] if published else query[: end + 1].rstrip()

    def rows_for(split: int, kept: set[str], complete: bool) -> dict[str, set[str]]:
        drawn = {query: draw(query, kept, split) for query in sorted(asked[split])}
        made: dict[str, set[str]] = defaultdict(set)
        for query, prefix in drawn.items():
            if not prefix:
                continue
            own = {one for one, index in suffixes(query, kept).items() if index < len(prefix)}
            made[prefix] = own if split and published else made[prefix] | own
        for query in asked[split] if complete else ():
            for one, index in suffixes(query, kept).items():
                for end in range(index, len(query) - 1):
                    tested = query[: index + 1] if published else query[: end + 1]
                    if tested in made:
                        made[tested].add(one)
        return made

    everything = {ending for query in asked[0] for ending in suffixes(query, _endings(query))}
    train = rows_for(0, everything, True)
    seen = set().union(*train.values())
    test = rows_for(1, seen, not published)
    return train, {prefix: found for prefix, found in test.items() if prefix not in train}


def _endings(query: str) -> set[str]:
    parts = query.split(" ")
    return {" ".join(parts[start:]) for start in range(len(parts))}


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_rows_and_labels_are_those_of_a_plain_reference(tmp_path: Path, seed: int, published: bool) -> None:
    lines = made_up(seed)
    lines += [(str(person), f"{'of ' * 40}new york", "2006-03-02 07:17:12") for person in (1, 2)]  # over 100 letters
    lines += [("3", f"{'of ' * 30}new york", "2006-05-26 07:17:12"), ("4", "ny", "2006-03-02 07:17:12")]
    half = len(lines) // 2
    logs = [written(tmp_path / f"user-ct-test-collection-0{part}.txt.gz", rows)
            for part, rows in enumerate((lines[:half], lines[half:]), 1)]  # fmt: skip
    corpus = build(tmp_path, logs[::-1], seed=seed, as_published=published)
    train, test = reference(lines, published, seed)
    labels = set().union(*test.values()) & set().union(*train.values())
    assert len(train) > 50 and len(test) > 10 and len(labels) > 20
    for split, wanted in (("train", train), ("test", test)):
        kept = {prefix: found & labels for prefix, found in wanted.items() if found & labels}
        assert {prefix: set(found) for prefix, found in rows_of(corpus, split).items()} == kept
    assert set(corpus.labels.texts) == labels
    assert (corpus.labels.counts[:-1] >= corpus.labels.counts[1:]).all()


def test_labels_of_train_need_rows_there_and_test_does_not_choose_them(tmp_path: Path) -> None:
    lines = made_up(3)
    corpus = build(tmp_path, [written(tmp_path / "log.txt.gz", lines)], labels="train", least=3)
    train, _ = reference(lines, published=False)
    rows = Counter(label for found in train.values() for label in found)
    assert set(corpus.labels.texts) == {label for label, number in rows.items() if number >= 3}


def test_one_query_worked_by_hand(tmp_path: Path) -> None:
    """Of "cheap nike shoes", asked three times, 'shoes' can follow "cheap nike", and all of it any prefix."""
    rows = [("1", "cheap nike shoes", "2006-03-02 00:00:00"), ("1", "Cheap  nike-shoes", "2006-03-03 00:00:00")]
    rows += [("2", "Cheap Nike Shoes", "2006-03-04 00:00:00"), ("2", "Cheap Nike Shoes", "2006-03-04 00:00:09")]
    rows += [("3", "old shoes", "2006-05-26 00:00:00"), ("4", "my cheap nike shoes", "2006-05-31 23:59:59")]
    rows += [("5", "old shoes", "2006-05-18 00:00:00")]  # between the splits
    corpus = build(tmp_path, [written(tmp_path / "log.txt.gz", rows)])
    [(prefix, labels)] = rows_of(corpus, "train").items()
    endings = {"cheap nike shoes": 1, "nike shoes": 5, "shoes": 10}  # letters of the shortest prefix of each
    test = rows_of(corpus, "test")
    in_test = set().union(*test.values())
    assert set(labels) == {ending for ending, letters in endings.items() if len(prefix) >= letters} & in_test
    assert all(not text.endswith(" ") for text in test)


def test_counts_are_soft_targets_on_request(tmp_path: Path) -> None:
    """'ab cd' was asked 4 times and 'ab ef' once: of a row with both, the second has the weight 1/4."""
    rows = [(str(person), "ab cd", "2006-03-02 00:00:00") for person in range(4)]
    rows += [("9", "ab ef", "2006-03-02 00:00:00"), ("9", "xx cd", "2006-05-26 00:00:00")]
    rows += [("9", "yy ef", "2006-05-26 00:00:00")]
    corpus = build(tmp_path, [written(tmp_path / "log.txt.gz", rows)], counts=True)
    for text, labels in rows_of(corpus, "train").items():
        assert labels == {"cd": 1.0, "ef": 0.25} if text == "ab" else labels
    assert any(text == "ab" for text in rows_of(corpus, "train"))


def test_only_the_most_frequent_suffixes_are_kept(tmp_path: Path) -> None:
    lines = made_up(5)
    few = build(tmp_path, [written(tmp_path / "log.txt.gz", lines)], suffixes=5, labels="train", least=1)
    assert 1 <= len(few.labels) <= 5
    assert "rome" in few.labels.texts or "map" in few.labels.texts


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (b"  New   York\tx".split(b"\t")[0], b"new york"),
        ("Ａｂｃ １２".encode(), b"abc 12"),  # full width: NFKC
        ("café".encode(), b"caf"),  # published rule: é is dropped, not replaced
        ("cafe\u0301".encode(), b"caf"),  # NFKC joins the accent first
        (b"caf\xe9 map", b"caf map"),  # Latin-1
        (b"\xff\xfe", b""),
    ],
)
def test_queries_are_normalised(raw: bytes, wanted: bytes) -> None:
    assert normalised(raw) == wanted


def test_a_repeat_over_the_border_of_two_pieces_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = made_up(7)
    whole = build(tmp_path, [written(tmp_path / "log.txt.gz", lines)])
    (tmp_path / "small").mkdir()
    monkeypatch.setattr("longtail.data.files.CHUNK", 100)
    cut = build(tmp_path / "small", [tmp_path / "log.txt.gz"])
    assert rows_of(cut, "train") == rows_of(whole, "train") and rows_of(cut, "test") == rows_of(whole, "test")


def test_nothing_of_a_person_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the set nor in a stage on the way there, which a kill would leave on the disk."""
    lines = [(f"99{person}7531", query, time) for person, query, time in made_up(1)]
    rename, seen = Path.rename, list[str]()

    def checked(self: Path, target: Path) -> Path:
        for path in self.rglob("*") if self.is_dir() else [self]:
            assert path.is_dir() or b"7531" not in path.read_bytes(), path
        seen.append(target.name)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", checked)
    build(tmp_path, [written(tmp_path / "log.txt.gz", lines)])
    assert {"log", "queries", "train-rows", "labels"} <= set(seen)
    assert (tmp_path / "built" / ".gitignore").read_text() == "*\n"
    for path in (tmp_path / "built").iterdir():
        raw = path.read_bytes()
        assert b"7531" not in (gzip.decompress(raw) if path.suffix == ".gz" else raw), path


def asked_in_train(lines: list[Line]) -> set[str]:
    """The different queries of train; only the 'à' of these lines is not ASCII, and is dropped."""
    queries = [" ".join(query.replace("à", "").lower().split()) for _, query, time in lines if time < "2006-05-18"]
    return {re.sub("[^a-z0-9]+", " ", query).strip() for query in queries if len(query) >= 3}


def test_few_damaged_lines_are_left_out_and_many_refused(tmp_path: Path) -> None:
    lines = made_up(2, 3000)
    log = written(tmp_path / "log.txt.gz", lines)
    text = gzip.decompress(log.read_bytes()).replace(b"\n", b"\nbroken line\n", 2).replace(b"broken line\n", b"", 1)
    log.write_bytes(gzip.compress(text))
    done = build_prefixes([log], tmp_path / "built", PrefixSettings(), propensity=Propensity(), accepted=True)
    assert done.counts["log lines"] == 3594 and done.counts["train queries"] == len(asked_in_train(lines))
    assert "1 of 3,594" in done.notes[0] and "log.txt.gz:3: 1 column instead of 5" in done.notes[0]
    log.write_bytes(gzip.compress(text.replace(b"\t\t\n", b"\t\n")))
    with pytest.raises(DataError, match=r"4 columns instead of 5; 3,\d+ of 3,\d+ lines are damaged"):
        build_prefixes([log], tmp_path / "again", PrefixSettings(), propensity=Propensity(), accepted=True)


def test_clicks_headers_and_line_ends_change_nothing(tmp_path: Path) -> None:
    """A line may have a click, or end behind the time; a file may have no header, and line ends of Windows."""
    log = written(tmp_path / "log.txt.gz", made_up(6))
    plain = build(tmp_path, [log])
    text = gzip.decompress(log.read_bytes()).decode()
    changes = {"clicked": text.replace("\t\t\n", "\t2\thttp://x.org\n"), "cut": text.replace("\t\t\n", "\n")}
    changes |= {"headless": text.removeprefix(HEADER), "windows": text.replace("\n", "\r\n")}
    for name, changed in changes.items():
        (folder := tmp_path / name).mkdir()
        assert changed != text
        (folder / "log.txt").write_bytes(changed.encode())
        other = build(folder, [folder / "log.txt"])
        assert rows_of(other, "train") == rows_of(plain, "train") and rows_of(other, "test") == rows_of(
            plain, "test"
        ), name


def test_what_is_missing_is_said_before_the_work(tmp_path: Path) -> None:
    log = written(tmp_path / "log.txt.gz", made_up(0))

    def refused(logs: list[Path], message: str, accepted: bool = True, **options: object) -> None:
        settings = PrefixSettings(**options)  # type: ignore[arg-type]
        with pytest.raises(DataError, match=message):
            build_prefixes(logs, tmp_path / "built", settings, propensity=Propensity(), accepted=accepted)
        assert not list(tmp_path.glob(".built*"))

    refused([log, tmp_path / "log2.txt.gz"], r"no such file: .*log2\.txt\.gz")
    refused([log], "non-commercial research only.*--accept-licence", accepted=False)
    refused([log], "labels are those of 'test'", labels="valid")
    refused([log, log], "given twice")
    refused([log], "share days", test_days=("2006-05-17", "2006-06-01"))
    refused([log], "must be after 2006-05-18", train_days=("2006-05-18", "2006-03-01"))
    refused(
        [log], "from 2007-01-01 until before 2007-02-01: test would be empty", test_days=("2007-01-01", "2007-02-01")
    )
    odd = tmp_path / "log.zip"
    odd.write_bytes(b"PK\x03\x04" + log.read_bytes())
    refused([odd], "log.zip: this is a zip archive, not UTF-8 text; unpack it")
    assert "real people" in AOL.terms


def test_broken_gzip_names_the_file(tmp_path: Path) -> None:
    log = written(tmp_path / "log.txt.gz", made_up(0))
    log.write_bytes(log.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"log\.txt\.gz: the compressed file ends too early"):
        build_prefixes([log], tmp_path / "built", PrefixSettings(), propensity=Propensity(), accepted=True)
