"""Small named checks that say what a reader must know of a row. A check's name is its flag's code.

A check gets the evidence and returns one sentence, or null where all is well. `error` takes a row out of the ranking,
`warning` asks to read it with care, `info` merely tells.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
from scipy.special import bdtrc

from specatlas.analysis.counts import arm, step_table
from specatlas.analysis.evidence import DECODING_SETTINGS, Evidence, decoding_settings, platform
from specatlas.analysis.ranking import compare
from specatlas.analysis.schema import Flag
from specatlas.analysis.statistics import has_window
from specatlas.records.schema import Sample, UnitStatus, Verdict

Severity = Literal["info", "warning", "error"]
Finding = Callable[[Evidence], str | None]
Check = Callable[[Evidence], Flag | None]

TWIN, ORACLE, RANDOM_DRAFT = "autoregressive_twin", "oracle", "random_draft"

# Interleaving cancels slow changes between the arms, but not within a prompt; careful benchmarks warn at 2-3 %.
BASELINE_DRIFT = 0.03
# Foreign work, as a share of the machine's cores: it slows decoding by about as much, so above the drift we accept.
FOREIGN_LOAD = 0.05
# A step costs at least a plain step, so speedup <= AL; 2 % is what the two arms' clocks may differ by chance.
ABOVE_ACCEPTANCE_LENGTH = 1.02
# One 4-gram in twenty more than plain decoding: beyond what a few near-tie divergences do, and it flatters look-up.
REPETITION = 0.05
# Rows checked against the oracle are many, so each at 1 %.
ABOVE_ORACLE_P = 0.01
# Chance of such a pile of divergences anywhere in the output, if every position were equally likely; at least three,
# since two prompts may share a position for many reasons.
CLUSTER_P = 0.001
CLUSTER_SIZE = 3
# A nanosecond clock does not return the same time thrice.
SAME_TIMES = 3

CHECKS: dict[str, Check] = {}


def check(severity: Severity, any_status: bool = False) -> Callable[[Finding], Check]:
    """Registers a check under its function's name.

    Args:
        severity: Of the flag it raises.
        any_status: Whether it also looks at units that did not end `ok` and so have no numbers.
    """

    def register(finding: Finding) -> Check:
        code = finding.__name__

        def checked(evidence: Evidence) -> Flag | None:
            if not any_status and evidence.record.status is not UnitStatus.OK:
                return None
            message = finding(evidence)
            return Flag(code=code, severity=severity, message=message) if message else None

        checked.__name__, checked.__doc__ = code, finding.__doc__
        CHECKS[code] = checked
        return checked

    return register


def raise_flags(evidence: Evidence) -> tuple[Flag, ...]:
    """The flags of a row, in the order of the checks below."""
    found = (checked(evidence) for checked in CHECKS.values())
    return tuple(flag for flag in found if flag is not None)


@check("error")
def wrong_output(evidence: Evidence) -> str | None:
    """A method that claims to be lossless is not."""
    if evidence.row.verdict is not Verdict.WRONG:
        return None
    return f"The output differs from plain decoding: {evidence.row.verdict_detail}"


@check("error", any_status=True)
def withdrawn(evidence: Evidence) -> str | None:
    """The method is no longer in the catalog; rows are never deleted silently."""
    if evidence.card is not None:
        return None
    return "The method is no longer in the catalog; the row stays for the record."


@check("error")
def other_workload(evidence: Evidence) -> str | None:
    """Weights, prompts or decoding settings differ from the board's: not the same task (known fault K09)."""
    mine, theirs = evidence.record.provenance, evidence.reference.provenance
    settings = zip(
        DECODING_SETTINGS, decoding_settings(evidence.record), decoding_settings(evidence.reference), strict=True
    )
    differing = [f"{name} ({value} instead of {other})" for name, value, other in settings if value != other]
    differing += ["the prompts"] if mine.prompts_sha256 != theirs.prompts_sha256 else []
    differing += ["the target's weights"] if mine.model_sha256 != theirs.model_sha256 else []
    return f"Differs from the board's other rows in {', '.join(differing)}." if differing else None


