"""Variable selection with false discovery rate control and differential privacy, by knockoffs.

The notebooks in nbs/ are the source of every module here but this one, which only names what users need.
Importing the package is free: a name is imported when it is first used.
"""
__version__ = "0.2.0"

_modules = {
    # for people with data
    "private_filter": "methods", "knockoff_filter": "filter",
    "filter_one": "method_one", "filter_two": "method_two",
    "moments_filter": "method_moments", "labels_filter": "method_labels",
    "products_filter": "method_products", "select": "selection",
    "DPKnockoffSelector": "selector", "ReleaseSelector": "selector",
    "plot_selection": "plots", "plot_effects": "plots", "plot_noise": "plots", "write_report": "report",
    # data and bounds
    "open_source": "sources", "moments_of": "sources", "Source": "passes", "Moments": "moments",
    "ExactMoments": "moments", "Clip": "clip", "Dictionary": "dictionary", "as_dictionary": "dictionary",
    # public laws of rows
    "Gaussian": "laws", "Levels": "laws", "Independent": "laws", "Blocks": "laws", "check_law": "laws",
    # methods, releases, selections
    "NonPrivate": "filter", "MethodOne": "method_one", "MethodTwo": "method_two",
    "MomentsMethod": "method_moments", "LabelsMethod": "method_labels", "ProductsMethod": "method_products",
    "METHODS": "methods", "PrivateMoments": "estimate", "ProductsRelease": "method_products",
    "Release": "selection",
    "Selection": "selection", "Statistic": "statistics",
    # privacy
    "Budget": "mechanisms", "Ledger": "ledger", "NumpySampler": "samplers", "SecureSampler": "samplers",
    "audit_release": "audit",
    # planning and measuring
    "Experiment": "simulation", "simulate": "simulation", "plan": "planning", "outlook": "planning",
    "Scenario": "planning", "plot_curves": "plots", "linear_model": "models",
    # the rest
    "explicit_knockoffs": "knockoffs", "knockoff_threshold": "threshold", "InputError": "errors",
}
__all__ = list(_modules)


def __getattr__(name):
    from importlib import import_module

    if name not in _modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_modules[name]}"), name)


def __dir__():
    return sorted([*globals(), *_modules])
