"What tests of methods share: samplers that watch, are silent, fail or may not draw; a source not to be read."
from fractions import Fraction

import numpy as np

from dp_knockoff.data.rows import Reader
from dp_knockoff.data.source import Source
from dp_knockoff.privacy.samplers import NumpySampler


class Recorder(NumpySampler):
    "Remembers every draw: purpose, value before noise, scale (one for each entry on a lattice)"
    def __init__(self, seed=0):
        super().__init__(seed)
        self.draws = []

    def gaussian(self, value, scale, purpose):
        self.draws.append((purpose, np.array(value, dtype=float), float(scale)))
        return super().gaussian(value, scale, purpose)

    def laplace(self, value, scale, purpose):
        self.draws.append((purpose, np.array(value, dtype=float), float(scale)))
        return super().laplace(value, scale, purpose)

    def lattice(self, value, scale, purpose):
        value, scale = np.asarray(value), np.asarray(scale, dtype=float)
        assert value.dtype == np.int64 or isinstance(value[()], np.integer), "not whole numbers"
        self.draws.append((purpose, value.copy(), np.array(np.broadcast_to(scale, value.shape))))
        return super().lattice(value, scale, purpose)


class Echo(Recorder):
    "Hands out what a first run got, in the same order, and remembers what it was given"
    def __init__(self, outputs):
        super().__init__(0)
        self.outputs = list(outputs)

    def lattice(self, value, scale, purpose):
        super().lattice(value, scale, purpose)
        return self.outputs[len(self.draws) - 1]


class Taped(Recorder):
    "Remembers what it drew, too"
    def __init__(self, seed=0):
        super().__init__(seed)
        self.outputs = []

    def lattice(self, value, scale, purpose):
        self.outputs.append(super().lattice(value, scale, purpose))
        return self.outputs[-1]


class Silent(NumpySampler):
    "Adds no noise at all"
    def gaussian(self, value, scale, purpose): return np.asarray(value, dtype=float)
    def lattice(self, value, scale, purpose): return np.asarray(value, dtype=np.int64)
    def top(self, value, scale, k, purpose): return np.argsort(-np.asarray(value), kind="stable")[:k]
    laplace = gaussian


class Unused(NumpySampler):
    "Must not draw"
    def gaussian(self, value, scale, purpose): raise AssertionError(f"{purpose} drawn")
    def top(self, value, scale, k, purpose): raise AssertionError(f"{purpose} drawn")
    laplace = lattice = gaussian


class Trusted(Recorder):
    "Counts as private, although it draws quickly: what follows a real release is tested with it"
    name, private = "a sampler that counts as private", True


class Dying(Trusted):
    "Dies at the draw with this purpose"
    def __init__(self, purpose):
        super().__init__(0)
        self.purpose = purpose

    def lattice(self, value, scale, purpose):
        if purpose == self.purpose: raise MemoryError("no entropy left")
        return super().lattice(value, scale, purpose)


def exact_distance2(one, two):
    "Squared distance of two recorded runs over the noise's standard deviations: a fraction, exact"
    total = Fraction(0)
    for (purpose, a, sa), (other, b, sb) in zip(one.draws, two.draws, strict=True):
        assert purpose == other and a.shape == b.shape and (sa == sb).all(), "the draws differ"
        for x, y, s in zip(a.ravel().tolist(), b.ravel().tolist(), np.ravel(sa).tolist()):
            if x != y: total += (Fraction(x) - Fraction(y))**2 / Fraction(s)**2
    return total


def unread(names):
    "A source of columns with these names whose rows must not be read"
    def read(summarise, progress): raise AssertionError("read")
    return Source(Reader("rows that must not be read", tuple(names), read))


def far_apart(run, one, two):
    "Squared distance of what `run(X, y, sampler)` draws from two datasets, given the same outputs: exact"
    tape = Taped()
    run(*one, tape)
    echo = Echo(tape.outputs)
    run(*two, echo)
    return exact_distance2(tape, echo)
