from dataclasses import replace

import pytest

from specatlas.analysis.evidence import CurrentHashes, Evidence
from specatlas.analysis.flags import CHECKS, raise_flags
from specatlas.analysis.rows import make_row
from specatlas.analysis.statistics import prompt_times
from specatlas.records.schema import Divergence, Exactness, Quality, Record, UnitStatus, Verdict

from .factory import Unit, card, environment, failed_record, hashes, make_samples, plain, provenance, sample


def evidence(record: Record, **changes) -> Evidence:
    slug = record.unit.method
    known = changes.pop("card", card(slug))
    times = prompt_times(record.samples)
    item = Evidence(
        record=record,
        row=make_row("r.json", record, known, times),
        card=known,
        hashes=hashes(slug),
        times=times,
        oracle=None,
        reference=record,
    )
    return replace(item, **changes)


def codes(record: Record, **changes) -> set[str]:
    return {flag.code for flag in raise_flags(evidence(record, **changes))}


def flag(record: Record, code: str, **changes):
    return CHECKS[code](evidence(record, **changes))


def with_samples(record: Record, **changes) -> Record:
    """The record with every sample changed; a callable is asked for each sample's value."""
    samples = tuple(
        s.model_copy(update={key: value(s) if callable(value) else value for key, value in changes.items()})
        for s in record.samples
    )
    return record.model_copy(update={"samples": samples})


def test_a_good_row_has_no_flag():
    assert codes(Unit().record()) == set()


def test_codes_are_function_names_and_every_check_says_what_it_is_for():
    assert all(check.__name__ == code and check.__doc__ for code, check in CHECKS.items())


def test_units_without_numbers_raise_only_what_needs_none():
    record = failed_record()
    assert codes(record) == set()
    assert codes(record, hashes=CurrentHashes("b" * 64, {})) == {"stale"}
    assert codes(record, card=None) == {"withdrawn"}


def test_wrong_output():
    found = flag(Unit(verdict=Verdict.WRONG).record(), "wrong_output")
    assert (found.severity, "made up" in found.message) == ("error", True)


@pytest.mark.parametrize(
    ("current", "what"),
    [
        (CurrentHashes("b" * 64, {}), "the harness"),
        (CurrentHashes(None, {"lookup": "f" * 64}), "the method"),
        (CurrentHashes("b" * 64, {"lookup": "f" * 64}), "the method and the harness"),
    ],
)
def test_stale(current, what):
    assert f"before {what} changed" in flag(Unit().record(), "stale", hashes=current).message
    assert flag(Unit().record(), "stale", hashes=CurrentHashes(None, {})) is None


def test_other_workload():
    record, reference = Unit().record(), Unit(method="other").record()
    assert flag(record, "other_workload", reference=reference) is None
    longer = Unit().record(settings={"temperature": 0.0, "dtype": "bfloat16", "max_new_tokens": 64})
    assert "max_new_tokens (64 instead of 128)" in flag(longer, "other_workload", reference=reference).message
    moved = Unit().record(provenance=provenance("lookup", prompts_sha256="0" * 64, model_sha256="1" * 64))
    assert "the prompts, the target's weights" in flag(moved, "other_workload", reference=reference).message
    cycles = Unit().record(settings={**reference.settings, "cycles": 9})
    assert flag(cycles, "other_workload", reference=reference) is None


def test_other_platform():
    record = Unit().record(environment=environment(packages={"torch": "2.14.0"}))
    found = flag(record, "other_platform", reference=Unit().record())
    assert found.message == "Measured with torch 2.14.0 instead of 2.13.0."
    assert flag(record, "other_platform") is None


def test_speedup_above_acceptance_length():
    """Acceptance length 3 in the recipe; a speedup of 3.5 cannot be, one of 2.9 can."""
    assert flag(Unit(speedup=3.5, spread=0.01).record(), "speedup_above_acceptance_length").severity == "error"
    assert flag(Unit(speedup=2.9, spread=0.01).record(), "speedup_above_acceptance_length") is None


def test_a_chance_excess_over_the_acceptance_length_is_no_flag():
    assert flag(Unit(speedup=3.1, spread=0.4).record(), "speedup_above_acceptance_length") is None
    alone = Unit(speedup=3.5, spread=0.0, suite=(("coding", 1),)).record()
    assert flag(alone, "speedup_above_acceptance_length") is not None


@pytest.mark.parametrize("of", ["all", "cycles", "per token"])
def test_zero_variance(of):
    values = {
        "all": lambda s: 5_000_000,
        "cycles": lambda s: 5_000_000 + sum(s.prompt_id.encode()),
        "per token": lambda s: 9_000_000 * (len(s.ids) - 1),
    }
    assert flag(with_samples(Unit().record(), decode_ns=values[of]), "zero_variance").severity == "error"


def test_few_equal_times_are_no_flag():
    record = with_samples(Unit(suite=(("coding", 1),), cycles=2).record(), decode_ns=5)
    assert flag(record, "zero_variance") is None


def test_twin_not_one():
    twin = Unit(method="autoregressive_twin", accepted=(0,) * 15, depth=0, spread=0.01)
    assert flag(replace(twin, speedup=1.0).record(), "twin_not_one") is None
    assert flag(replace(twin, speedup=1.05).record(), "twin_not_one").severity == "warning"
    assert flag(Unit(speedup=1.05).record(), "twin_not_one") is None


