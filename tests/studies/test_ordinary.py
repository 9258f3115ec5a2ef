"The cells of ordinary data are what they say, their truths are true, and the file holds what the code gives."
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dp_knockoff.core.archives import load_arrays
from dp_knockoff.core.errors import stream
from dp_knockoff.data.source import open_source
from dp_knockoff.filters.moments_method import MomentsMethod
from ordinary import (
    _REAL,
    ASSUMED,
    CELLS,
    DATASETS,
    FIELDS,
    Cell,
    _by_signal,
    _claims,
    _clustered,
    _even,
    _events,
    _events_by_null,
    _gamma,
    _loaded,
    _lognormal,
    _outliers,
    _pareto,
    _shape_by_null,
    _side_by_null,
    _spread_by_null,
    as_lines,
    main,
    means_of,
    missed_aims,
    ordinary_rates,
    ordinary_trial,
    weighted_slopes,
)
from trials import made_with

RESULTS = Path(__file__).resolve().parents[2] / "studies" / "results"
NAMES = list(CELLS)
REAL = [name for name in NAMES if name[:2] in ("R ", "T ")]
HEADER, FILE = load_arrays(RESULTS / "ordinary.npz", "ordinary")


def test_every_family_has_variants_and_a_third_is_set_aside():
    for family in "ABCDENSGP":
        own = [name for name in NAMES if name.startswith(family)]
        assert len(own) >= 3 and (family == "P" or any(name[-1] == "*" for name in own))
        assert sum(name[-1] != "*" for name in own) >= 3
    assert .25 < np.mean([name[-1] == "*" for name in NAMES]) < .4
    assert len({cell.about for cell in CELLS.values()}) == len(CELLS) >= 85
    shown = [name for name in REAL if name[-1] != "*"]
    assert len(_REAL) >= 14 and len(shown) >= 2 * 8 and len(REAL) == 2 * len(_REAL)


def test_assumptions_are_listed_where_they_are_true():
    dependent = {name for name in NAMES if name[0] in "CT" or name in ("N2", "A1", "S7")}
    assert not dependent & {*ASSUMED["independent"], *ASSUMED["symmetric"]}
    assert {"B1", "D2", "G10/0.3", "P4", "N4", "S1"} <= set(ASSUMED["independent"])
    rng = stream(2, "assumed")
    for name in ASSUMED["symmetric"]:
        noise = getattr(CELLS[name].draw, "noise", _even)
        e = noise(rng, rng.standard_normal((400_000, 3)))
        assert abs(np.mean(e > 0) - .5) < .005 and abs(np.quantile(e, .1) / np.quantile(e, .9) + 1) < .03


# ---------------------------------------------------------------- noise and truth

NOISE = (_even, _gamma, _lognormal, _events, _pareto, _claims, _outliers, _shape_by_null, _side_by_null,
         _events_by_null, _spread_by_null, _by_signal, _clustered)


@pytest.mark.parametrize("noise", NOISE, ids=lambda noise: noise.__name__)
def test_noise_has_mean_zero_given_the_column_that_it_depends_on(noise):
    rng = stream(0, f"noise {noise.__name__}")
    X = rng.exponential(1.0, (1_000_000, 2))
    e = noise(rng, X)
    for column in X.T:
        for half in (column < np.median(column), column >= np.median(column)):
            many = half.sum() / (20 if noise is _clustered else 1)  # rows of a cluster are one
            assert abs(e[half].mean()) < 5 * e[half].std() / np.sqrt(many)
    if noise in (_spread_by_null, _by_signal): assert e.var() > .5
    else: assert abs(e.var() - 1) < (.2 if noise in (_lognormal, _pareto) else .05)


def skewness(e): return np.mean((e - e.mean())**3) / e.std()**3


def test_noise_depends_on_the_null_as_it_says():
    rng = stream(1, "noise")
    X = rng.exponential(1.0, (400_000, 2))
    low = X[:, 1] < np.median(X[:, 1])
    e = _side_by_null(rng, X)
    assert skewness(e[low]) < -1.5 and skewness(e[~low]) > 1.5
    e = _shape_by_null(rng, X)
    assert skewness(e[low]) > 1.2 * skewness(e[~low]) and abs(e[low].var() - e[~low].var()) < .1
    e = _spread_by_null(rng, X)
    assert e[~low].std() > 1.1 * e[low].std()
    e = _by_signal(rng, X)
    low = X[:, 0] < np.median(X[:, 0])
    assert e[~low].std() > 1.2 * e[low].std()


@cache
def drawn(name): return CELLS[name].draw(stream(5, f"truth {name}"))


def encoded(one):
    "Rows and responses as the filter gets them, numbers clipped to their ranges"
    source = open_source(one.data, one.y, dictionary=one.dictionary)
    X, y = (np.concatenate(part) for part in zip(*source.collect(lambda X, y: [(X.copy(), y.copy())])))
    known = getattr(source.dictionary, "ranges", {})
    low, high = np.array([known.get(column, (-np.inf, np.inf)) for column in source.names]).T
    return np.clip(X, low, high), y