@check("error")
def speedup_above_acceptance_length(evidence: Evidence) -> str | None:
    """More speed than tokens a step: the baseline or the clock is wrong."""
    speedup, length = evidence.row.speedup, evidence.row.acceptance_length
    if speedup is None or length is None:
        return None
    least = speedup.interval.low if speedup.interval else speedup.ratio_of_sums
    if least <= length * ABOVE_ACCEPTANCE_LENGTH:
        return None
    return f"A speedup of at least {least:.2f} with an acceptance length of {length:.2f} is impossible."


@check("error")
def zero_variance(evidence: Evidence) -> str | None:
    """Identical times: they were not measured (known fault K08)."""
    for name in ("method", "baseline"):
        timed = [sample for sample in arm(evidence.record.samples, name) if has_window(sample)]
        if len(timed) >= SAME_TIMES and (_all_equal(timed) or _repeats_equal(timed)):
            return f"All times of the arm `{name}` repeat to the nanosecond, so no clock made them."
    return None


def _all_equal(timed: list[Sample]) -> bool:
    """Whether all generations took the same time, or the same time per token."""
    return len({s.decode_ns for s in timed}) == 1 or len({s.decode_ns / (len(s.ids) - 1) for s in timed}) == 1


def _repeats_equal(timed: list[Sample]) -> bool:
    """Whether the cycles of every prompt took the same time."""
    cycles: dict[tuple[str, int], list[int]] = defaultdict(list)
    for sample in timed:
        cycles[sample.prompt_id, sample.turn].append(sample.decode_ns)
    repeated = [times for times in cycles.values() if len(times) > 1]
    return sum(map(len, repeated)) >= SAME_TIMES and all(len(set(times)) == 1 for times in repeated)


@check("warning")
def twin_not_one(evidence: Evidence) -> str | None:
    """The control that is plain decoding twice must be 1.00 within its interval."""
    speedup = evidence.row.speedup
    if evidence.record.unit.method != TWIN or speedup is None or speedup.interval is None:
        return None
    low, high = speedup.interval.low, speedup.interval.high
    if low <= 1 <= high:
        return None
    return f"Plain decoding against itself gives {low:.3f} to {high:.3f}: read the board's speedups no finer than that."


@check("warning")
def above_oracle(evidence: Evidence) -> str | None:
    """Faster than the control that replays the target's own tokens."""
    if evidence.oracle is None or evidence.record.unit.method == ORACLE:
        return None
    comparison = compare(evidence.times, evidence.oracle)
    if comparison.log_ratio <= 0 or comparison.p_value >= ABOVE_ORACLE_P:
        return None
    return f"{np.expm1(comparison.log_ratio):.1%} faster than the oracle, which drafts the target's own tokens."


@check("warning")
def no_acceptance(evidence: Evidence) -> str | None:
    """Drafts, but not one token is accepted: a dead drafter (known faults J10, J11); a random one is meant to be."""
    table = step_table(arm(evidence.record.samples, "method"))
    if evidence.record.unit.method == RANDOM_DRAFT or not table.drafted.any() or table.accepted.any():
        return None
    return f"None of the {table.drafted.sum()} draft tokens was accepted (acceptance length 1)."


@check("warning")
def never_drafted(evidence: Evidence) -> str | None:
    """Proposes nothing over a whole unit although its card has a draft shape."""
    table = step_table(arm(evidence.record.samples, "method"))
    if evidence.card is None or evidence.card.draft_shape == "none" or table.drafted.any():
        return None
    return f"Not one token was drafted in {len(table.drafted)} steps."