def test_above_oracle():
    oracle = prompt_times(make_samples(Unit(method="oracle", speedup=2.0, seed=3)))
    assert flag(Unit(speedup=2.6).record(), "above_oracle", oracle=oracle) is not None
    assert flag(Unit(speedup=2.02).record(), "above_oracle", oracle=oracle) is None
    assert flag(Unit(speedup=1.2).record(), "above_oracle", oracle=oracle) is None
    assert flag(Unit(speedup=2.6).record(), "above_oracle") is None
    assert flag(Unit(method="oracle", speedup=2.6).record(), "above_oracle", oracle=oracle) is None


def test_no_acceptance():
    dead = Unit(accepted=(0,) * 15, speedup=0.9)
    assert "None of the 1440 draft tokens" in flag(dead.record(), "no_acceptance").message
    assert flag(Unit().record(), "no_acceptance") is None
    assert flag(replace(dead, depth=0).record(), "no_acceptance") is None
    assert flag(replace(dead, method="random_draft").record(), "no_acceptance") is None
    assert flag(replace(dead, method="oracle").record(), "no_acceptance") is not None


def test_never_drafted():
    silent = Unit(accepted=(0,) * 15, depth=0, speedup=1.0).record()
    assert flag(silent, "never_drafted") is not None
    assert flag(silent, "never_drafted", card=card("lookup", draft_shape="none")) is None
    assert flag(Unit().record(), "never_drafted") is None


def diverging(positions: dict[str, int]) -> Record:
    """Twelve answers of 64 tokens, of which some diverge in both cycles."""
    record = Unit(accepted=(3,) * 16).record()
    found = [
        Divergence(prompt_id=prompt, turn=0, cycle=cycle, position=p, expected=1, got=2, gap_ulp=0.5, near_tie=True)
        for prompt, p in positions.items()
        for cycle in (0, 1)
    ]
    exactness = Exactness(verdict=Verdict.NEAR_TIE, detail="ties", run_generations=24, run_divergences=tuple(found))
    return record.model_copy(update={"exactness": exactness})


def test_divergences_clustered():
    """Known fault A09: one position over prompts."""
    same = diverging({f"coding_{i}": 30 for i in range(5)} | {"writing_0": 12})
    assert "5 of 6 diverging answers diverge at token 30" in flag(same, "divergences_clustered").message


def test_scattered_or_few_divergences_are_no_flag():
    scattered = diverging({f"coding_{i}": 5 + 9 * i for i in range(6)} | {"writing_0": 14})
    assert flag(scattered, "divergences_clustered") is None
    assert flag(diverging({"coding_0": 30, "coding_1": 30}), "divergences_clustered") is None
    assert flag(Unit().record(), "divergences_clustered") is None


def test_early_divergences_of_a_frequent_kind_are_no_flag():
    """Where nearly every answer diverges within a few tokens, piles are to be expected."""
    early = {f"{category}_{i}": 1 + i % 3 for category in ("coding", "writing") for i in range(6)}
    assert flag(diverging(early), "divergences_clustered") is None


def test_repetition_above_baseline():
    quality = Quality(
        agreement=1, log_likelihood=-1.0, baseline_log_likelihood=-1.0, repetition=0.4, baseline_repetition=0.3
    )
    assert flag(Unit().record(quality=quality), "repetition_above_baseline") is not None
    close = quality.model_copy(update={"repetition": 0.34})
    assert flag(Unit().record(quality=close), "repetition_above_baseline") is None


def test_repetition_is_counted_from_ids_where_no_quality_was_measured():
    record = with_samples(Unit().record(), ids=lambda s: (7,) * len(s.ids) if s.arm == "method" else s.ids)
    assert flag(record, "repetition_above_baseline") is not None


def test_foreign_load():
    """Two cores: 5 % are 0.1 cores."""
    assert flag(with_samples(Unit().record(), load=0.2), "foreign_load") is not None
    assert flag(with_samples(Unit().record(), load=0.05), "foreign_load") is None
    one_arm = with_samples(Unit().record(), load=lambda s: 0.15 if s.arm == "baseline" else 0.0)
    assert flag(one_arm, "foreign_load") is not None


def test_foreign_load_of_the_unit_where_samples_have_none():
    busy = Unit().record(environment=environment(foreign_load=0.5))
    assert flag(with_samples(busy, load=None), "foreign_load") is not None
    assert flag(with_samples(Unit().record(), load=None), "foreign_load") is None


def test_incomplete():
    assert flag(Unit().record(n_prompts_in_set=20), "incomplete").message == "Only 12 of 20 prompts were measured."
    assert flag(Unit().record(), "incomplete") is None


def test_a_prompt_with_an_empty_answer_is_not_missing():
    record = Unit().record()
    empty = [sample(plain(0), prompt_id="empty", arm=arm, order=99) for arm in ("method", "baseline")]
    record = record.model_copy(update={"samples": (*record.samples, *empty), "n_prompts_in_set": 13})
    assert flag(record, "incomplete") is None


def test_baseline_drift():
    assert "+" in flag(Unit(cycles=3, drift=0.1).record(), "baseline_drift").message
    assert flag(Unit(cycles=3, drift=0.01).record(), "baseline_drift") is None


def test_uncommitted():
    dirty = Unit().record(provenance=provenance("lookup", dirty=True))
    assert flag(dirty, "uncommitted").severity == "info"
    assert flag(failed_record(status=UnitStatus.REFUSED), "uncommitted") is None
