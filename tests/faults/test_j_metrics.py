"""Section J: metrics. Records that contradict themselves cannot be made; figures are checked in tests/unit/analysis."""

from typing import get_args

import pytest
from pydantic import ValidationError

from specatlas.records.schema import Record, Sample, StepCounts, UnitStatus
from tests.faults.world import decode, plain_answers
from tests.support.drafters import Scripted, ScriptedTree
from tests.unit.analysis.factory import Unit, make_record, sample, steps

GOOD = {"emitted": (3, 1, 2), "accepted": (2, 0, 1), "drafted": (4, 2, 1), "depth": (4, 2, 1), "probes": (0, 0, 0)}


@pytest.mark.fault("J01", "J07", "J08", "B09", "L06")
@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"accepted": (5, 0, 1), "emitted": (6, 1, 2)}, "accepted 5 <= depth 4"),
        ({"depth": (4, 3, 1)}, "depth 3 <= drafted 2"),
        ({"emitted": (2, 1, 2)}, r"must be accepted 2 \+ 1"),
        ({"emitted": (3, 0, 2)}, "at least one token"),
        ({"emitted": (3, 1), "accepted": (2, 0)}, "one entry a step"),
        ({"accepted": (2, -1, 1)}, "greater than or equal to 0"),
        ({"emitted": (2, 1, 2), "accepted": (2, 0, 1)}, "must be accepted"),
    ],
)
def test_step_counts_that_contradict_each_other_are_refused(broken, says):
    StepCounts(**GOOD)
    with pytest.raises(ValidationError, match=says):
        StepCounts(**GOOD | broken)


@pytest.mark.fault("B09", "B10", "J08", "L06")
def test_ids_are_the_truth_that_counts_must_meet():
    """One id more than the steps emitted: the token from the prefill."""
    counts = steps([2, 0, 1])
    assert len(sample(counts).ids) == 1 + sum(counts.emitted)
    for ids in ((), tuple(range(sum(counts.emitted))), tuple(range(sum(counts.emitted) + 2))):
        with pytest.raises(ValidationError, match="ids, but the steps emitted"):
            sample(counts, ids=ids)
    with pytest.raises(ValidationError, match="baseline must not draft"):
        sample(counts, arm="baseline")


@pytest.fixture(scope="module")
def good():
    return make_record(Unit("lookup")).model_dump(mode="json")


@pytest.mark.fault("J13", "J16", "L01")
@pytest.mark.parametrize("field", ["samples", "exactness", "memory"])
def test_a_unit_that_is_ok_has_its_numbers(good, field):
    Record.model_validate(good)
    with pytest.raises(ValidationError, match="a unit that is ok has samples"):
        Record.model_validate({name: value for name, value in good.items() if name != field})


@pytest.mark.fault("L01", "J09")
@pytest.mark.parametrize("status", [one for one in UnitStatus if one is not UnitStatus.OK])
def test_a_unit_that_is_not_ok_has_a_reason_and_none(good, status):
    failed = good | {"status": status, "reason": "It broke."}
    with pytest.raises(ValidationError, match="has no numbers"):
        Record.model_validate(failed)
    empty = failed | {"samples": [], "exactness": None, "quality": None, "latency": [], "memory": None}
    Record.model_validate(empty)
    with pytest.raises(ValidationError, match="says why"):
        Record.model_validate(empty | {"reason": None})


@pytest.mark.fault("L02", "J13")
def test_both_arms_cover_the_same_prompts(good):
    """Key sets are compared, so a missing answer cannot be zipped away."""
    for samples, says in (
        (good["samples"][:-1], "must cover the same"),
        ([*good["samples"], good["samples"][0]], "appears twice"),
    ):
        with pytest.raises(ValidationError, match=says):
            Record.model_validate(good | {"samples": samples})


@pytest.mark.fault("J05")
def test_the_definition_of_acceptance_length_is_stored_with_the_value(good):
    assert good["acceptance_length_definition"] == "AL-1"
    with pytest.raises(ValidationError, match="AL-1"):
        Record.model_validate(good | {"acceptance_length_definition": "AL-2"})


@pytest.mark.fault("J02", "J16")
def test_records_keep_raw_steps_and_no_ready_made_ratio():
    """Every rate is computed from the steps after the clock has stopped."""
    names = {*Sample.model_fields, *StepCounts.model_fields, *Record.model_fields}
    assert not {name for name in names if any(word in name for word in ("rate", "ratio", "speedup", "per_second"))}
    assert {"emitted", "accepted", "drafted", "depth", "probes"} == set(StepCounts.model_fields)
    assert set(get_args(Sample.model_fields["arm"].annotation)) == {"method", "baseline"}


@pytest.mark.fault("J06", "J01", "J07")
@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_real_counts_obey_the_identities(shape):
    """Emitted = accepted + steps, but for a last step that was cut; a tree's nodes are not its depth."""
    half = lambda token, index: token if index % 2 else (token + 1) % 61  # noqa: E731
    drafter = Scripted(plain_answers(), 3, half) if shape == "chain" else ScriptedTree(plain_answers(), 3, 61)
    for row in decode(drafter):
        StepCounts(emitted=row.emitted, accepted=row.accepted, drafted=row.drafted, depth=row.depth, probes=row.probes)
        cut = row.emitted[-1] == row.accepted[-1]
        assert sum(row.emitted) == sum(row.accepted) + len(row.emitted) - cut
        if shape == "tree":
            assert (row.drafted[0], row.depth[0]) == (9, 4)
