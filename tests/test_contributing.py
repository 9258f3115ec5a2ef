"docs/extending.md says how a method, a statistic and a source are added: its code does what it says."
import re
from pathlib import Path

import numpy as np
import pytest

from dp_knockoff.core.errors import InputError
from dp_knockoff.data.source import open_source
from dp_knockoff.filters.methods import METHODS, chooses, knockoff_filter, takes
from dp_knockoff.privacy.mechanisms import Budget, gaussian_divergence
from dp_knockoff.selection.release import Release, Selection, select
from dp_knockoff.selection.rules import SIMULATION, KnockoffPlus
from watched import Trusted

PAGE = Path(__file__).resolve().parent.parent / "docs" / "extending.md"


@pytest.fixture(scope="module")
def page():
    "The names that the page's code defines"
    names = {"__name__": "contributing"}
    for block in re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8")):
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_method_releases_what_it_says(page):
    release = page["release"]
    assert isinstance(release, Release) and release.method == "local"
    assert release.budget == Budget(2.0, 1e-5) and list(release.noise) == ["responses"]
    assert "NumPy" in release.sampler and release.simulated and "public" in str(release.privacy.lines())
    assert str(release.guarantee) == SIMULATION
    assert gaussian_divergence(2.0, 2 * 12.0 / release.noise["responses"]) <= 1e-5
    with pytest.raises(InputError, match="response_bound"):
        page["LocalNoise"](epsilon=1.0, delta=1e-5, response_bound=-1)


def test_what_it_releases_can_be_selected_from(page):
    selection = select(page["release"], fdr=0.2)
    assert isinstance(selection, Selection) and selection.method == "local"
    assert SIMULATION in repr(selection) and "was clamped" in repr(selection)
    real = page["method"].release(page["X"][:500], page["y"][:500], sampler=Trusted())
    assert "differ in one response" in repr(select(real)) and SIMULATION not in repr(select(real))
    assert len(selection) >= 5


def test_once_listed_its_parameters_are_known(page, monkeypatch):
    monkeypatch.setitem(METHODS, "local", page["LocalNoise"])
    assert list(takes("local")) == ["epsilon", "delta", "response_bound"]
    assert chooses("local") == ("fdr", "statistic", "offset")


def test_noise_hides_a_clamped_response(page):
    X, y = page["X"], page["y"].copy()
    method = page["LocalNoise"](epsilon=2.0, delta=1e-5, response_bound=1.0)
    first = method.release(X, np.clip(y, -1, 1), simulation=True, random_state=3)
    assert np.array_equal(first.b, method.release(X, y, simulation=True, random_state=3).b)


def test_groups_of_the_source_are_variables_of_the_release(page):
    names = tuple(f"x{j}" for j in range(20))
    source = open_source(page["X"][:500], page["y"][:500], groups={"pair": ["x0", "x1"]})
    release = page["method"].release(source, simulation=True, random_state=0)
    assert release.names == ("pair", *names[2:]) and release.columns == names
    assert select(release, fdr=.5).W.shape == (19,)


def test_the_statistic(page):
    assert len(select(page["release"], fdr=0.2, rule=KnockoffPlus(page["marginal"])).W) == 20
    with pytest.raises(InputError, match="antisymmetric"):
        select(page["release"], rule=KnockoffPlus(lambda A, b: np.split(b, 2)[0]))


def test_the_source_is_taken_wherever_data_is(page):
    X, y = page["X"], page["y"]
    order = np.r_[0:len(y):2, 1:len(y):2]
    source = page["from_tables"](page["tables"], "y")
    direct = knockoff_filter(X[order, :3], y[order], fdr=0.5, random_state=0)
    assert np.allclose(knockoff_filter(source, fdr=0.5, random_state=0).W, direct.W)
    assert source.names == ("a", "b", "c") and source().n == len(y)
    method = page["LocalNoise"](epsilon=2, delta=1e-5, response_bound=9)
    assert select(method.release(source, simulation=True, random_state=0)).names == source.names
