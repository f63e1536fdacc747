"""How long a model takes: estimated from the batches it has computed."""

from __future__ import annotations

FORGET = 0.9  # weight of the batches before, at each new one
GUESS = 0.005  # seconds per text until a batch has been measured


class Pace:
    """Seconds per text and per character, by least squares over recent batches; neither is below 0.

    Two numbers, because encoders cut long texts off and linear models do not: for the first a long text costs little
    more than a short one, for the others a hundred times as much.
    """

    def __init__(self) -> None:
        self.known = False  # whether a batch has been measured
        self._per_text, self._per_character = GUESS, 0.0
        self._sums = [0.0] * 5  # texts², texts x characters, characters², texts x seconds, characters x seconds

    def learn(self, texts: int, characters: int, seconds: float) -> None:
        """Takes in a measured batch.

        Args:
            texts: how many texts it had.
            characters: how many characters they had together.
            seconds: how long it took.
        """
        new = (texts * texts, texts * characters, characters * characters, texts * seconds, characters * seconds)
        self._sums = [FORGET * before + now for before, now in zip(self._sums, new, strict=True)]
        tt, tc, cc, ts, cs = self._sums
        determinant = tt * cc - tc * tc
        if determinant > 1e-6 * tt * cc:
            self._per_text = (ts * cc - cs * tc) / determinant
            self._per_character = (cs * tt - ts * tc) / determinant
        else:  # all texts had the same length: one number tells as much as two
            self._per_text, self._per_character = ts / tt, 0.0
        if self._per_text < 0:
            self._per_text, self._per_character = 0.0, cs / cc
        elif self._per_character < 0:
            self._per_text, self._per_character = ts / tt, 0.0
        self.known = True

    def seconds(self, texts: int, characters: int) -> float:
        """Estimates the time of some texts.

        Args:
            texts: how many.
            characters: how many they have together.

        Returns:
            Seconds.
        """
        return self._per_text * texts + self._per_character * characters
