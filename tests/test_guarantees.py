"""Every guarantee, method by method and rule by rule, as saved/guarantees.json has it.

A change that is meant to change a guarantee writes the file anew, and says why in it, by

    python tests/test_guarantees.py --write
"""
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from dp_knockoff.filters.methods import METHODS
from dp_knockoff.knockoffs.laws import Gaussian
from dp_knockoff.selection.release import select
from dp_knockoff.selection.rules import KnockoffPlus, Privacy

SAVED = Path(__file__).resolve().parent / "saved" / "guarantees.json"
BUDGET = dict(epsilon=1.0, delta=1e-6)
PAPER = dict(epsilon=.9, delta=.03, row_bound=1.0, sigma=1.0, beta_norm=1.0)
MOMENTS = BUDGET | dict(row_bound=2.0, response_bound=3.0)
LABELS = BUDGET | dict(sigma=1.0, response_bound=3.0)
PRODUCTS = BUDGET | dict(response_bound=3.0, law=Gaussian(np.zeros(4), np.eye(4)))
RANGES = {"x0": (-3.0, 3.0)}

METHODS_ASKED = {
    "none": ("none", {}),
    "none, no intercept": ("none", dict(intercept=False)),
    "none, few rows, sigma": ("none", dict(sigma=1.2)),
    "none, few rows, estimate": ("none", dict(sigma="estimate")),
    "none, law": ("none", dict(law=Gaussian(np.zeros(4), np.eye(4)))),
    "one": ("one", PAPER),
    "two": ("two", PAPER),
    "two, plug-ins": ("two", PAPER | dict(sigma="estimate", beta_norm="estimate")),
    "two, one plug-in": ("two", PAPER | dict(sigma="estimate")),
    "moments": ("moments", MOMENTS),
    "moments, one round": ("moments", MOMENTS | dict(rounds=1)),
    "moments, no intercept": ("moments", MOMENTS | dict(intercept=False)),
    "moments, ranges": ("moments", MOMENTS | dict(ranges=RANGES)),
    "moments, five rows": ("moments", MOMENTS | dict(rows_per_person=5)),
    "labels": ("labels", LABELS),
    "labels, no intercept": ("labels", LABELS | dict(intercept=False)),
    "labels, five responses": ("labels", LABELS | dict(rows_per_person=5)),
    "products": ("products", PRODUCTS),
    "products, five rows": ("products", PRODUCTS | dict(rows_per_person=5)),
    "tests": ("tests", PRODUCTS),
    "tests, one round": ("tests", PRODUCTS | dict(rounds=1)),
    "tests, five rows": ("tests", PRODUCTS | dict(rows_per_person=5)),
}
ESTIMATES = "moments", "labels" # methods whose releases can be tested
ASKED = {"knockoffs": {}, "knockoffs, offset 0": dict(rule=KnockoffPlus(offset=0)),
         "knockoffs, any rate": dict(fdr="any")}
TESTS = {rule: dict(rule=rule) for rule in ("bh", "dbh", "by", "ebh")} | {
    "any rate": dict(fdr="any"), "by, effects above .5": dict(rule="by", smallest_effect=.5),
    "bh, effects above .5 of x0": dict(rule="bh", smallest_effect={"x0": .5})}
SIGMA = {"bh, sigma": dict(rule="bh", sigma=1.0)} # moments only


def rows(word, options):
    "Rows in bounds; few where only few may be there"
    rng = np.random.default_rng(0)
    n = 6 if "sigma" in options and word == "none" else 400
    X = rng.standard_normal((n, 4)) / 4
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    return X, X @ [1.0, 0, 0, 0] + rng.standard_normal(n)


def releases(word, options):
    "The release, as it would be if it were no simulation, and the simulation"
    draw = dict(random_state=0) if word == "none" else dict(random_state=0, simulation=True)
    found = METHODS[word](**options).release(*rows(word, options), **draw)
    return (found,) if word == "none" else (replace(found, simulated=False), found)


def asked(word, options):
    "All questions to a method's release, by name"
    if word == "tests":
        return {rule: dict(rule=rule) for rule in ("bh", "by", *(["exact"] if "rounds" in options else []))}
    if word not in ESTIMATES: return ASKED
    with_rule = {name: {"rule": "knockoffs", **options} for name, options in ASKED.items()}
    return with_rule | TESTS | (SIGMA if word == "moments" else {})


