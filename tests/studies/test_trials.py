"Datasets with a known truth: the file holds what the code gives."
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dp_knockoff.core.archives import load_arrays
from dp_knockoff.selection.rules import RULES
from trials import STUDIES, Study, made_with

RESULTS = Path(__file__).resolve().parents[2] / "studies" / "results"


def test_a_study_measures_its_cells_in_order():
    def cell(k, c): return 10 * c + k, k
    study = Study(3, {"a": partial(cell, c=1), "b": partial(cell, c=2)})
    assert study.rates().tolist() == [[[10, 11, 12], [0, 1, 2]], [[20, 21, 22], [0, 1, 2]]]
    assert study.rates(1, cells=["b"]).tolist() == [[[20], [0]]]


@pytest.mark.parametrize("name", list(STUDIES))
def test_a_study_on_file_is_what_the_code_gives(name):
    "The last dataset of the last setting; the notebook runs the first datasets of all of them"
    header, files = load_arrays(RESULTS / "trials.npz", "trials")
    study = STUDIES[name]()
    assert header["labels"][name] == list(study.cells)
    assert files[name].shape == (len(study.cells), 2, study.trials)
    again = list(study.cells.values())[-1](study.trials - 1)
    # knockoffs of estimates are seeded by released bits, the last of which depend on the machine
    same = name != "rules" and header["made_with"] == made_with()
    if same: assert np.allclose(again, files[name][-1, :, -1])
    else: assert np.shape(again) == (2,) and 0 <= np.min(again) <= np.max(again) <= 1


def test_cells_of_the_studies_are_the_settings_that_their_labels_say():
    "Every round and rule that is compared, side by side; trials are functions of their number"
    studies = {name: study() for name, study in STUDIES.items()}
    paper, rules = studies["paper"].cells, studies["rules"].cells
    assert {cell.keywords["rounds"] for cell in paper.values()} == {1, 3} and len(paper) == 32
    for label, cell in paper.items():
        rounds = cell.keywords["rounds"]
        assert label.endswith(f", {rounds} round{'s' * (rounds > 1)}")
        assert ("1e-6" in label) == (cell.keywords["delta"] == 1e-6) and cell.keywords["epsilon"] == .2
    assert {cell.keywords["rule"] for cell in rules.values()} == set(RULES) - {"exact"} and len(rules) == 30
    for label, cell in rules.items():
        assert label == f"{cell.keywords['setting']}: {cell.keywords['rule']}"
    assert list(studies["ignoring"].cells) == ["all noise known", "Gram noise ignored", "all noise ignored"]
    sizes = {"derived": 2, "bounds": 30, "private bounds": 1, "rounds": 11}
    assert {name: len(studies[name].cells) for name in sizes} == sizes


def test_who_ignores_the_noise_pays_for_it():
    "Six trials of the study: without the noise on the Gram matrix, several times as many are false"
    cells = STUDIES["ignoring"]().cells
    known, gram, every = (np.mean([cell(k)[0] for k in range(6)]) for cell in cells.values())
    assert known < .2 and 2 * known < min(gram, every) > .25
