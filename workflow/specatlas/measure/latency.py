"""What a target pass costs at each width, and what a draft pass costs."""

from collections.abc import Iterable, Sequence
from statistics import median
from time import perf_counter_ns

import torch

from specatlas.engine.cache import KVCache
from specatlas.engine.transformer import Transformer
from specatlas.measure.clock import synchronizer
from specatlas.records.schema import Sample, StepLatency

REPETITIONS = 15
WARM_UPS = 2


def widths_needed(samples: Iterable[Sample]) -> list[int]:
    """1, 2, 4, … up to the first power of two that holds the widest step: root, draft nodes and probes."""
    widest = max(
        (
            1 + drafted + probes
            for s in samples
            for drafted, probes in zip(s.steps.drafted, s.steps.probes, strict=True)
        ),
        default=1,
    )
    widths = [1]
    while widths[-1] < widest:
        widths.append(widths[-1] * 2)
    return widths


def typical_context(samples: Sequence[Sample]) -> int:
    """Median context of a step: the prompt and half of the answer, in tokens."""
    return int(median(sample.prompt_tokens + len(sample.ids) // 2 for sample in samples))


def step_latencies(
    target: Transformer, widths: Sequence[int], context: int, batch: int, repetitions: int = REPETITIONS
) -> tuple[StepLatency, ...]:
    """Median time of a target pass by width, as verification makes it: all layers, and logits of every position.

    Widths take turns, so that slow changes of the machine reach all of them alike.

    Args:
        target: The target in the run's precision.
        widths: New positions a row.
        context: Committed positions a row.
        batch: Rows.
        repetitions: Timed passes a width.
    """
    room = max(target.architecture.context - max(widths), 0)
    cache = _filled_cache(target, min(context, room), batch)
    tokens = torch.zeros((batch, max(widths)), dtype=torch.long, device=target.device)
    times: dict[int, list[int]] = {width: [] for width in widths}
    for round_ in range(WARM_UPS + repetitions):
        for width in widths:
            elapsed = _one_pass(target, cache, tokens[:, :width])
            times[width] += [elapsed] if round_ >= WARM_UPS else []
    return tuple(
        StepLatency(width=width, context=cache.lengths[0], nanoseconds=max(1, int(median(times[width]))))
        for width in widths
    )


def _filled_cache(target: Transformer, context: int, batch: int) -> KVCache:
    """A cache of zeros that counts as `context` positions; what is in it changes no time."""
    cache = target.new_cache(batch, context + 1)
    cache.advance([context] * batch)
    return cache


@torch.inference_mode()
def _one_pass(target: Transformer, cache: KVCache, tokens: torch.Tensor) -> int:
    wait = synchronizer(target.device)
    wait()
    started = perf_counter_ns()
    target.logits(target(tokens, cache).hidden)
    wait()
    return perf_counter_ns() - started


def draft_pass_ns(samples: Iterable[Sample]) -> float | None:
    """Time in the draft phase ÷ draft passes; null where there are none, or phases were not measured."""
    split = [(s.phases.draft, s.draft_passes) for s in samples if s.phases is not None and s.arm == "method"]
    passes = sum(count for _, count in split)
    return sum(time for time, _ in split) / passes if passes else None
