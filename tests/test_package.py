"What the installed package imports, what it never does, and that its files agree on its version."
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

import dp_knockoff

PACKAGE = Path(dp_knockoff.__file__).parent
ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(".".join(path.relative_to(PACKAGE).with_suffix("").parts)
                 for path in PACKAGE.rglob("*.py") if not path.stem.startswith("_"))
COMMAND = str(Path(sys.executable).parent / "dp-knockoff")
SELECT = """
from dp_knockoff.filters.methods import knockoff_filter
from dp_knockoff.data.models import linear_model
from dp_knockoff.knockoffs.statistics import Statistic
X, y, _ = linear_model(200, 10, 5, random_state=0)
result = knockoff_filter(X, y, statistic=Statistic({!r}), random_state=0)
"""


def fresh(code):
    "Run code in a fresh interpreter and return what it prints"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def command(*arguments, **options):
    "Run the command line"
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, **options)


def settings():
    "What settings.ini says"
    parser = ConfigParser(delimiters=["="], interpolation=None)
    parser.read(ROOT / "settings.ini", encoding="utf-8")
    return parser["DEFAULT"]


def test_importing_the_package_is_free():
    loaded = fresh("import sys, dp_knockoff; print(*sys.modules)").split()
    assert "dp_knockoff" in loaded
    assert not {"numpy", "scipy", "sklearn", "matplotlib", "pandas"} & set(loaded)


def test_help_is_light():
    loaded = fresh("import sys\nfrom dp_knockoff.practice.cli import main\n"
                   "try: main(['--help'])\nexcept SystemExit: print(*sys.modules)").split()
    assert not {"numpy", "scipy", "sklearn", "matplotlib"} & set(loaded)


def test_a_selection_does_not_import_what_it_does_not_need():
    loaded = fresh(SELECT.format("ols") + "import sys; print(*sys.modules)").split()
    assert not {"sklearn", "matplotlib", "pandas", "polars", "scipy.stats"} & set(loaded)


def test_no_module_imports_the_notebook_tools():
    block = "import sys\nfor name in ('nbdev', 'fastcore', 'execnb', 'IPython'): sys.modules[name] = None\n"
    imports = "\n".join(f"import dp_knockoff.{module}" for module in MODULES)
    assert "Error rate: FDR" in fresh(f"{block}{imports}\n{SELECT.format('path')}print(result)")


def test_the_names_of_the_package():
    names = dp_knockoff.__all__
    assert len(names) == len(set(names)) and set(names) <= set(dir(dp_knockoff))
    assert fresh(f"from dp_knockoff import *; print({names[-1]!r} in globals())").strip() == "True"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_thing"): dp_knockoff.no_such_thing


def test_every_file_says_the_same_version():
    wanted = settings()["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert dp_knockoff.__version__ == wanted
    assert re.search(r"(?m)^version: (.+)$", citation)[1] == wanted
    assert re.search(r"(?m)^## \[?v?(\d[\w.]*)", changes)[1] == wanted


def test_no_address_is_invented():
    assert not settings()["git_url"] and not settings()["doc_host"]
    for path in ("settings.ini", "setup.py", "pyproject.toml", "CITATION.cff", "dp_knockoff/_modidx.py"):
        assert "://" not in (ROOT / path).read_text(encoding="utf-8"), path


def test_types_are_announced(): assert (PACKAGE / "py.typed").exists()


def test_command_line(tmp_path):
    out = tmp_path / "picture.png"
    done = command("demo", "--n", 300, "--p", 20, "--k", 8, "--amplitude", 1, "--out", out)
    assert done.returncode == 0 and "Error rate: FDR" in done.stdout and "NOT private" in done.stdout
    assert out.stat().st_size > 10_000
    bad = command("demo", "--fdr", 7, cwd=tmp_path)
    assert bad.returncode == 2 and bad.stderr.startswith("dp-knockoff: --fdr=7.0")
    assert bad.stderr.count("\n") == 1 and [f.name for f in tmp_path.iterdir()] == ["picture.png"]


RELEASE = """
import sys
from dp_knockoff.filters.methods import private_filter
from dp_knockoff.data.models import linear_model
X, y, _ = linear_model(2000, 3, 2, random_state=0)
public = dict(epsilon=1.0, delta=1e-4, row_bound=2.0, response_bound=4.0, fdr=.5)
print(private_filter(X, y, **public{}))
print("opendp" in sys.modules)
"""


def test_a_release_uses_opendp_and_prints_its_guarantee():
    out = fresh(RELEASE.format(""))
    assert "Privacy: (epsilon=1, delta=0.0001)-differential privacy for every pair" in out
    assert "Noise drawn by OpenDP" in out and "imulation" not in out and out.endswith("True\n")


def test_a_simulation_says_so_and_does_not_import_opendp():
    one, two = (fresh(RELEASE.format(", simulation=True, random_state=1")) for _ in range(2))
    assert "Simulation: NOT private" in one and "Privacy:" not in one and one.endswith("False\n")
    assert one == two


def test_opendp_is_required():
    assert "opendp" in settings()["requirements"] and "secure" not in settings().get("extras", "")


def test_the_readme_says_what_the_study_of_rows_found():
    "The median power at three numbers of rows, and of how many tables"
    study = (ROOT / "studies" / "results" / "rows.md").read_text(encoding="utf-8")
    lines = re.findall(r"(?m)^\| (\d+) \| (\d+) \| [\d.]+, ([\d.]+), [\d.]+ \|", study)
    tables = max(int(tables) for _, tables, _ in lines)
    power = {int(ratio): f"{float(median):.1f}".lstrip("0") for ratio, _, median in lines}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert tables == 20 and "On twenty [real tables](studies/results/rows.md)" in readme
    assert f"was then {power[160]}; with twice the rows {power[320]}, with half {power[80]}." in readme
