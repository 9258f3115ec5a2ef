"Methods, selections and selectors by one flat list of options, as tests like to vary them."
import inspect

from dp_knockoff.filters.methods import METHODS, takes
from dp_knockoff.practice.selector import DPKnockoffSelector
from dp_knockoff.selection.rules import KnockoffPlus

OWN = set(inspect.signature(DPKnockoffSelector).parameters)


def with_rule(word, given):
    "The same options, those of knockoffs in a rule"
    given = dict(given)
    options = {name: given.pop(name) for name in ("statistic", "offset", "s")
               if name in given and (name, word) != ("s", "none")}
    if options:
        assert given.get("rule") in (None, "knockoffs")
        given["rule"] = KnockoffPlus(**options)
    return given


def method_and_rest(word, given):
    "A method object from the fields among these options, and the other ones"
    given = dict(given)
    if "fit_intercept" in given and "intercept" in takes(word):
        given["intercept"] = given.pop("fit_intercept")
    own = {name: given.pop(name) for name in list(given) if name in takes(word)}
    return METHODS[word](**own), given


def by(word):
    "A function of data, response, the fields of the method, and the arguments of its `select`"
    def call(data, y=None, **given):
        method, rest = method_and_rest(word, with_rule(word, given))
        return method.select(data, y, **rest)
    return call


filter_one, filter_two, moments_filter = by("one"), by("two"), by("moments")
labels_filter, products_filter = by("labels"), by("products")


def selector(word, **given):
    "A selector; its method is a word, unless some of the options are known to methods only"
    given = with_rule(word, given)
    if not set(given) - OWN: return DPKnockoffSelector(method=word, **given)
    method, rest = method_and_rest(word, given)
    return DPKnockoffSelector(method=method, **rest)
