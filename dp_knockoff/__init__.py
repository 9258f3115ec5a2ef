"""Variable selection with false discovery rate control and differential privacy, by knockoffs.

The notebooks in nbs/ are the source of every module here but this one, which only names the front doors.
Importing the package is free: a name is imported when it is first used.
"""
__version__ = "0.1.0"

_rooms = {
    "Moments": "moments", "explicit_knockoffs": "knockoffs", "Statistic": "statistics",
    "knockoff_filter": "filter", "knockoff_threshold": "filter", "Selection": "filter",
    "filter_one": "method_one", "filter_two": "method_two",
    "filter_three": "method_three", "filter_labels": "method_three", "PrivateMoments": "private_moments",
    "Clip": "moments", "open_source": "sources", "moments_of": "sources", "DPKnockoffSelector": "selector", "plot_noise": "plots",
    "Budget": "mechanisms", "NumpySampler": "mechanisms", "SecureSampler": "mechanisms",
    "Experiment": "simulation", "simulate": "simulation", "plot_curves": "plots",
    "InputError": "ground", "linear_model": "ground", "plot_selection": "plots",
}
__all__ = list(_rooms)


def __getattr__(name):
    from importlib import import_module

    if name not in _rooms:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_rooms[name]}"), name)


def __dir__():
    return sorted([*globals(), *_rooms])
