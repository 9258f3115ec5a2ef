"""Differentially private variable selection with false discovery rate control.

The notebooks in nbs/ are the source of every module here but this one, which only names what users need.
Importing the package is free: a name is imported when it is first used.
"""
__version__ = "0.3.0"

_modules = {
    # for people with data
    "private_filter": "filters.methods", "knockoff_filter": "filters.methods",
    "DPKnockoffSelector": "practice.selector", "ReleaseSelector": "practice.selector",
    "plot_selection": "practice.plots", "plot_effects": "practice.plots", "write_report": "practice.report",
    # data and bounds
    "open_source": "data.source", "moments_of": "data.source", "Moments": "data.moments", "Clip": "data.clip",
    "Dictionary": "data.dictionary",
    # public distributions of rows
    "Gaussian": "knockoffs.laws", "Levels": "knockoffs.laws", "Independent": "knockoffs.laws",
    "Blocks": "knockoffs.laws", "check_law": "knockoffs.laws",
    # methods, releases, rules, selections
    "NonPrivate": "filters.methods", "MethodOne": "paper.one_and_two", "MethodTwo": "paper.one_and_two",
    "MomentsMethod": "filters.moments_method", "LabelsMethod": "filters.labels_method",
    "LawTestsMethod": "filters.law_tests", "LinkMethod": "filters.link",
    "ProductsMethod": "filters.products_method", "Release": "selection.release", "load_release": "filters.methods",
    "select": "selection.release", "Selection": "selection.release", "KnockoffPlus": "selection.rules",
    "Statistic": "knockoffs.statistics", "Guarantee": "selection.rules",
    # privacy
    "Budget": "privacy.mechanisms", "Ledger": "privacy.ledger", "audit_release": "evidence.audit",
    # planning and measuring
    "Experiment": "evidence.simulation", "simulate": "evidence.simulation", "plan": "practice.planning",
    "outlook": "practice.planning", "Scenario": "practice.planning", "linear_model": "data.models",
    # the rest
    "InputError": "core.errors",
}
__all__ = list(_modules)


def __getattr__(name):
    from importlib import import_module

    if name not in _modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_modules[name]}"), name)


def __dir__():
    return sorted([*globals(), *_modules])
