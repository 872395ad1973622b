"""Verification rules, one module each, by the name that cards use."""

from collections.abc import Mapping

from specatlas.engine.verification.greedy import Greedy
from specatlas.engine.verification.rule import Preserves, Verdict, VerificationRule
from specatlas.engine.verification.siblings import SiblingsWithoutReplacement
from specatlas.engine.verification.speculative import SpeculativeSampling
from specatlas.engine.verification.typical import TypicalAcceptance
from specatlas.errors import CatalogError

__all__ = ["RULES", "Preserves", "Verdict", "VerificationRule", "make_rule"]

RULES: dict[str, type[VerificationRule]] = {
    "greedy": Greedy,
    "speculative_sampling": SpeculativeSampling,
    "siblings_without_replacement": SiblingsWithoutReplacement,
    "typical_acceptance": TypicalAcceptance,
}


def make_rule(name: str, hyperparameters: Mapping[str, int | float | bool | str] | None = None) -> VerificationRule:
    """The rule called `name`, with those hyper-parameters of the method that the rule declares.

    Raises:
        CatalogError: There is no such rule.
    """
    if name not in RULES:
        raise CatalogError(f"No verification rule is called `{name}`; known: {', '.join(RULES)}.")
    rule = RULES[name]
    return rule(**{key: value for key, value in (hyperparameters or {}).items() if key in rule.parameters})
