"What the installed package imports, and what it never does."
import subprocess
import sys
from pathlib import Path

import dp_knockoff

MODULES = sorted(path.stem for path in Path(dp_knockoff.__file__).parent.glob("*.py") if not path.stem.startswith("_"))
COMMAND = str(Path(sys.executable).parent / "dp-knockoff")


def fresh(code):
    "Run code in a fresh interpreter and return what it prints"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_importing_the_package_is_free():
    loaded = fresh("import sys, dp_knockoff; print(*sys.modules)").split()
    assert "dp_knockoff" in loaded and not {"numpy", "scipy", "sklearn", "matplotlib", "pandas"} & set(loaded)


def test_help_is_light():
    loaded = fresh("import sys\nfrom dp_knockoff.cli import main\ntry: main(['--help'])\nexcept SystemExit: print(*sys.modules)").split()
    assert not {"numpy", "scipy", "sklearn", "matplotlib"} & set(loaded)


def test_a_selection_does_not_import_what_it_does_not_need():
    loaded = fresh("import sys, numpy as np\nfrom dp_knockoff import knockoff_filter, linear_model\nX, y, _ = linear_model(99, 9, 3)\n"
                   "knockoff_filter(X, y); print(*sys.modules)").split()
    assert not {"sklearn", "matplotlib", "pandas", "polars", "scipy.stats"} & set(loaded)


def test_no_module_imports_the_notebook_tools():
    block = "import sys\nfor name in ('nbdev', 'fastcore', 'execnb', 'IPython'): sys.modules[name] = None\n"
    imports = "\n".join(f"import dp_knockoff.{module}" for module in MODULES)
    run = ("from dp_knockoff import *\nX, y, _ = linear_model(200, 10, 5, random_state=0)\n"
           "print(knockoff_filter(X, y, statistic=Statistic('path'), random_state=0))")
    assert "Guarantee" in fresh(f"{block}{imports}\n{run}")


def test_front_doors_exist():
    for name in dp_knockoff.__all__:
        assert callable(getattr(dp_knockoff, name)), name
    assert set(dp_knockoff.__all__) <= set(dir(dp_knockoff))


def test_an_unknown_name_is_an_attribute_error():
    try: dp_knockoff.no_such_thing
    except AttributeError as error: assert "no_such_thing" in str(error)
    else: raise AssertionError("no error")


def test_command_line(tmp_path):
    out = tmp_path / "picture.png"
    done = subprocess.run([COMMAND, "demo", "--n", "300", "--p", "20", "--k", "8", "--amplitude", "1", "--out", str(out)], capture_output=True, text=True)
    assert done.returncode == 0 and "Guarantee" in done.stdout and "Not private" in done.stdout and out.stat().st_size > 10_000
    bad = subprocess.run([COMMAND, "demo", "--fdr", "7"], capture_output=True, text=True, cwd=tmp_path)
    assert bad.returncode == 2 and bad.stderr.startswith("dp-knockoff: fdr=7.0") and bad.stderr.count("\n") == 1
    assert [f.name for f in tmp_path.iterdir()] == ["picture.png"]
