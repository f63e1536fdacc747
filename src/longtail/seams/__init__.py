"""The protocols where parts meet: what a learner leaves behind, and the six seams where a tail method may act.

A learner declares what it `offers`, a tail method what it `needs` of the learner; both declare what they need of the
data. `longtail methods` prints the grid from these declarations and the tests train every cell.

To write a tail method, make a frozen dataclass with the three declarations of `TailMethod` and the method of one seam:

    seam           protocol         method          what it changes
    augment        Augments         augment         the training rows, before the learner sees them
    wrap           Wraps            wrap            the learner: fit it several times, or on parts of the labels
    teacher        HasTeacher       wrap_with       the same, with the help of another model
    label tower    MovesLabels      label_tower     the vectors that stand for labels while an encoder is trained
    head penalty   PenalisesRows    penalty         the classifier rows while they are trained
    rerank         Reranks          fit_reranker    the predictions, after the learner

`scorer.py` has what a fitted learner is, `learner.py` the learners and teachers, `tail_method.py` the seams, and
`members.py` the learners that combine recipes, whose common parts `sharing.py` fits once. `declared.py` is how a fitted
part says what it stores, `conforms.py` the check of a loaded one against it. They import the data, plans and
predictions, never a learner or a tail method. Read `Learner` first, then your seam.
"""

from longtail.seams.declared import (
    AnyFields,
    Array,
    Contents,
    Declaration,
    Fields,
    Flag,
    Many,
    Misfit,
    Nothing,
    Number,
    Several,
    Whole,
    Words,
    csr,
    strings,
)
from longtail.seams.learner import (
    DATA_NEEDS,
    OFFERS,
    ChecksData,
    FittedTeacher,
    Learner,
    TailMethod,
    Teacher,
    TeacherModel,
    WarmStarts,
    WrappedLearner,
)
from longtail.seams.members import FittedMember, HasMembers, MemberModel, MemberRecipe
from longtail.seams.scorer import (
    AttendedWord,
    EncodesToDevice,
    Explains,
    Explanation,
    GivesProbabilities,
    HasClassifierRows,
    HasVectors,
    KnowsWords,
    RememberedExample,
    Scorer,
    State,
    TakesLabels,
    TakesRows,
    Vote,
    gives_probabilities,
    takes_labels,
    takes_rows,
)
from longtail.seams.sharing import shared_fit, sharing_fits
from longtail.seams.tail_method import (
    AddsCost,
    Augments,
    ChoosesOnValid,
    HasTeacher,
    HeldOut,
    MovesLabels,
    PenalisesRows,
    Reranker,
    Reranks,
    Wraps,
    acts_in_vain,
    goes_on,
    seams_of,
)

__all__ = [
    "DATA_NEEDS",
    "OFFERS",
    "AddsCost",
    "AnyFields",
    "Array",
    "AttendedWord",
    "Augments",
    "ChecksData",
    "ChoosesOnValid",
    "Contents",
    "Declaration",
    "EncodesToDevice",
    "Explains",
    "Explanation",
    "Fields",
    "FittedMember",
    "FittedTeacher",
    "Flag",
    "GivesProbabilities",
    "HasClassifierRows",
    "HasMembers",
    "HasTeacher",
    "HasVectors",
    "HeldOut",
    "KnowsWords",
    "Learner",
    "Many",
    "MemberModel",
    "MemberRecipe",
    "Misfit",
    "MovesLabels",
    "Nothing",
    "Number",
    "PenalisesRows",
    "RememberedExample",
    "Reranker",
    "Reranks",
    "Scorer",
    "Several",
    "State",
    "TailMethod",
    "TakesLabels",
    "TakesRows",
    "Teacher",
    "TeacherModel",
    "Vote",
    "WarmStarts",
    "Whole",
    "Words",
    "WrappedLearner",
    "Wraps",
    "acts_in_vain",
    "csr",
    "gives_probabilities",
    "goes_on",
    "seams_of",
    "shared_fit",
    "sharing_fits",
    "strings",
    "takes_labels",
    "takes_rows",
]