@check("warning")
def divergences_clustered(evidence: Evidence) -> str | None:
    """The timed run diverges at one position over prompts: an index fault, not rounding (known fault A09).

    Under rounding every position still in agreement is equally likely to diverge. The chance of the largest pile is
    binomial in the outputs that agree up to there, times the number of positions looked at.
    """
    exactness, samples = evidence.record.exactness, arm(evidence.record.samples, "method")
    if exactness is None or not exactness.run_divergences:
        return None
    agreed = {(sample.prompt_id, sample.turn): len(sample.ids) for sample in samples}
    first: dict[tuple[str, int], int] = {}
    for item in exactness.run_divergences:  # cycles repeat one divergence: a (prompt, turn) counts once
        key = (item.prompt_id, item.turn)
        first[key] = min(item.position, first.get(key, item.position))
    agreed.update({key: position + 1 for key, position in first.items()})
    position, size = max(Counter(first.values()).items(), key=lambda item: (item[1], -item[0]))
    at_risk = sum(length > position for length in agreed.values())
    chance = bdtrc(size - 1, at_risk, len(first) / sum(agreed.values())) * max(agreed.values())
    if size < CLUSTER_SIZE or chance >= CLUSTER_P:
        return None
    return f"{size} of {len(first)} diverging answers diverge at token {position}."


@check("warning")
def repetition_above_baseline(evidence: Evidence) -> str | None:
    """The method's output repeats itself more than plain decoding's."""
    mine, theirs = evidence.row.repetition, evidence.row.baseline_repetition
    if mine is None or theirs is None or mine - theirs <= REPETITION:
        return None
    return f"{mine:.0%} of the output's 4-grams occurred before; in plain decoding {theirs:.0%}."


@check("warning")
def foreign_load(evidence: Evidence) -> str | None:
    """Other processes worked while this unit was timed (known fault K18)."""
    record = evidence.record
    means = [_mean(s.load for s in arm(record.samples, name) if s.load is not None) for name in ("method", "baseline")]
    known = [mean for mean in means if mean is not None]
    load = max(known) if known else record.environment.foreign_load
    if load <= FOREIGN_LOAD * record.environment.cores:
        return None
    return f"Other processes used {load:.2f} of {record.environment.cores} cores on average."


@check("warning")
def baseline_drift(evidence: Evidence) -> str | None:
    """Plain decoding became faster or slower during the unit."""
    drift = evidence.row.baseline_drift
    if drift is None or abs(drift) <= BASELINE_DRIFT:
        return None
    return f"Plain decoding's time per token changed by {drift:+.1%} from the first to the last third of the unit."


@check("warning")
def incomplete(evidence: Evidence) -> str | None:
    """Fewer prompts than the set; such a row is not ranked."""
    done, whole = evidence.row.n_prompts, evidence.record.n_prompts_in_set
    return f"Only {done} of {whole} prompts were measured." if done < whole else None


@check("warning", any_status=True)
def stale(evidence: Evidence) -> str | None:
    """Method or harness changed since."""
    provenance, hashes = evidence.record.provenance, evidence.hashes
    method = hashes.methods.get(evidence.record.unit.method, provenance.method_sha256)
    changed = ["the method"] if method != provenance.method_sha256 else []
    changed += ["the harness"] if hashes.harness not in (None, provenance.harness_sha256) else []
    return f"Measured before {' and '.join(changed)} changed; measure again." if changed else None


@check("warning")
def other_platform(evidence: Evidence) -> str | None:
    """Hardware, threads or torch differ from the board's other rows, though the machine has one name (K19)."""
    mine, theirs = platform(evidence.record), platform(evidence.reference)
    differing = [f"{name} {mine[name]} instead of {theirs[name]}" for name in mine if mine[name] != theirs[name]]
    return f"Measured with {', '.join(differing)}." if differing else None


@check("info", any_status=True)
def uncommitted(evidence: Evidence) -> str | None:
    """The checkout had changes that no commit holds."""
    if not evidence.record.provenance.dirty:
        return None
    return "Measured from a checkout with uncommitted changes."


def _mean(values: Iterable[float]) -> float | None:
    """Mean of the values; null without one."""
    listed = list(values)
    return float(np.mean(listed)) if listed else None