def guarantees():
    "All of them, by case"
    found = {}
    for name, (word, options) in METHODS_ASKED.items():
        for release in releases(word, options):
            simulated = ", simulated" if release.simulated else ""
            found[f"{name}{simulated}: release"] = release.guarantee.lines()
            for what, question in asked(word, options).items():
                found[f"{name}{simulated}: {what}"] = select(release, **question).guarantee.lines()
    return found


def test_all_methods_and_rules_are_there():
    assert {word for word, _ in METHODS_ASKED.values()} == set(METHODS)
    assert len(guarantees()) > 150


def test_guarantees_are_those_that_were_saved():
    saved = json.loads(SAVED.read_text(encoding="utf-8"))
    assert guarantees() == saved["guarantees"]


# parts of the sentences of version 0.2: those that are still said like that, and those that are not
SAID = [
    "FDR <= 0.2", "E[V / (R + 5)] <= 0.2 (a modified FDR)", "in finite samples", "for any response",
    "as the noise on the Gram matrix becomes small", "measured, not proved", "normal noise",
    "whatever its variances", "of one variance", "y = a + X b", "y = X b", "standard deviation",
    "by the Benjamini-Hochberg rule", "proved only up to the factor 1 + 1/2 + ... + 1/p",
    "for estimates of any dependence", "for normal estimates of any known covariance", "e-BH",
    "many draws of knockoffs", "Gaussian(4 columns)", "NOT private", "Not private",
    "-differential privacy for every pair of datasets", "(epsilon=1, delta=1e-06)",
    "(epsilon=0.9, delta=0.03)", "differ in one row", "differ in any 5 rows (all", "differ in one response",
    "differ in any 5 responses", "the bounds and ranges", "the bounds and sigma",
    "without looking at the responses", "replacing one row", "the row norms are at most what was given",
    "get one common noise scale", "sigma and |beta| came from the data without noise",
    "sigma came from the data without noise", "which no privacy statement covers",
]
SAID_OTHERWISE = {
    "independent draws of the given law": "independent draws of the given distribution",
    "add the probability that some response was clamped":
        "Add the probability that some response was clamped",
    "Approximate: the noise level": "approximate: the noise level",
    "no assumption on the data but that it is finite":
        "assumes nothing about the data but that it is finite",
    "the law and the bounds": "the distribution of the rows and the bounds",
    "without looking at it": "without looking at the data",
    "the design is public and not protected": "The design is public and not protected",
    "on average over that noise": "on average over the regression noise",
    "the scale was computed from this dataset": "The scale was computed from this dataset",
    "is not differential privacy for every pair of neighbours":
        "is not differential privacy for every pair",
}


OF_MODELS = {"as the noise on the Gram matrix becomes small", "whatever its variances", "of one variance",
             "y = a + X b", "y = X b", "in finite samples"} # of moments: its estimator and conditions are new


def test_nothing_that_version_0_2_said_is_lost():
    "The new texts differ in their form only: each part is still there"
    before = json.loads((SAVED.parent / "guarantees-0.2.json").read_text(encoding="utf-8"))
    parts = {part: part for part in SAID} | SAID_OTHERWISE
    now = {case: " ".join(lines) for case, lines in guarantees().items()}
    assert set(before) < set(now) # rates chosen afterwards and effects that matter came later
    for case, text in before.items():
        for old, new in parts.items():
            if case.startswith("moments") and old in OF_MODELS: continue
            assert (old in text) <= (new in now[case]), (case, new)
    for old in parts: assert any(old in text for text in before.values()), old


def test_what_is_promised_is_a_field():
    for name, (word, options) in METHODS_ASKED.items():
        method = METHODS[word](**options)
        for rule in {method.releases.rule.name, "bh" if word == "tests" else "knockoffs"}:
            found = method.guarantee(rule=rule)
            assert found.control.kind in ("exact", "asymptotic", "measured"), name
            assert isinstance(found.privacy, Privacy) == (word != "none")
            assert json.loads(json.dumps(found.to_dict()))["lines"] == found.lines()


if __name__ == "__main__" and "--write" in sys.argv:
    saved = json.loads(SAVED.read_text(encoding="utf-8")) | {"guarantees": guarantees()}
    SAVED.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def test_a_word_means_its_rule():
    from dp_knockoff.selection.rules import RULES, BenjaminiYekutieli, DependentBH

    assert RULES["by"] is BenjaminiYekutieli and RULES["dbh"] is DependentBH