HEAVY = ("N5*",)  # without a variance that a sample shows


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (*HEAVY, "T mortgages")])
def test_the_truth_is_what_least_squares_would_find_in_ever_more_rows(name):
    "No coefficient is far off in White's standard errors, and on average they are one standard error off"
    one = drawn(name)
    X, y = encoded(one)
    assert X.shape[1] == len(one.truth)
    often = X.std(0) * np.sqrt(len(X)) > 4 * (X.max(0) - X.min(0))  # a normal limit needs some rows
    X, truth = np.column_stack([X, np.ones(len(X))]), np.append(one.truth, 0)
    if name.startswith("P") and "weak" not in name and "none" not in name: X, truth = X[:, :-1], truth[:-1]
    inverse = np.linalg.pinv(X.T @ X)
    beta = inverse @ (X.T @ y)
    squares = (y - X @ beta)**2
    if name.startswith("R "): squares = np.full(len(y), squares.mean())  # a rare level may have no yes
    se = np.sqrt(np.diag(inverse @ (X.T @ (X * squares[:, None])) @ inverse))
    z = ((beta - truth) / np.maximum(se, 1e-300))[:len(often)][often]
    assert len(z) >= 2 and np.abs(z).max() < 5.5 and np.mean(z**2) < 4  # levels share their reference


def test_cells_with_signals_have_nulls_too():
    for name in NAMES:
        truth = drawn(name).truth
        assert (truth == 0).any(), name
        nothing = name.startswith("R ") or name in ("D1", "D2", "D4*", "D5*", "P none")
        assert (truth != 0).any() != nothing, name


def test_settings_are_what_they_say():
    assert drawn("S2").options["response_bound"] > 90 * drawn("S4").data.std()
    assert drawn("S1").y.mean() > 19 and drawn("S9*").options["response_center"] == "private"
    assert "unheard of" not in set(drawn("S5").data["level"])
    assert drawn("S6").data["x6"].n_unique() == 1
    assert .1 < np.mean(drawn("S7").data["x0"].to_numpy() > 2) < .16
    assert len(drawn("G400/10").y) == 400_000 and CELLS["G10/0.3"].epsilon == .3
    for name in ("A1", "A2", "A4*", "A5*"): assert np.mean(drawn(name).data["y"].to_numpy() == "yes") < .04


def test_a_permuted_table_has_the_same_values_in_another_order():
    whole, facts = _loaded("rwm5yr")
    one = CELLS["R rwm5yr"].draw(stream(6, "permuted")).data
    y = facts["target"]
    assert sorted(one[y]) == sorted(whole[y]) and one[y].to_list() != whole[y].to_list()
    assert one.drop(y).equals(whole.drop(y))


