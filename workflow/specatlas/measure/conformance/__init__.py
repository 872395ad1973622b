"""The conformance suite: does a method keep the contract? Tiny random models, fp32, CPU, seconds a method.

`specatlas check` and the tests run the same functions. A method that passes leaves the output as its card says.
"""

from specatlas.measure.conformance import contract, greedy, sampling, state, stopping
from specatlas.measure.conformance.distribution import distribution_p_value
from specatlas.measure.conformance.registry import CHECKS
from specatlas.measure.conformance.runner import check_method, run_checks

__all__ = [
    "CHECKS",
    "check_method",
    "contract",
    "distribution_p_value",
    "greedy",
    "run_checks",
    "sampling",
    "state",
    "stopping",
]
