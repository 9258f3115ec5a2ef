"One table that the tests of passes, files, cluster and sources share, and when moments are the same."
from dataclasses import fields

import numpy as np
import polars as pl

from dp_knockoff.clip import Clip
from dp_knockoff.models import linear_model
from dp_knockoff.moments import Moments

N, P = 30_000, 20
X, y, _ = linear_model(N, p=P, k=5, rho=.3, random_state=0)
NAMES = [f"x{j}" for j in range(P)]
TABLE = pl.DataFrame(X, schema=NAMES).with_columns(y=y)
CLIP = Clip(4.0, 3.0, ranges={"x1": (-2, 6)}, response_center=.5)


def identical(a, b):
    "Every field the same, to the last bit (the largest norm to the last but one)"
    for field in fields(Moments):
        mine, other = getattr(a, field.name), getattr(b, field.name)
        if field.name == "row_norm": assert np.isclose(mine, other, rtol=1e-15, atol=0)
        else: assert np.array_equal(mine, other), field.name


def close(a, b, tol=1e-12):
    "Every field the same, sums up to rounding"
    for field in fields(Moments):
        mine, other = getattr(a, field.name), getattr(b, field.name)
        if field.name not in ("mean", "scatter", "row_norm"): assert mine == other, field.name
        else: assert np.allclose(mine, other, rtol=tol, atol=tol * np.abs(other).max()), field.name
