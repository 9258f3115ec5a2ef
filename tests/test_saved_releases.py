"Releases that version 0.2 saved are read, and give the answers that it gave."
import json
from pathlib import Path

import pytest

from dp_knockoff.filters.estimate import PrivateMoments
from dp_knockoff.filters.products_method import ProductsRelease
from dp_knockoff.selection.release import select

SAVED = Path(__file__).resolve().parent / "saved"
ANSWERS = json.loads((SAVED / "releases-0.2.json").read_text(encoding="utf-8"))
KINDS = {"moments-0.2.npz": PrivateMoments, "products-0.2.npz": ProductsRelease}


@pytest.mark.parametrize("name", KINDS)
def test_releases_of_version_0_2_are_read_and_answer_as_then(name):
    release = KINDS[name].load(SAVED / name)
    assert release.simulated and len(ANSWERS[name]) >= 2
    for answer in ANSWERS[name]:
        found = select(release, **answer["asked"])
        assert list(found.selected) == answer["selected"] and found.signs.tolist() == answer["signs"]
