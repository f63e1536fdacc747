"""A vocabulary in SKOS: concepts with names in languages, and how they relate. RDF/XML, Turtle or N-Triples.

    read_skos("yso.ttl", language="fi", exclude_types=["http://…/GeographicalConcept"])

rdflib reads the file (`pip install "longtail[skos]"`); links to other files inside it are never followed. A concept
becomes a label: its URI is the id, its prefLabel the text, altLabel and hiddenLabel are further names; so are its names
in further languages, where those are asked for. A concept without a name in the chosen language keeps one in another.
Deprecated concepts are left out; those that name one
successor (dcterms:isReplacedBy) are known by it.
"""

from __future__ import annotations

import mmap
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from longtail.arrays import Matrix
from longtail.data.labels import LabelSet, Propensity
from longtail.data.opening import check_room, file_size, open_file
from longtail.errors import DataError

FORMATS = {".ttl": "turtle", ".nt": "nt", ".rdf": "xml", ".xml": "xml", ".skos": "xml", ".owl": "xml"}
ENCODINGS = ("utf-8", "us-ascii", "ascii", "iso-8859-1", "windows-1252")  # in all of them "<!ENTITY" has the same bytes
ENCODING = re.compile(rb"""(?:\xef\xbb\xbf)?<\?xml[^>]*?encoding\s*=\s*["']([^"']*)["']""")
LONGEST_ENTITY = 1000
IN_MEMORY = 50  # bytes that rdflib takes for each byte of a file, about
ENTITY = re.compile(rb"<!ENTITY\s+((?:%\s+)?\S+)\s+(\"[^\"]*\"|'[^']*'|[^>]*)", re.DOTALL)
SKOS = "http://www.w3.org/2004/02/skos/core#"
KINDS = ("prefLabel", "altLabel", "hiddenLabel")
SKOSXL = "http://www.w3.org/2008/05/skos-xl#"
DEPRECATED = "deprecated"
OWL_DEPRECATED = "http://www.w3.org/2002/07/owl#deprecated"
REPLACED_BY = "http://purl.org/dc/terms/isReplacedBy"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


@dataclass(frozen=True)
class Concept:
    """One concept of a vocabulary."""

    uri: str
    name: str  # prefLabel in the chosen language
    others: tuple[str, ...] = ()  # altLabel, then hiddenLabel
    notation: str = ""
    broader: tuple[str, ...] = ()  # URIs
    related: tuple[str, ...] = ()


@dataclass(frozen=True)
class Thesaurus:
    """The concepts of a vocabulary in the order of their URIs, and what was left out."""

    concepts: tuple[Concept, ...]
    language: str
    left_out: dict[str, int] = field(default_factory=dict)  # concepts by reason
    replaced: dict[str, str] = field(default_factory=dict)  # URIs of deprecated concepts and of their successors
    named_otherwise: int = 0  # concepts without a name in the language, named in another

    def label_set(self, propensity: Propensity = Propensity()) -> LabelSet:  # noqa: B008
        """The concepts as labels.

        Args:
            propensity: the constants of the data set.

        Returns:
            Labels without counts; ids are URIs.
        """
        row = {concept.uri: place for place, concept in enumerate(self.concepts)}

        def links(of: Iterable[tuple[str, ...]]) -> Matrix:
            pairs = [(place, row[uri]) for place, uris in enumerate(of) for uri in uris if uri in row]
            ends = np.array(sorted(set(pairs)), dtype=np.int32).reshape(-1, 2)
            ones = np.ones(len(ends), dtype=np.float32)
            return sparse.csr_array((ones, (ends[:, 0], ends[:, 1])), shape=(len(row), len(row)))

        return LabelSet(
            ids=tuple(row),
            texts=tuple(concept.name for concept in self.concepts),
            names=tuple(concept.others for concept in self.concepts),
            broader=links(concept.broader for concept in self.concepts),
            related=links(concept.related for concept in self.concepts),
            propensity=propensity,
        )


