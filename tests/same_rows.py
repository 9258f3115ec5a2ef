"One table that the tests of rows, files, cluster and source share, and when moments are the same."
from dataclasses import fields

import numpy as np
import polars as pl
import pytest

from dp_knockoff.core.errors import InputError
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.models import linear_model
from dp_knockoff.data.moments import ExactMoments
from dp_knockoff.data.source import Source

N, P = 30_000, 20
X, y, _ = linear_model(N, p=P, k=5, rho=.3, random_state=0)
NAMES = [f"x{j}" for j in range(P)]
TABLE = pl.DataFrame(X, schema=NAMES).with_columns(y=y)
CLIP = Clip(4.0, 3.0, ranges={"x1": (-2, 6)}, response_center=.5)


def values(a, b):
    "Name and both values of every field but the ids, which are random"
    assert type(a) is type(b)
    names = [field.name for field in fields(a) if field.name != "ids"]
    return [(name, getattr(a, name), getattr(b, name)) for name in names]


def identical(a, b):
    "Every field the same, to the last bit (the largest norm of rows without bounds to the last but one)"
    for name, mine, other in values(a, b):
        if name == "row_norm": assert np.isclose(mine, other, rtol=1e-15, atol=0)
        else: assert np.array_equal(mine, other), name


def close(a, b, tol=1e-12):
    "Every field the same: sums up to rounding, those of rows in bounds exactly"
    if isinstance(a, ExactMoments): return identical(a, b)
    for name, mine, other in values(a, b):
        if name not in ("mean", "scatter", "row_norm"): assert mine == other, name
        else: assert np.allclose(mine, other, rtol=tol, atol=tol * np.abs(other).max()), name


def as_source(open_reader):
    "The function that opens a reader, with a source around it"
    def opened(*args, progress=None, **kwargs): return Source(open_reader(*args, **kwargs), progress)
    return opened


def told(call, *args, **kwargs):
    "The sentence of a refusal, and its details"
    with pytest.raises(InputError) as caught: call(*args, **kwargs)
    return str(caught.value), caught.value.details
