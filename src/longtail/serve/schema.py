"""The JSON of requests and answers. Its limits are in the OpenAPI schema too."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from longtail.data.text_language import CODES
from longtail.dial import MAX_DIAL

MAX_TEXTS = 1024  # of a request
MAX_TEXT_LENGTH = 3_000_000  # characters: a long book; the bytes of a request are limited too
MAX_K = 1000
# The most texts of a request by its k: an answer has at most 50,000 labels. In steps, so that the schema can tell them.
TEXTS_BY_K = ((48, MAX_TEXTS), (200, 250), (MAX_K, 50))
ABOVE_THRESHOLD = 48  # labels of a text where the model stores a threshold, and no most
MAX_NEW_LABELS = 256  # of a request
MAX_LABEL_LENGTH = 2000  # characters
MAX_FOUND = 200  # labels of a search
MAX_EXPLAINED = 100  # labels of a request for examples

# Control characters that are refused: those of ASCII except tabs, line ends and page ends.
CONTROL = r"\x00-\x08\x0e-\x1f\x7f"
_CONTROL = re.compile(f"[{CONTROL}]")
# Characters that nobody sees: white space, and marks for the direction and the joining of letters. Point by point,
# because \s is not the same in every language that reads the schema.
INVISIBLE = (
    CONTROL + r"\x09-\x0d\x20\x80-\xa0\xad\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
    r"\ufff9-\ufffb"
)
_SEEN = re.compile(f"[^{INVISIBLE}]")


def _plain(text: str) -> str:
    found = _CONTROL.search(text)
    if found is not None:
        which = f"U+{ord(found[0]):04X} at {found.start()}"
        raise PydanticCustomError("control", "String has a control character, {which}; remove it", {"which": which})
    return text


def _visible(text: str) -> str:
    if not _SEEN.search(text):
        raise PydanticCustomError("invisible", "String should have a visible character")
    return text


def _known(code: str) -> str:
    if code not in CODES:
        raise PydanticCustomError("language", "Not a code of a language, such as de or en")
    return code


_ALL_PLAIN = Field(json_schema_extra={"pattern": f"^[^{CONTROL}]*$"})
_VISIBLE = Field(json_schema_extra={"pattern": rf"^[^{CONTROL}]*[^{INVISIBLE}][^{CONTROL}]*$"})


def _whole(value: Any) -> Any:
    """9.0 is a whole number in JSON; true is none."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_WHOLE = BeforeValidator(_whole)


Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_LENGTH), AfterValidator(_plain), _ALL_PLAIN]
Language = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": sorted(CODES)})]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
LabelId = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL_LENGTH)]
NewId = Annotated[LabelId, AfterValidator(_plain), _ALL_PLAIN]
LabelText = Annotated[LabelId, AfterValidator(_plain), AfterValidator(_visible), _VISIBLE]
Band = Literal["head", "torso", "tail", "unseen"]