def read_skos(
    path: str | Path,
    language: str = "",
    *,
    exclude_types: Sequence[str] = (),
    exclude_schemes: Sequence[str] = (),
    exclude_collections: Sequence[str] = (),
) -> Thesaurus:
    """Reads a SKOS file.

    Args:
        path: a file whose name ends with .ttl, .nt, .rdf, .xml, .skos or .owl.
        language: of the names, such as "de"; default: the language with most prefLabels. "de,en": names in German, and
            those in English as further names.
        exclude_types: URIs of types; concepts of such a type are left out.
        exclude_schemes: URIs of schemes; concepts in such a scheme are left out.
        exclude_collections: URIs of collections; their members are left out, and those of collections inside.

    Returns:
        The concepts.

    Raises:
        DataError: the file cannot be read as RDF, rdflib is missing, there is no concept with a name, or none is left
            out by a URI that was given for that.
    """
    path = Path(path)
    graph = _parsed(path)
    from rdflib import URIRef

    def subjects(predicate: str, value: str) -> set[Any]:
        return set(graph.subjects(URIRef(predicate), URIRef(value)))

    concepts = subjects(RDF_TYPE, SKOS + "Concept")
    languages = _languages(graph)
    asked = [one.strip().lower() for one in language.split(",")]
    language, further = asked[0] or next(iter(languages), ""), asked[1:]
    there = {part for one in languages for part in (one, one.partition("-")[0])}
    for one in further:
        if one not in there:
            raise DataError(f"has no prefLabel in {one!r}; it has {', '.join(filter(None, languages))}", path)
    left_out: dict[str, int] = {}
    known = concepts

    def leave_out(reason: str, found: set[Any]) -> None:
        nonlocal concepts
        if gone := concepts & found:
            left_out[reason] = len(gone)
            concepts = concepts - gone
        elif not known & found and reason != DEPRECATED:
            raise DataError(f"has no concept {reason}, which was to be left out; check the URI", path)

    deprecated = {one for one in concepts if _is_true(graph.value(one, URIRef(OWL_DEPRECATED)))}
    leave_out(DEPRECATED, deprecated)
    for kind in exclude_types:
        leave_out(f"of type {kind}", subjects(RDF_TYPE, kind))
    for scheme in exclude_schemes:
        top = set(graph.objects(URIRef(scheme), URIRef(SKOS + "hasTopConcept")))
        leave_out(
            f"in scheme {scheme}", subjects(SKOS + "inScheme", scheme) | subjects(SKOS + "topConceptOf", scheme) | top
        )
    for collection in exclude_collections:
        leave_out(f"in collection {collection}", _members(graph, URIRef(collection)))
    found, in_language = [], 0
    for concept in sorted(concepts):
        spoken = (language, *(one for one in languages if one != language))
        named = ((one, _names(graph, concept, "prefLabel", one)) for one in spoken)
        used, names = next(((one, names) for one, names in named if names), ("", []))
        if not names:
            left_out["without a prefLabel"] = left_out.get("without a prefLabel", 0) + 1
            continue
        in_language += used == language
        others = [*_names(graph, concept, "altLabel", used), *_names(graph, concept, "hiddenLabel", used)]
        for one in further:
            others += [name for kind in KINDS for name in _names(graph, concept, kind, one)]
        notation = graph.value(concept, URIRef(SKOS + "notation"))
        found.append(
            Concept(
                str(concept),
                names[0],
                tuple(dict.fromkeys(name for name in [*names[1:], *others] if name != names[0])),
                "" if notation is None else str(notation),
                _linked(graph, concept, "broader", "narrower"),
                _linked(graph, concept, "related", "related"),
            )
        )
    if not in_language:
        raise DataError(
            f"holds no skos:Concept with a prefLabel in {language!r}; it has names in "
            f"{', '.join(filter(None, languages)) or 'no language'}"
            f"{'; left out: ' + str(left_out) if left_out else ''}; name another language, or check the file",
            path,
        )
    kept = {one.uri for one in found}
    replaced = {str(one): end for one in deprecated if (end := _successor(graph, one)) in kept}
    return Thesaurus(tuple(found), language, left_out, replaced, len(found) - in_language)


