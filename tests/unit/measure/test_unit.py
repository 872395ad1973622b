"""A whole unit on a tiny model: the record is valid, repeatable, and honest about every way to fail."""

import dataclasses

import pytest

from specatlas.drafting.setup import Artifact
from specatlas.engine.verification.greedy import Greedy
from specatlas.engine.verification.rule import Verdict as RuleVerdict
from specatlas.errors import CatalogError, ConfigError, ModelSourceError
from specatlas.measure import unit as unit_module
from specatlas.measure.unit import measure_unit
from specatlas.records.schema import UnitStatus, Verdict
from specatlas.records.store import read_record
from tests.unit.measure.world import tiny_config


def measured(project, slug, tmp_path, **settings):
    own = dataclasses.replace(project, results=tmp_path / "results")
    (tmp_path / "results").mkdir(exist_ok=True)
    if not (tmp_path / "results" / "models").exists():
        (tmp_path / "results" / "models").symlink_to(project.models)
    return read_record(measure_unit(own, tiny_config(**settings), "greedy", slug))


def arm(record, name):
    return [sample for sample in record.samples if sample.arm == name]


@pytest.fixture(scope="module")
def lookup(project, tmp_path_factory):
    return measured(project, "prompt_lookup", tmp_path_factory.mktemp("lookup"))


def test_record_is_whole(lookup):
    assert lookup.status is UnitStatus.OK
    assert lookup.exactness.verdict is Verdict.EXACT
    assert lookup.exactness.fp32_prompts == 2
    assert lookup.n_prompts_in_set == len({sample.prompt_id for sample in lookup.samples}) == 4
    assert len(arm(lookup, "method")) == len(arm(lookup, "baseline")) == lookup.exactness.run_generations
    assert lookup.warmups == 4
    assert lookup.memory.peak_bytes > 0
    assert lookup.quality.agreement == 1.0
    assert lookup.quality.log_likelihood == lookup.quality.baseline_log_likelihood < 0
    assert [point.width for point in lookup.latency][:2] == [1, 2]
    assert lookup.draft_pass_ns is None
    assert lookup.hyperparameters["draft_length"] == 10
    assert lookup.verification_rule == "greedy"
    assert lookup.settings["eos_ids"] == [60]
    assert "hyperparameters" not in lookup.settings
    assert lookup.environment.machine == lookup.unit.machine == "testbed"
    assert lookup.provenance.commit is None


def test_counts_come_from_ids(lookup):
    for sample in lookup.samples:
        assert len(sample.ids) == 1 + sum(sample.steps.emitted) <= 12
        assert sample.phases is not None
        assert 0 < sum(vars(sample.phases).values()) <= sample.decode_ns


def test_arms_see_the_same_prompts_and_seeds(lookup):
    key = lambda sample: (sample.prompt_id, sample.turn, sample.cycle, sample.seed, sample.prompt_tokens)  # noqa: E731
    assert sorted(map(key, arm(lookup, "method"))) == sorted(map(key, arm(lookup, "baseline")))


def test_arms_are_interleaved(lookup):
    ordered = sorted(lookup.samples, key=lambda sample: sample.order)
    assert [sample.order for sample in ordered] == list(range(len(ordered)))
    for first, second in zip(ordered[::2], ordered[1::2], strict=True):
        assert {first.arm, second.arm} == {"method", "baseline"}
        assert (first.prompt_id, first.turn, first.cycle) == (second.prompt_id, second.turn, second.cycle)


def test_same_seed_same_output(project, lookup, tmp_path):
    again = measured(project, "prompt_lookup", tmp_path)
    said = lambda record: [(s.prompt_id, s.turn, s.cycle, s.arm, s.order, s.ids, s.steps) for s in record.samples]  # noqa: E731
    assert said(again) == said(lookup)
    assert again.exactness == lookup.exactness
    assert again.provenance.order_seed == lookup.provenance.order_seed
    other = measured(project, "prompt_lookup", tmp_path, seed=1)
    assert other.provenance.order_seed != lookup.provenance.order_seed
    assert {s.seed for s in other.samples}.isdisjoint({s.seed for s in lookup.samples})


