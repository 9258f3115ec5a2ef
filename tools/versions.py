"""Run the suite at both ends of what is supported, once per release: nothing is written in the checkout.

    pip install uv               # brings the Pythons that are missing
    python tools/versions.py     # both, one after the other
    python tools/versions.py oldest --pytest -x -k audit

oldest: the oldest Python with the lowest version of every requirement of the package and its extras
newest: the newest Python with the newest versions there are
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from configparser import ConfigParser
from pathlib import Path

import notebooks as nbs

ENDS = ("oldest", "newest")
RUNTIME = ("requirements", "files_requirements", "cluster_requirements")


def main():
    "The command line"
    verbatim = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=verbatim)
    parser.add_argument("ends", nargs="*", metavar="oldest|newest", help="default: both")
    parser.add_argument("--pytest", nargs=argparse.REMAINDER, default=[], help="what follows goes to pytest")
    args = parser.parse_args()
    if unknown := set(args.ends) - set(ENDS): parser.error(f"{', '.join(unknown)}: pass oldest or newest")
    failed = [end for end in args.ends or ENDS if suite(end, settings(), args.pytest)]
    sys.exit(f"Failed with the {' and the '.join(failed)} versions." if failed else 0)


def settings() -> dict:
    "What settings.ini says"
    parser = ConfigParser(delimiters=["="], interpolation=None)
    parser.read(nbs.ROOT / "settings.ini", encoding="utf-8")
    return parser["DEFAULT"]


def suite(end: str, cfg: dict, options: list) -> int:
    "Install a copy of the repository in a fresh environment and run its tests there; pytest's exit code"
    version = cfg["min_python" if end == "oldest" else "max_python"]
    with tempfile.TemporaryDirectory() as folder:
        copy, environment = nbs.copied(Path(folder) / "copy"), Path(folder) / "environment"
        run(interpreter(version), "-m", "venv", environment)
        python = environment / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        pins = Path(folder) / "pins.txt"
        pins.write_text("\n".join(lowest(cfg) if end == "oldest" else []) + "\n", encoding="utf-8")
        print(f"\n== {end}: Python {version}\n{pins.read_text(encoding='utf-8')}", flush=True)
        run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", pins, f"{copy}[dev]")
        run(python, "-m", "pip", "list", "--disable-pip-version-check")
        return subprocess.run([str(python), "-m", "pytest", *options], cwd=copy).returncode


def lowest(cfg: dict) -> list:
    "The lower bound of every requirement at run time, as a pin: numpy>=1.26 gives numpy==1.26"
    found = {}
    for requirement in " ".join(cfg[key] for key in RUNTIME).split():
        version = requirement.partition(";")[0]  # what follows says for which Python
        name, bound = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)(?:,<[\d.]+)?", version).groups()
        found[name] = bound
    return [f"{name}=={bound}" for name, bound in found.items()]


def interpreter(version: str) -> str:
    "A Python of this version: the one on the path, or one that uv finds or brings"
    here = shutil.which(f"python{version}")
    if here and works(here, "-c", ""): return here
    uv = shutil.which("uv")
    if uv is None: sys.exit(f"python{version} is not on the path, nor is uv to bring it: pip install uv")
    find = [uv, "python", "find", "--no-project", "--system", version]
    if not works(*find): run(uv, "python", "install", version)
    return subprocess.run(find, check=True, capture_output=True, text=True).stdout.strip()


def works(*command) -> bool:
    "Does a command end well?"
    return subprocess.run(command, capture_output=True).returncode == 0


def run(*command):
    "Run a command that must not fail"
    subprocess.run([str(word) for word in command], check=True)


if __name__ == "__main__": main()
