"What tests of methods share: samplers that watch, are silent or may not draw; a source not to be read."
import numpy as np

from dp_knockoff.passes import Source
from dp_knockoff.samplers import NumpySampler


class Recorder(NumpySampler):
    "Remembers every draw: purpose, value before noise, scale"
    def __init__(self, seed=0):
        super().__init__(seed)
        self.draws = []

    def gaussian(self, value, scale, purpose):
        self.draws.append((purpose, np.array(value, dtype=float), float(scale)))
        return super().gaussian(value, scale, purpose)

    def laplace(self, value, scale, purpose):
        self.draws.append((purpose, np.array(value, dtype=float), float(scale)))
        return super().laplace(value, scale, purpose)


class Silent(NumpySampler):
    "Adds no noise at all"
    def gaussian(self, value, scale, purpose): return np.asarray(value, dtype=float)
    laplace = gaussian


class Unused(NumpySampler):
    "Must not draw"
    def gaussian(self, value, scale, purpose): raise AssertionError(f"{purpose} drawn")
    laplace = gaussian


def unread(names):
    "A source of columns with these names whose rows must not be read"
    def read(summarise, progress): raise AssertionError("read")
    return Source("rows that must not be read", names, read)