class StrictRequest(BaseModel):
    """The body of a request. Types are strict: the string "5" is not the number 5."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _either(given: str, kind: str, other: str) -> dict[str, Any]:
    return {"required": [given], "properties": {given: {"type": kind}, other: {"type": "null"}}}


# Rules over several fields: `text` or `texts` and not both, not too many texts for k, reasons for a single text only.
_PREDICT_RULES: dict[str, Any] = {
    "oneOf": [_either("text", "string", "texts"), _either("texts", "array", "text")],
    "anyOf": [
        {"properties": {"k": {"maximum": k}, "texts": {"anyOf": [{"maxItems": texts}, {"type": "null"}]}}}
        for k, texts in TEXTS_BY_K
    ],
    "if": {"properties": {"why": {"const": True}}, "required": ["why"]},
    "then": {"properties": {"texts": {"type": "null"}}},
}


class PredictRequest(StrictRequest):
    """One text or many. Up to 1,024 texts for k up to 48, 250 for k up to 200, and 50 for k up to 1,000.

    Without a threshold, a model that stores one (`cutoff` in GET /models) answers by it, and k is 48 or its own most.
    """

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=_PREDICT_RULES)

    text: Text | None = Field(None, description="One text. Give text or texts, not both.")
    texts: Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS)] | None = None
    k: Annotated[int, Field(ge=1, le=MAX_K, description="The most labels of a text."), _WHOLE] = 5
    model: ModelName | None = Field(None, description="Default: the first model.")
    threshold: Annotated[
        float,
        Field(
            ge=0,
            allow_inf_nan=False,
            description="Leave out labels that score less.",
        ),
    ] = 0.0
    dial: Annotated[
        float,
        Field(
            ge=0,
            le=MAX_DIAL,
            allow_inf_nan=False,
            description="Ranks by score x (inverse propensity)^dial: more lifts rare labels, and scores stay as they "
            "are. Above 0 only where the model's scores are probabilities.",
        ),
    ] = 0.0
    why: bool = Field(False, description="Say of each label why it is predicted. Needs text: one text alone.")
    language: Language | None = Field(
        None, description="Of the texts, where the model learned languages from a column; default: guessed."
    )


class MemberVote(BaseModel):
    """What a member of a combination says of a label."""

    member: str = Field(description="Its recipe.")
    place: int | None = Field(description="From 1; null: it does not name the label.")
    score: float | None = Field(None, description="Its own score; left out where it does not name the label.")


class NearestExample(BaseModel):
    """A training example that the model remembers."""

    id: str
    text: str = Field(description="Its beginning.")
    similarity: float = Field(description="Cosine of the two vectors in the model's space.")


class LookedAtWord(BaseModel):
    """A word of the text that a label looked at."""

    word: str
    weight: float = Field(description="Share of the label's attention.")


class LabelReason(BaseModel):
    """Why a label is predicted. What the model does not know is left out."""

    members: list[MemberVote] | None = Field(None, description="Of a combination: which members propose the label.")
    training_examples: int | None = None
    proposed: int | None = Field(None, description="Held-out examples for which a member proposed the label.")
    right: int | None = Field(None, description="How often that was right.")
    nearest: list[NearestExample] | None = Field(None, description="The nearest examples with the label.")
    words: list[LookedAtWord] | None = Field(None, description="The words that the label looked at most.")


class PredictedLabel(BaseModel):
    """A predicted label."""

    id: str
    text: str
    score: float
    count: int = Field(description="Training examples with the label.")
    band: Band = Field(description="Its frequency in training; tail: 1 to 5 examples, unseen: none.")
    added: bool = Field(description="Whether it was added after training.")
    why: LabelReason | None = Field(None, description="Only where the request asks why.")


class TextAnswer(BaseModel):
    """The labels of one text."""

    labels: list[PredictedLabel] = Field(description="Best first.")
    unsure: str | None = Field(
        None, description="Why the labels are not to be trusted: the text is like nothing seen in training."
    )


class Answers(BaseModel):
    """One answer per text, in their order."""

    model: str
    answers: list[TextAnswer]


class NewLabel(StrictRequest):
    """A label to add."""

    text: LabelText
    id: NewId | None = Field(None, description="Default: the text.")


class NewLabels(StrictRequest):
    """Labels to add to a model."""

    labels: Annotated[list[NewLabel], Field(min_length=1, max_length=MAX_NEW_LABELS)]
    model: ModelName | None = Field(None, description="Default: the first model.")


class LabelsAdded(BaseModel):
    """The labels were written to disk before this answer was sent."""

    model: str
    added: list[str] = Field(description="Ids of the labels that are new.")
    known: list[str] = Field(description="Ids of labels that the model had with the same text.")
    labels: int = Field(description="Labels that the model has now.")


class LabelEntry(BaseModel):
    """A label of a model."""

    id: str
    text: str
    count: int = Field(description="Training examples with the label.")
    band: Band
    added: bool


class LabelPage(BaseModel):
    """Labels that match a query."""

    model: str
    total: int = Field(description="Labels that match.")
    labels: list[LabelEntry]


class ExamplesRequest(StrictRequest):
    """A text and the labels to explain."""

    text: Text
    labels: Annotated[list[LabelId], Field(min_length=1, max_length=MAX_EXPLAINED, description="Ids of labels.")]
    limit: Annotated[int, Field(ge=1, le=10, description="The most examples of a label."), _WHOLE] = 2


class Example(BaseModel):
    """A training example."""

    id: str
    text: str = Field(description="The training text, shortened where it is long.")
    similarity: float = Field(description="Cosine of the tf-idf word vectors of the two texts.")


class Examples(BaseModel):
    """The most similar training examples of each label."""

    examples: dict[str, list[Example]] = Field(description="By label id; the most similar first.")


class StoredCutoff(BaseModel):
    """A threshold that was chosen on validation data and is stored in the model."""

    threshold: float
    most: int | None = Field(None, description="Labels of a text at most.")
    chosen: str = Field(description="How it was chosen, such as f1 or precision=0.9.")


class ModelFacts(BaseModel):
    """A model."""

    name: str
    recipe: str
    labels: int
    added: int = Field(description="Labels that were added after training.")
    train_rows: int = Field(description="Training examples.")
    text_field: str
    bands: dict[str, int] = Field(description="Labels of each band.")
    probabilities: bool = Field(description="Whether scores are probabilities, so that requests may have a dial.")
    cutoff: StoredCutoff | None = Field(description="Which labels requests without a threshold get; null: k.")
    takes_labels: bool
    why_not: str | None = Field(description="Why labels cannot be added, where they cannot.")


class Models(BaseModel):
    """The models, the default one first."""

    version: str
    models: list[ModelFacts]
    examples: str | None = Field(
        description="Data set whose training examples /examples shows; null: started without --examples."
    )


class Status(BaseModel):
    """The state of the service."""

    status: str


class ErrorAnswer(BaseModel):
    """Why a request was refused."""

    error: str
    where: list[str] = Field(default_factory=list, description="Places in the request.")
