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


extras = {key.removesuffix("_requirements"): requirements(key) for key in cfg if key.endswith("_requirements")}
version = re.search(r'__version__ = "(.+?)"', (here / cfg["lib_path"] / "__init__.py").read_text()).group(1)
assert version == cfg["version"], "settings.ini and dp_knockoff/__init__.py disagree on the version: run nbdev_export"

setup(
    name=cfg["lib_name"],
    version=version,
    description=cfg["description"],
    long_description=(here / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author=cfg["author"],
    author_email=cfg["author_email"],
    license="Apache-2.0",
    keywords=cfg["keywords"].split(),
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Natural Language :: " + cfg["language"],
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)),
        "Topic :: Scientific/Engineering :: Mathematics",
    ],
    packages=find_packages(include=[cfg["lib_path"]]),
    python_requires=">=" + cfg["min_python"],
    install_requires=requirements("requirements"),
    extras_require=extras,
    entry_points={"console_scripts": requirements("console_scripts")},
    zip_safe=False,
)
