"""One prompt, one method: what `specatlas run` shows. Nothing is recorded."""

from collections.abc import Sequence
from typing import Any, Literal, cast

from specatlas.catalog.card import Losslessness
from specatlas.catalog.discovery import load_catalog
from specatlas.config import Settings, read_config
from specatlas.drafting.methods import load_artifacts
from specatlas.measure.arms import interleave, schedule, warm_up
from specatlas.measure.bench import DTYPES, HyperParameters, Workload, baseline_arm, build_bench
from specatlas.measure.clock import choose_device
from specatlas.measure.divergence import run_divergences, teacher_forced_judge
from specatlas.measure.exactness import Gate, claim_of, fp32_gate, greedy_exactness, sampling_exactness
from specatlas.measure.failures import check_artifacts
from specatlas.measure.lock import machine_lock
from specatlas.measure.questions import ChatEncoder, Question
from specatlas.measure.seeds import order_seed
from specatlas.measure.timed import quiet_collector
from specatlas.measure.unit import load_encoder, lock_name, model_folder
from specatlas.project import Project
from specatlas.records.schema import Divergence, Sample

CYCLES = 4
"""Generations of each arm: as many for one as for the other, each first in half of them."""

DEFAULT_CONFIG = "workflow/config/default.yaml"
Dtype = Literal["float32", "bfloat16", "float16"]


def run_single(
    project: Project,
    *,
    slug: str,
    prompt: str,
    max_new_tokens: int,
    temperature: float,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    dtype: str = "bfloat16",
    target: str | None = None,
    budget: str | None = None,
    hyperparameters: HyperParameters | None = None,
    chat: bool = True,
) -> dict[str, Any]:
    """Answers one prompt with a method, beside plain decoding.

    Args:
        project: The checkout.
        slug: The method.
        prompt: What the user says; with `chat` false, text to go on with.
        max_new_tokens: Limit of the answer, in tokens.
        temperature: 0 for greedy.
        top_k, top_p: Truncation; null for none.
        seed: Of the sampling.
        dtype: Precision.
        target: Model id; the default configuration's if null.
        budget: Which artifact; the default configuration's if null.
        hyperparameters: Overrides of the card's.
        chat: Whether the target's template is applied.

    Returns:
        `method`, `target`, `ids`, `text`, `chunks` (tokens of each step), `acceptance_length`, `tokens_per_s` and
        `speedup` (decode windows only), `verdict` and `detail` of the exactness gate on this prompt. What is undefined,
        as the speed of an answer of one token, is null.
    """
    defaults = read_config(project.root / DEFAULT_CONFIG)
    target, budget = target or defaults.target, budget or defaults.budget.name
    settings = Settings(
        dtype=cast(Dtype, dtype),
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        max_new_tokens=max_new_tokens,
        cycles=CYCLES,
        seed=seed,
        gate_prompts=1,
        gate_tokens=max_new_tokens,
    )
    encoder, workload = _open(project, target, budget, slug, settings, hyperparameters or {}, defaults.device)
    tokens = encoder.encode_chat([prompt]) if chat else encoder.encode(prompt)
    with machine_lock(lock_name(workload.device)):
        answered = _answered(workload, Question("prompt", "run", 0, tuple(tokens)), encoder)
    return {"method": slug, "target": target} | answered


def _open(
    project: Project,
    target: str,
    budget: str,
    slug: str,
    settings: Settings,
    hyperparameters: HyperParameters,
    device: Literal["auto", "cpu", "cuda"],
) -> tuple[ChatEncoder, Workload]:
    folder, catalog = model_folder(project, target), load_catalog(project.methods)
    encoder, method = load_encoder(folder), catalog[slug]
    artifacts = load_artifacts(catalog, method, lambda maker: project.artifact(target, budget, maker))
    check_artifacts(artifacts)
    chosen = choose_device(device)
    return encoder, Workload(
        catalog, method, settings, folder, chosen, encoder.eos_ids, artifacts, dict(hyperparameters)
    )


def _answered(workload: Workload, question: Question, encoder: ChatEncoder) -> dict[str, Any]:
    samples, differences = _timed(workload, question)
    if workload.sampling.greedy:
        gate = Gate() if claim_of(workload) is Losslessness.LOSSY else fp32_gate(workload, [question])
        exactness = greedy_exactness(claim_of(workload), gate, CYCLES, differences)
    else:
        exactness = sampling_exactness(workload)
    shown = next(sample for sample in samples if sample.arm == "method" and sample.cycle == 0)
    return {
        "ids": list(shown.ids),
        "text": encoder.decode(shown.ids),
        "chunks": list(shown.steps.emitted),
        **figures(samples),
        "verdict": exactness.verdict.value,
        "detail": exactness.detail,
    }


def _timed(workload: Workload, question: Question) -> tuple[list[Sample], tuple[Divergence, ...]]:
    """The samples of both arms, and the judged differences at temperature 0; frees the target."""
    target = workload.load_target(DTYPES[workload.settings.dtype])
    plain = baseline_arm(workload, target, workload.sampling, workload.stop)
    bench = build_bench(workload, plain, [question])
    warm_up(bench.arms, [question], 1)
    slots = schedule(1, CYCLES, order_seed(workload.settings.seed))
    with quiet_collector():
        samples = [sample for done in interleave(bench.arms, [question], slots, 1) for sample in done]
    if not workload.sampling.greedy:
        return samples, ()
    judge = None if claim_of(workload) is Losslessness.LOSSY else teacher_forced_judge(target)
    return samples, run_divergences(samples, [question], judge)


def figures(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Acceptance length, tokens/s and speedup from the decode windows; null where an arm has no window."""
    method = [sample for sample in samples if sample.arm == "method"]
    plain = [sample for sample in samples if sample.arm == "baseline"]
    steps = sum(len(sample.steps.emitted) for sample in method)
    mine, theirs = _ns_per_token(method), _ns_per_token(plain)
    return {
        "acceptance_length": _emitted(method) / steps if steps else None,
        "tokens_per_s": 1e9 / mine if mine else None,
        "speedup": theirs / mine if mine and theirs else None,
    }


def _ns_per_token(samples: Sequence[Sample]) -> float | None:
    """Decode time per token; null without a token after the first (known fault L05)."""
    tokens = _emitted(samples)
    return sum(sample.decode_ns for sample in samples) / tokens if tokens else None


def _emitted(samples: Sequence[Sample]) -> int:
    return sum(len(sample.ids) - 1 for sample in samples)
