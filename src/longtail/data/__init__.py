"""Label sets, data sets, corpora; readers, writers and builders."""

from longtail.data.corpus import Corpus, held_out, make_corpus
from longtail.data.dataset import GIVEN, Dataset, Rows
from longtail.data.labels import LabelSet, Propensity

__all__ = ["GIVEN", "Corpus", "Dataset", "LabelSet", "Propensity", "Rows", "held_out", "make_corpus"]