def _parsed(path: Path) -> Any:
    try:
        import rdflib
    except ImportError:
        raise DataError('SKOS files need rdflib; install it with: pip install "longtail[skos]"') from None
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        raise DataError(f"is not known as RDF by its name; names end with {', '.join(FORMATS)}", path)
    check_room(IN_MEMORY * file_size(path), path, "the vocabulary")  # looks at what it is before it is opened
    if form == "xml":
        _check_entities(path)
    graph = rdflib.Graph()
    try:
        graph.parse(str(path), format=form)
    except Exception as error:  # every parser of rdflib has exceptions of its own
        problem = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"cannot be read as {form}: {problem}; correct the file", path) from None
    return graph


def _check_entities(path: Path) -> None:
    """Refuse entities that read other files, or that grow when they are put in: a short file could fill the memory.

    RDF/XML declares short names for namespaces as entities, so plain ones are allowed.
    """
    if file_size(path) == 0:
        return
    with open_file(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        declared = ENCODING.match(content[:200])
        encoding = declared[1].lower().decode(errors="replace") if declared else "utf-8"
        if content[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in content[:4] or encoding not in ENCODINGS:
            raise DataError(f"cannot be read as xml: its encoding is not one of {', '.join(ENCODINGS)}", path)
        for match in ENTITY.finditer(content):
            name, value = match.groups()
            if value[:1] not in b"\"'" or b"&" in value or b"%" in name or len(value) > LONGEST_ENTITY:
                raise DataError(
                    f"cannot be read as xml: the entity {name.decode(errors='replace')} reads another file, refers to "
                    f"other entities or is longer than {LONGEST_ENTITY} characters; take it out",
                    path,
                )


def _languages(graph: Any) -> list[str]:
    """The languages of the prefLabels, the commonest first."""
    from rdflib import URIRef

    names = [*graph.objects(None, URIRef(SKOS + "prefLabel"))]
    for label in graph.objects(None, URIRef(SKOSXL + "prefLabel")):
        names += graph.objects(label, URIRef(SKOSXL + "literalForm"))
    counts = Counter((getattr(name, "language", "") or "").lower() for name in names)
    return sorted(counts, key=lambda language: (-counts[language], language))


def _successor(graph: Any, concept: Any) -> str:
    """The URI at the end of a chain of successors; "" where a concept has none or several."""
    from rdflib import URIRef

    seen: set[Any] = set()
    while concept not in seen:
        seen.add(concept)
        following = set(graph.objects(concept, URIRef(REPLACED_BY)))
        if not following:
            return str(concept) if len(seen) > 1 else ""
        if len(following) > 1:
            return ""
        concept = following.pop()
    return ""


def _names(graph: Any, concept: Any, kind: str, language: str) -> list[str]:
    """Names of a kind in a language, in a region's form of it (en-gb), or without any language; SKOS-XL labels too.

    Sorted, so that order is stable.
    """
    from rdflib import URIRef

    values = list(graph.objects(concept, URIRef(SKOS + kind)))
    for label in graph.objects(concept, URIRef(SKOSXL + kind)):
        values += graph.objects(label, URIRef(SKOSXL + "literalForm"))
    spoken = [((getattr(one, "language", "") or "").lower(), " ".join(str(one).split())) for one in values]
    for fits in (language.__eq__, lambda other: other.startswith(f"{language}-"), lambda other: not other):
        if own := sorted({name for other, name in spoken if fits(other) and name}):
            return own
    return []


def _linked(graph: Any, concept: Any, forward: str, backward: str) -> tuple[str, ...]:
    """URIs that a relation links to, whichever side states it; the concept itself is left out."""
    from rdflib import URIRef

    ends = set(graph.objects(concept, URIRef(SKOS + forward))) | set(graph.subjects(URIRef(SKOS + backward), concept))
    return tuple(sorted(str(end) for end in ends if end != concept))


def _members(graph: Any, collection: Any) -> set[Any]:
    """Members of a collection and of the collections inside it; a collection inside itself is read once."""
    from rdflib import URIRef

    open_, seen = [collection], set()
    while open_:
        one = open_.pop()
        if one not in seen:
            seen.add(one)
            open_ += graph.objects(one, URIRef(SKOS + "member"))
    return seen


def _is_true(value: Any) -> bool:
    return value is not None and str(value).lower() in {"true", "1"}