@pytest.mark.parametrize(("dtype", "batch"), [("float32", 1), ("bfloat16", 3)])
def test_every_control_is_lossless(project, tmp_path, dtype, batch):
    for slug in ("autoregressive", "autoregressive_twin", "oracle", "random_draft"):
        record = measured(project, slug, tmp_path, dtype=dtype, batch=batch, cycles=1)
        assert record.status is UnitStatus.OK, record.reason
        assert record.exactness.verdict in {Verdict.EXACT, Verdict.NEAR_TIE}, record.exactness.detail
        if slug == "oracle" and dtype == "float32":
            steps = [step for sample in arm(record, "method") for step in sample.steps.emitted[:-1]]
            assert set(steps) <= {9}


def test_rows_of_a_batch_share_its_clock(project, tmp_path):
    record = measured(project, "prompt_lookup", tmp_path, batch=4, cycles=1)
    by_order = {}
    for sample in record.samples:
        by_order.setdefault(sample.order, []).append(sample)
    assert max(map(len, by_order.values())) == 4
    for rows in by_order.values():
        assert len({(row.prefill_ns, row.decode_ns) for row in rows}) == 1


@pytest.mark.parametrize(
    ("slug", "status", "code", "reason"),
    [
        ("raises", UnitStatus.FAILED, "ZeroDivisionError", "ZeroDivisionError: draft of"),
        ("refuses", UnitStatus.REFUSED, "UnsupportedArchitecture", "No such layers here."),
        ("hungry", UnitStatus.OUT_OF_MEMORY, "MemoryError", "MemoryError: gone"),
    ],
)
def test_a_method_that_ends_badly_is_a_record_without_numbers(project, tmp_path, slug, status, code, reason):
    record = measured(project, slug, tmp_path)
    assert (record.status, record.error_code, record.reason) == (status, code, reason)
    assert not record.samples
    assert record.exactness is None
    assert record.memory is None


def test_memory_that_torch_lacks(project, tmp_path, monkeypatch):
    def starved(*args, **kwargs):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")

    monkeypatch.setattr(unit_module, "timed_run", starved)
    assert measured(project, "prompt_lookup", tmp_path).status is UnitStatus.OUT_OF_MEMORY


def test_too_long_for_the_context_is_refused(project, tmp_path):
    record = measured(project, "prompt_lookup", tmp_path, max_new_tokens=255)
    assert (record.status, record.error_code) == (UnitStatus.REFUSED, "ContextOverflow")


def test_temperature_that_the_method_cannot_do_is_refused(project, tmp_path):
    record = measured(project, "oracle", tmp_path, temperature=1.0)
    assert (record.status, record.error_code) == (UnitStatus.REFUSED, "UnsupportedSampling")


@pytest.mark.parametrize(("p_value", "verdict"), [(0.3, Verdict.DISTRIBUTION), (1e-9, Verdict.WRONG)])
def test_sampling_is_judged_by_its_distribution(project, tmp_path, monkeypatch, p_value, verdict):
    seen = []
    monkeypatch.setattr(
        "specatlas.measure.conformance.distribution_p_value", lambda *arguments: seen.append(arguments) or p_value
    )
    record = measured(project, "random_draft", tmp_path, temperature=0.7, cycles=1)
    assert (record.status, record.reason) == (UnitStatus.OK, None)
    assert record.exactness.verdict is verdict
    assert record.exactness.distribution_p_value == p_value
    assert not record.exactness.run_divergences
    assert record.verification_rule == "speculative_sampling"
    assert (seen[0][0].card.slug, seen[0][2].temperature) == ("random_draft", 0.7)


def test_plain_sampling_gives_both_arms_the_same(project, tmp_path, monkeypatch):
    monkeypatch.setattr("specatlas.measure.conformance.distribution_p_value", lambda *_: 1.0)
    record = measured(project, "autoregressive", tmp_path, temperature=1.0)
    said = lambda name: {(s.prompt_id, s.turn, s.cycle): s.ids for s in arm(record, name)}  # noqa: E731
    assert said("method") == said("baseline")
    prompts = {sample.prompt_id for sample in record.samples}
    assert any(said("method")[one, 0, 0] != said("method")[one, 0, 1] for one in prompts)


