"""What drafting and verifying cost, counted in sublayers; the pieces are measured once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

import torch

from specatlas.drafting.target_head import Head
from specatlas.engine.transformer import ALL_LAYERS, LayerPlan, Transformer

CONTEXT = 128
REPEATS = 9


@dataclass(frozen=True)
class Costs:
    """Times as shares of a plain target pass.

    Attributes:
        attention, feed_forward: One sublayer at width 1.
        head: Norm, draft head and what a pass costs beside its layers.
        verify: Target passes of widths 1, 2, …; the first is 1.
    """

    attention: float
    feed_forward: float
    head: float
    verify: tuple[float, ...]

    def draft(self, kept_attention: int, kept_feed_forward: int) -> float:
        """One draft pass with so many sublayers left."""
        return kept_attention * self.attention + kept_feed_forward * self.feed_forward + self.head

    def speedup(self, rounds: Sequence[tuple[int, int]], draft: float) -> float:
        """Plain decoding's time ÷ that of these (drafted, accepted) rounds at `draft` a drafted token."""
        tokens = sum(accepted + 1 for _, accepted in rounds)
        return tokens / sum(drafted * draft + self.verify[drafted] for drafted, _ in rounds)

    def expected_speedup(self, alpha: float, draft: float) -> float:
        """With the best draft length of at least 1, each draft token right with probability `alpha` (2211.17192)."""
        best, tokens = 0.0, 1.0
        for length in range(1, len(self.verify)):
            tokens += alpha**length
            best = max(best, tokens / (length * draft + self.verify[length]))
        return best


@torch.inference_mode()
def measure_costs(target: Transformer, head: Head, longest: int) -> Costs:
    """Times passes over a made-up context and compares them; the shortest of several runs counts."""
    cache = target.new_cache(1, CONTEXT + longest + 1)
    cache.advance([CONTEXT])
    every = frozenset(range(target.architecture.layers))

    def run(width: int, plan: LayerPlan, logits: Callable[[torch.Tensor], torch.Tensor] | None) -> float:
        tokens = torch.zeros((1, width), dtype=torch.long, device=target.device)
        times = []
        for _ in range(REPEATS):
            begun = perf_counter_ns()
            hidden = target.norm(target(tokens, cache, plan=plan).hidden)
            # Reading a number back waits for the device, whichever it is.
            (hidden if logits is None else logits(hidden))[0, 0, 0].item()
            times.append(perf_counter_ns() - begun)
        return float(min(times))

    nothing = LayerPlan(skipped_attention=every, skipped_feed_forward=every)
    whole, empty = run(1, ALL_LAYERS, None), run(1, nothing, None)
    attention = max(whole - run(1, LayerPlan(skipped_attention=every), None), 1.0)
    feed_forward = max(whole - run(1, LayerPlan(skipped_feed_forward=every), None), 1.0)
    # Scaled so that the pieces add up to the whole, which is the least noisy of these times.
    scale = max(whole - empty, 1.0) / (attention + feed_forward) / target.architecture.layers
    # After a whole pass, as when drafting: alone, a small head would stay in the processor's cache.
    drafting = empty + max(run(1, ALL_LAYERS, head.logits) - whole, 0.0)
    verify = [run(width, ALL_LAYERS, target.head) for width in range(1, longest + 2)]
    # A wider pass never takes less time: where it seemed to, the narrower one was disturbed.
    verify = [min(verify[width:]) for width in range(len(verify))]
    shares = [time / verify[0] for time in (attention * scale, feed_forward * scale, drafting)]
    return Costs(*map(_share, shares), tuple(_share(time / verify[0]) for time in verify))


def _share(value: float) -> float:
    """Three digits: more would be noise."""
    return float(f"{value:.3g}")
