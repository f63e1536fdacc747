"""The numbers of a step that kernels read from memory, so that a recorded step can be run again with others."""

from __future__ import annotations

import numpy as np

from longtail.arrays import Ints


def step_numbers(learning_rate: float, scale: float, decay: float, seed: int, step: int) -> Ints:
    """Put the numbers that change from step to step into one array.

    Args:
        learning_rate: of the step.
        scale: of the stored weights.
        decay: factor on the weights before the step, 1 - learning rate x weight decay.
        seed: of the head.
        step: its number.

    Returns:
        (4,) int32: the bits of three floats (learning rate times scale, decay, learning rate), and the seed of the
        stochastic rounding.
    """
    floats = np.array([learning_rate * scale, decay, learning_rate], dtype=np.float32)
    return np.append(floats.view(np.int32), np.int32(rounding_seed(seed, step, 0)))


def rounding_seed(seed: int, step: int, begin: int) -> int:
    """Mix a seed for the stochastic rounding of a chunk, so that a resumed training draws the same bits.

    The seeds of (seed, step, 0) and (0, 0, begin) add up, modulo 2^31, to that of (seed, step, begin).

    Args:
        seed: of the head.
        step: number of the step.
        begin: first label of the chunk.

    Returns:
        An integer from 0 to 2^31 - 1.
    """
    return (seed * 0x9E3779B1 + step * 0x85EBCA77 + begin * 0xC2B2AE3D) & 0x7FFFFFFF
