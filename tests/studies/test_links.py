"The study of links: its cells are what they say, and the file holds what the code gives."
from pathlib import Path

import numpy as np

import links
from dp_knockoff.core.archives import load_arrays
from dp_knockoff.core.errors import stream
from trials import made_with

HEADER, FILE = load_arrays(Path(links.__file__).parent / "results" / "links.npz", "links")
RATES = FILE["rates"]
AT = {one: j for j, one in enumerate(HEADER["fields"])}


def test_the_file_has_these_cells_and_their_numbers():
    assert HEADER["names"] == list(links.CELLS) and len(links.CELLS) >= 50 and RATES.shape[1] >= 8
    name = "logit normal 5k e5 sd1 m0.5 p12"
    again = np.array(links.link_trial(name, 1), dtype=np.float32)
    if HEADER["made_with"] == made_with():
        assert np.allclose(again, RATES[HEADER["names"].index(name), 1], equal_nan=True)


def test_a_cell_has_the_mean_and_the_signals_that_it_says():
    for name in ("logit lognormal 20k e5 sd1 m0.5 p12", "log exponential 20k e1 sd0.3 m2 p12"):
        cell = links.CELLS[name]
        drawn = cell(stream(1, "cell"))
        y = drawn.data["y"].to_numpy()
        mean = np.mean(y == "yes") if cell.link == "logit" else np.mean(y)
        assert abs(mean / cell.mean - 1) < .1 and (drawn.truth != 0).sum() == 4
        X = drawn.data.select([f"x{j}" for j in range(12)]).to_numpy()
        assert np.isclose((X @ drawn.truth).std(), cell.sd)


def test_no_cell_with_a_right_link_misses_its_rate_and_intervals_of_nulls_cover():
    missed = links.missed_aims(HEADER["names"], RATES)
    right = [name for name in missed if links.CELLS[name].right]
    assert not any({"fdp", "z2", "nulls covered"} & set(missed[name]) for name in right), missed
    mean = links.means_of(RATES)[0]
    assert np.nanmean(mean[:, AT["nulls covered"]]) > .93 and np.nanmean(mean[:, AT["signals covered"]]) > .92
