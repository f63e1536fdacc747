"""What a request may say and what an answer looks like. The bounds stand in the OpenAPI schema too."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

MOST_TEXTS = 1024  # of a request
LONGEST_TEXT = 100_000  # characters
MOST_K = 1000
MOST_LABELS = 256  # added at once
LONGEST_LABEL = 2000
MOST_FOUND = 200  # labels of a search
MOST_ASKED = 100  # labels whose examples are asked for

# Control characters that no text holds: those of ASCII but for tabs and the ends of lines and pages.
CONTROL = r"\x00-\x08\x0e-\x1f\x7f"
_CONTROL = re.compile(f"[{CONTROL}]")


def _plain(text: str) -> str:
    found = _CONTROL.search(text)
    if found is not None:
        said = f"U+{ord(found[0]):04X} at {found.start()}"
        raise PydanticCustomError("control", "String holds a control character, {said}; take it out", {"said": said})
    return text


def _seen(text: str) -> str:
    if not any(letter.isprintable() and not letter.isspace() for letter in text):
        raise PydanticCustomError("unseen", "String should hold a character that can be seen")
    return text


_ALL_PLAIN = Field(json_schema_extra={"pattern": f"^[^{CONTROL}]*$"})
_SOME_SEEN = Field(json_schema_extra={"pattern": rf"^[^{CONTROL}]*[^\s{CONTROL}][^{CONTROL}]*$"})

Text = Annotated[str, StringConstraints(max_length=LONGEST_TEXT), AfterValidator(_plain), _ALL_PLAIN]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
LabelId = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_LABEL)]
NewId = Annotated[LabelId, AfterValidator(_plain), _ALL_PLAIN]
LabelText = Annotated[LabelId, AfterValidator(_plain), AfterValidator(_seen), _SOME_SEEN]
Band = Literal["head", "torso", "tail", "unseen"]


class Request(BaseModel):
    """Words as strings and numbers as numbers: a "5" is no 5."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Ask(Request):
    """One text or many."""

    text: Text | None = Field(None, description="One text. Give text or texts, not both.")
    texts: Annotated[list[Text], Field(min_length=1, max_length=MOST_TEXTS)] | None = None
    k: Annotated[int, Field(ge=1, le=MOST_K, description="Labels for each text.")] = 5
    model: ModelName | None = Field(None, description="Default: the first model.")
    threshold: Annotated[float, Field(ge=0, allow_inf_nan=False, description="Leave out labels that score less.")] = 0.0


class Found(BaseModel):
    """A predicted label."""

    id: str
    text: str
    score: float
    count: int = Field(description="Training rows with the label.")
    band: Band = Field(description="How frequent it was in training; tail: 1 to 5 rows, unseen: none.")
    added: bool = Field(description="Whether it joined after training.")


class Answer(BaseModel):
    labels: list[Found] = Field(description="Best first.")


class Answers(BaseModel):
    """One answer a text, in their order."""

    model: str
    answers: list[Answer]


class NewLabel(Request):
    text: LabelText
    id: NewId | None = Field(None, description="Default: the text.")


class NewLabels(Request):
    labels: Annotated[list[NewLabel], Field(min_length=1, max_length=MOST_LABELS)]
    model: ModelName | None = Field(None, description="Default: the first model.")


class Added(BaseModel):
    """Written to disk before this answer is given."""

    model: str
    added: list[str] = Field(description="Ids of the labels that are new.")
    known: list[str] = Field(description="Ids that were there already with the same text.")
    labels: int = Field(description="Labels the model has now.")


class Label(BaseModel):
    id: str
    text: str
    count: int
    band: Band
    added: bool


class Labels(BaseModel):
    model: str
    total: int = Field(description="Labels that match.")
    labels: list[Label]


class AskExamples(Request):
    text: Text
    labels: Annotated[list[LabelId], Field(min_length=1, max_length=MOST_ASKED)]
    most: Annotated[int, Field(ge=1, le=10, description="Examples for each label.")] = 2


class Example(BaseModel):
    id: str
    text: str = Field(description="The training text, cut where it is long.")
    likeness: float = Field(description="Cosine of the words of the two texts, weighed by how rare they are.")


class Examples(BaseModel):
    examples: dict[str, list[Example]] = Field(description="By label id; nearest first.")


class ModelFacts(BaseModel):
    name: str
    recipe: str
    labels: int
    added: int
    train_rows: int
    text_field: str
    bands: dict[str, int] = Field(description="Labels of each band.")
    takes_labels: bool
    why_not: str | None = Field(description="Why labels cannot be added, where they cannot.")


class Models(BaseModel):
    version: str
    models: list[ModelFacts]
    examples: str | None = Field(description="Data set whose training rows /examples shows; none: not served with one.")


class State(BaseModel):
    status: str


class Wrong(BaseModel):
    """What a refusal says."""

    error: str
    where: list[str] = Field(default_factory=list, description="Places in the request.")
