"One BLAS thread a worker, and property tests that draw the same examples every time."
import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("fixed")

if os.environ.get("REFUSALS"):
    from dp_knockoff.core.errors import InputError
    from refusals import record

    record(os.environ["REFUSALS"], InputError)
