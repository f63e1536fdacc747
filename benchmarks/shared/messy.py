"""Data with the faults that people's data has: a CSV of books, and a drawer of books as files with a SKOS vocabulary.

Nothing here is a real book: titles are drawn from the words of their subjects, the same for the same seed.
"""

from __future__ import annotations

import random
from pathlib import Path

THEMES = {  # a subject and words of its books
    "Strategy": ["plan", "army", "market", "rival", "victory", "campaign"],
    "Cooking": ["soup", "oven", "recipe", "spice", "kitchen", "dough"],
    "Gardening": ["soil", "seed", "rose", "harvest", "compost", "hedge"],
    "Fiction, historical": ["duchess", "candle", "regiment", "letters", "estate", "carriage"],
    "Astronomy": ["comet", "orbit", "telescope", "galaxy", "eclipse", "nebula"],
    "Music": ["violin", "tempo", "opera", "chord", "rehearsal", "ballad"],
    "Sailing": ["harbour", "mast", "knot", "storm", "rudder", "anchor"],
    "Mathematics": ["proof", "integer", "lemma", "topology", "matrix", "theorem"],
    "Mushrooms": ["spore", "forest", "cap", "gill", "truffle", "moss"],
    "Railways": ["steam", "signal", "station", "viaduct", "timetable", "carriage"],
    "Chess": ["gambit", "rook", "endgame", "opening", "tournament", "checkmate"],
    "Café culture": ["espresso", "terrace", "newspaper", "waiter", "croissant", "crème"],
}
COMMON = [
    "the", "of", "and", "a", "new", "complete", "short", "history", "guide", "to", "life", "world", "stories",
    "from", "for", "beginners", "all", "about", "my", "first",
]  # fmt: skip
WRONG_SPELLINGS = {"Strategy": ["STRATEGY", "strategy ", "Strategy"], "Cooking": ["cooking", "Cooking"]}
NO_LABELS = ("N/A", "none", "-")


def title_of(subjects: list[str], rng: random.Random, words: int = 7) -> str:
    """Words of the subjects, and words that any title has."""
    own = [rng.choice(THEMES[subject]) for subject in subjects for _ in range(3)]
    drawn = [*own, *(rng.choice(COMMON) for _ in range(words))]
    rng.shuffle(drawn)
    return " ".join(drawn)


def write_csv(path: Path, rows: int = 20_000, seed: int = 0) -> dict[str, int]:
    """Write the CSV: a byte order mark, line ends of Windows, three encodings, ragged rows, open quotes, labels in
    several spellings, labels that are none, quotes around a label with the separator in it, and rows that occur twice.

    Returns:
        How many rows have each fault.
    """
    rng = random.Random(seed)
    faults = dict.fromkeys(("cp1252", "cp850", "ragged", "open quote", "spelling", "no label", "copy"), 0)
    subjects = list(THEMES)
    lines = [b"isbn,title,shelf,subjects"]
    for number in range(rows):
        own = rng.sample(subjects, rng.choice([1, 1, 2]))
        title = title_of(own, rng)
        labels = []
        for subject in own:
            spelt = rng.choice(WRONG_SPELLINGS.get(subject, [subject]))
            faults["spelling"] += spelt != subject
            labels.append(f'"{spelt}"' if "," in spelt else spelt)
        if number % 60 == 7:
            labels.append(rng.choice(NO_LABELS))
            faults["no label"] += 1
        cell = ",".join(labels)
        cell = '"' + cell.replace('"', '""') + '"' if "," in cell or '"' in cell else cell
        row = f"b{number:05d},{title},{rng.randint(1, 40)},{cell}"
        raw = row.encode()
        if not row.isascii() and number % 3 == 0:
            encoding = "cp850" if number % 9 == 3 else "cp1252"
            raw = row.encode(encoding)
            faults[encoding] += 1
        if number % 997 == 400:
            raw += b",and more,fields"
            faults["ragged"] += 1
        if number % 4999 == 2000:
            raw = f'b{number:05d},"a title that never ends,3,Chess'.encode()
            faults["open quote"] += 1
        lines.append(raw)
        if number % 500 == 250:
            lines.append(lines[-1])
            faults["copy"] += 1
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines) + b"\r\n")
    return faults


def write_drawer(folder: Path, books: int = 300, seed: int = 0) -> None:
    """Write a drawer of books as a library keeps them: NAME.txt with NAME.tsv or NAME.key, and vocabulary.ttl.

    Some texts have line ends of Windows, a byte order mark or the encoding of Windows; one book has no subjects, and
    some have a subject that the vocabulary no longer has. `new` has books without subjects, one of them long.
    """
    rng = random.Random(seed)
    uris = {subject: f"http://example.org/subjects/{number}" for number, subject in enumerate(THEMES)}
    (folder / "train").mkdir(parents=True)
    (folder / "new").mkdir()
    for number in range(books):
        own = rng.sample(list(THEMES), rng.choice([1, 2]))
        text = "\n".join(title_of(own, rng, 12) for _ in range(rng.randint(3, 12)))
        raw = text.encode()
        if number % 10 == 3:
            raw = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
        elif number % 10 == 6:
            raw = text.encode("cp1252")
        name = folder / "train" / f"book-{number:04d}"
        name.with_suffix(".txt").write_bytes(raw)
        if number == books - 1:
            continue
        if number % 4 == 0:
            name.with_suffix(".key").write_text("".join(f"{subject}\n" for subject in own))
            continue
        rows = [f"<{uris[subject]}>\t{subject}\n" for subject in own]
        rows += ["<http://example.org/subjects/gone>\tPhlogiston\n"] * (number % 50 == 1)
        name.with_suffix(".tsv").write_text("".join(rows))
    for number, subject in enumerate(("Chess", "Sailing", "Mushrooms")):
        lines = 20_000 if number == 0 else 6  # the first is a book of more than a million letters
        text = "\n".join(title_of([subject], rng, 12) for _ in range(lines))
        (folder / "new" / f"{subject.lower()}.txt").write_text(text)
    (folder / "new" / "nonsense.txt").write_text("zzzz qqqq xxxx " * 20)
    turtle = ["@prefix skos: <http://www.w3.org/2004/02/skos/core#> ."]
    for subject, uri in uris.items():
        turtle.append(
            f'<{uri}> a skos:Concept ; skos:prefLabel "{subject}"@en ; skos:altLabel "{THEMES[subject][0]}"@en ; '
            "skos:broader <http://example.org/subjects/all> ."
        )
    turtle.append('<http://example.org/subjects/all> a skos:Concept ; skos:prefLabel "Books"@en .')
    (folder / "vocabulary.ttl").write_text("\n".join(turtle) + "\n")
