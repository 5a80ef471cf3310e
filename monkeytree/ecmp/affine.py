"""Fitting an affine function over GF(2): what an unknown switch hash is, if it is a CRC, XOR or Toeplitz.

An input of b bits is the vector (its bits, 1). Each output bit is then the sum of some of these b + 1;
b + 1 independent samples tell which, and each one more either agrees or proves that it is no such function.
"""

from __future__ import annotations

from collections.abc import Iterable


class AffineFit:
    """An affine function of integers of ``bits`` bits, learned sample by sample."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._rows: dict[int, tuple[int, int]] = {}  # leading bit -> (vector reduced to it, output)

    @property
    def independent(self) -> int:
        """Samples so far that told something new; ``bits`` + 1 at most."""
        return len(self._rows)

    @property
    def complete(self) -> bool:
        """Whether it predicts every input."""
        return len(self._rows) == self.bits + 1

    def add(self, sample: int, output: int) -> bool:
        """Take a sample in; False where it contradicts those before: the function is not affine."""
        vector, output = self._reduce(self._vector(sample), output)
        if not vector:
            return output == 0
        self._rows[vector.bit_length()] = vector, output
        return True

    def predict(self, sample: int) -> int | None:
        """The output of an input, None where the samples so far do not determine it."""
        vector, output = self._reduce(self._vector(sample), 0)
        return None if vector else output

    def _vector(self, sample: int) -> int:
        return sample << 1 | 1

    def _reduce(self, vector: int, output: int) -> tuple[int, int]:
        while vector:
            row = self._rows.get(vector.bit_length())
            if row is None:
                break
            vector, output = vector ^ row[0], output ^ row[1]
        return vector, output


def fit(bits: int, samples: Iterable[tuple[int, int]]) -> AffineFit | None:
    """The affine function of all ``samples`` (input, output), None where there is none."""
    found = AffineFit(bits)
    return found if all(found.add(sample, output) for sample, output in samples) else None