def test_planted_nulls_look_like_the_columns_that_they_are_rows_of():
    one = CELLS["T diamonds"].draw(stream(6, "planted"))
    for column in ("carat", "cut"):
        own, null = one.data[column], one.data[f"null {column}"]
        assert set(null) <= set(_loaded("diamonds")[0][column]) and own.to_list() != null.to_list()
    assert abs(np.corrcoef(one.data["carat"], one.data["null carat"])[0, 1]) < .02
    assert np.corrcoef(one.data["null x"], one.data["null carat"])[0, 1] > .9
    assert (one.truth[len(one.truth) // 2:] == 0).all() and (one.truth[:len(one.truth) // 2] != 0).all()


@pytest.mark.parametrize("name", list(_REAL))
def test_a_dictionary_knows_its_table(name):
    "Ranges hold nearly all values, and are no tighter than these; levels hold all"
    table, facts = _loaded(name)
    assert set(facts["columns"]) == set(table.columns) and len(table) > 1_000
    for column, fact in facts["columns"].items():
        values = table[column].to_numpy()
        if "levels" in fact: assert set(values) <= set(fact["levels"])
        else: assert np.mean((values >= fact["range"][0]) & (values <= fact["range"][1])) > .99


# ---------------------------------------------------------------- trials and aims

def test_a_table_has_a_truth_for_rows_that_count_by_their_weights():
    "Where no row is scaled it is that for rows that count alike; with short rows it is another"
    one, method = drawn("T badhealth"), MomentsMethod(epsilon=3.0, delta=1e-6)
    source = open_source(one.data, one.y, dictionary=one.dictionary)
    r = method.release(source, simulation=True, random_state=0)
    whole, short = (weighted_slopes("badhealth", replace(r, clip=replace(r.clip, row_bound=bound)))
                    for bound in (1e3, .3))
    own = one.truth != 0
    assert np.allclose(whole[own], one.truth[own], rtol=.02)
    assert np.abs(short / whole - 1)[own].max() > .1


def test_a_range_that_is_too_wide_is_so_by_as_much_as_the_cell_says():
    for name, times in (("W3", 3), ("W10", 10), ("W30*", 30)):
        facts = drawn(name).dictionary["columns"]
        assert np.ptp(facts["x0"]["range"]) == 8 * times and np.ptp(facts["x1"]["range"]) == 8
        assert np.corrcoef(drawn(name).data["x0"], drawn(name).data["x1"])[0, 1] > .65


def test_a_trial_is_a_function_of_its_number_and_its_options():
    last = FIELDS.index("seconds")
    def trial(k, **options): return np.array(ordinary_trial("G1/10", k, **options))[:last]
    one, again, other, fewer = trial(1005), trial(1005), trial(1006), trial(1005, rounds=1)
    assert np.array_equal(one, again) and not np.array_equal(one, other) and not np.array_equal(one, fewer)
    rates = ordinary_rates(["G1/10"], 2, 1, 1005)
    assert np.array_equal(rates[0, :, :last], [one, other]) and (rates[0, :, last] > 0).all()


def test_what_a_trial_measures(monkeypatch):
    "Strong signals are found and covered; without signals power is 0 and there is nothing to cover"
    found = dict(zip(FIELDS, ordinary_trial("G10/10", 1001)))
    assert found["any"] == 1 and found["power"] >= .5 and found["signals covered"] >= .5
    nothing = dict(zip(FIELDS, ordinary_trial("P none", 1001)))
    assert nothing["power"] == 0 and np.isnan(nothing["signals covered"]) and nothing["fdp"] == nothing["any"]
    draw = CELLS["G10/10"].draw
    def shifted(rng):  # a truth that is none: nothing covers it, and every discovery is false
        one = draw(rng)
        return one._replace(truth=np.where(one.truth == 0, 9.0, 0.0))
    monkeypatch.setitem(CELLS, "wrong", Cell("a wrong truth", shifted, 10.0))
    wrong = dict(zip(FIELDS, ordinary_trial("wrong", 1001)))
    assert wrong["fdp"] > .3 and wrong["signals covered"] == 0 and wrong["z2"] > 10


def test_an_aim_is_missed_beyond_three_standard_errors():
    rng = stream(7, "aims")
    def rates(fdp=.1, z2=1.0, nulls=.95, signals=.95):
        values = np.full((1, 60, len(FIELDS)), .5)
        for name, value in (("fdp", fdp), ("z2", z2), ("nulls covered", nulls), ("signals covered", signals),
                            ("weighted covered", signals)):
            values[0, :, FIELDS.index(name)] = value + .05 * rng.standard_normal(60)
        return values
    assert missed_aims(["B1"], rates()) == {}
    assert missed_aims(["B1"], rates(fdp=.25)) == {"B1": ["fdp"]}
    assert missed_aims(["C1"], rates(fdp=.15)) == {"C1": ["fdp"]}  # where q is .1
    assert missed_aims(["B1"], rates(fdp=.205, z2=1.2, nulls=.85, signals=.85)) == {
        "B1": ["z2", "nulls covered", "signals covered", "weighted covered"]}
    empty = rates()
    empty[:, :, FIELDS.index("signals covered")] = np.nan
    assert missed_aims(["D1"], empty) == {} and np.isnan(means_of(empty)[0]).sum() == 1
    lines = as_lines(["B1"], rates(fdp=.25))
    assert len(lines) == 2 and lines[1].split()[0] == "B1" and lines[1].split()[-1] == "FDR"


def test_cells_that_are_set_aside_run_only_when_asked_for(monkeypatch, capsys):
    for given, expected in ((), {"G1/1", "G1/10"}), (("--aside",), {"G1/1", "G1/10", "G1/3*"}):
        monkeypatch.setattr("sys.argv", ["ordinary.py", "--cells", "G1/", "--datasets", "1", *given])
        main()
        assert {line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]} == expected


# ---------------------------------------------------------------- on file

def test_the_file_has_every_cell():
    assert HEADER["names"] == NAMES and HEADER["fields"] == list(FIELDS)
    assert FILE["default"].shape == (len(NAMES), DATASETS, len(FIELDS))
    header, before = load_arrays(RESULTS / "ordinary-0.2.npz", "ordinary")
    many = len(header["names"])
    assert header["names"] == NAMES[:many] and {name[0] for name in NAMES[many:]} == {"W"}  # added later
    assert [*header["fields"], "weighted covered"] == list(FIELDS)
    assert before["default"].shape[1] >= DATASETS


@pytest.mark.parametrize("name", ["A3", "C2", "D1", "S5", "G3/3", "R rwm5yr", "T badhealth"])
def test_the_file_is_what_the_code_gives(name):
    "All but the seconds"
    if HEADER["made_with"] != made_with(): pytest.skip("made with other libraries")
    k, last = DATASETS - 1, FIELDS.index("seconds")
    again = np.array(ordinary_trial(name, k))[:last]
    assert np.allclose(again, FILE["default"][NAMES.index(name), k, :last], equal_nan=True)
