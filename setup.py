"Everything comes from settings.ini; this file only hands it to setuptools."
import re
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
settings = ConfigParser(delimiters=["="], interpolation=None)
settings.read(here / "settings.ini", encoding="utf-8")
cfg = settings["DEFAULT"]


def requirements(key):
    return cfg.get(key, "").split()


def minors():
    "Minor versions of Python 3, oldest to newest"
    oldest, newest = (int(cfg[key].split(".")[1]) for key in ("min_python", "max_python"))
    return range(oldest, newest + 1)


extras = [key.removesuffix("_requirements") for key in cfg if key.endswith("_requirements")]
init = (here / cfg["lib_path"] / "__init__.py").read_text(encoding="utf-8")
version = re.search(r'__version__ = "(.+?)"', init).group(1)
if version != cfg["version"]:
    raise SystemExit("settings.ini and dp_knockoff/__init__.py disagree on the version: run nbdev_export")

setup(
    name=cfg["lib_name"],
    version=version,
    description=cfg["description"],
    long_description=(here / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author=cfg["author"],
    license="Apache-2.0",
    keywords=cfg["keywords"].split(),
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Natural Language :: " + cfg["language"],
        *(f"Programming Language :: Python :: 3.{minor}" for minor in minors()),
        "Topic :: Scientific/Engineering :: Mathematics",
        "Typing :: Typed",
    ],
    packages=find_packages(include=[cfg["lib_path"], cfg["lib_path"] + ".*"]),
    package_data={cfg["lib_path"]: ["py.typed"]},
    python_requires=">=" + cfg["min_python"],
    install_requires=requirements("requirements"),
    extras_require={extra: requirements(f"{extra}_requirements") for extra in extras},
    entry_points={"console_scripts": requirements("console_scripts")},
    zip_safe=False,
)