def test_an_artifact_that_could_not_be_made_is_the_reason(project, tmp_path, monkeypatch):
    failure = {"status": "failed", "error_code": "ValueError", "reason": "the loss is NaN"}
    monkeypatch.setattr(unit_module, "load_artifacts", lambda *_: {"eagle": Artifact({}, failure)})
    record = measured(project, "prompt_lookup", tmp_path)
    assert (record.status, record.error_code) == (UnitStatus.FAILED, "ValueError")
    assert "the loss is NaN" in record.reason
    failure["status"] = "refused"
    assert measured(project, "prompt_lookup", tmp_path).status is UnitStatus.REFUSED


def test_fp32_that_does_not_fit_skips_the_gate(project, tmp_path, monkeypatch):
    def starved(*_):
        raise MemoryError

    monkeypatch.setattr("specatlas.measure.exactness._compared_in_fp32", starved)
    record = measured(project, "prompt_lookup", tmp_path)
    assert record.status is UnitStatus.OK
    assert record.exactness.verdict is Verdict.NOT_TESTED
    assert "memory" in record.exactness.detail


class AcceptsEverything(Greedy):
    """What a broken harness would do."""

    def __call__(self, draft, logits, settings, uniforms):
        honest = super().__call__(draft, logits, settings, uniforms)
        return RuleVerdict([list(range(count)) for count in draft.counts], honest.bonus)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_wrong_output_is_called_wrong(project, tmp_path, monkeypatch, dtype):
    monkeypatch.setattr("specatlas.drafting.methods.rule_for", lambda *_: AcceptsEverything())
    record = measured(project, "next_token", tmp_path, dtype=dtype)
    assert record.status is UnitStatus.OK
    assert record.exactness.verdict is Verdict.WRONG
    assert record.exactness.fp32_divergences
    assert not any(one.near_tie for one in record.exactness.run_divergences)
    assert record.quality.agreement < 1


def test_without_a_gate_nothing_is_claimed(project, tmp_path):
    record = measured(project, "prompt_lookup", tmp_path, gate_prompts=0)
    assert record.exactness.verdict is Verdict.NOT_TESTED


def test_methods_that_carry_over_are_measured_cold(project, tmp_path):
    record = measured(project, "remembers", tmp_path)
    assert record.status is UnitStatus.OK, record.reason


def test_second_turns_are_asked_after_plain_decoding(project, tmp_path, monkeypatch):
    monkeypatch.setattr("specatlas.drafting.methods.rule_for", lambda *_: AcceptsEverything())
    record = measured(project, "next_token", tmp_path, cycles=1)
    honest = measured(project, "autoregressive", tmp_path, cycles=1)
    turns = lambda one: {s.prompt_id: s.ids for s in arm(one, "baseline") if s.turn == 1}  # noqa: E731
    assert turns(record) == turns(honest) != {}


def test_infrastructure_errors_are_raised(project, tmp_path, monkeypatch):
    empty = dataclasses.replace(project, results=tmp_path)
    with pytest.raises(ModelSourceError, match="specatlas fetch tiny"):
        measure_unit(empty, tiny_config(), "greedy", "prompt_lookup")
    with pytest.raises(ConfigError, match="known: greedy"):
        measure_unit(project, tiny_config(), "sampled", "prompt_lookup")
    with pytest.raises(CatalogError, match="max_ngram"):
        measure_unit(
            project, tiny_config(hyperparameters={"prompt_lookup": {"max_ngram": 99}}), "greedy", "prompt_lookup"
        )


def test_interrupted_writing_leaves_nothing(project, tmp_path, monkeypatch):
    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OSError, match="No space"):
        measured(project, "prompt_lookup", tmp_path, cycles=1)
    assert not [path for path in (tmp_path / "results" / "records").rglob("*") if path.is_file()]


def test_phases_have_a_pass_of_their_own_where_splitting_disturbs(project, tmp_path, monkeypatch):
    """What a GPU run does, played on a CPU: timed samples unsplit, draft passes timed apart."""
    from specatlas.measure import timed

    asked = []
    monkeypatch.setattr(timed.Arm, "__init__", _never_splitting(timed.Arm.__init__, asked))
    record = measured(project, "prompt_lookup", tmp_path, cycles=1)
    assert record.status is UnitStatus.OK, record.reason
    assert all(sample.phases is None for sample in record.samples)
    assert True in asked


def _never_splitting(original, asked):
    def init(self, *arguments, time_phases=None, **options):
        asked.append(time_phases)
        original(self, *arguments, time_phases=bool(time_phases), **options)

    return init
