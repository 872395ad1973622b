"""The one decoding loop: prefill, then draft, verify, accept, observe until every row has ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns

import torch
from torch import Tensor

from specatlas.engine.cache import KVCache
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter, Step
from specatlas.engine.layout import lay_out
from specatlas.engine.sampling import (
    VERIFICATION_STREAM,
    RowRandom,
    SamplingSettings,
    choose,
    probabilities,
    refuse_nan,
)
from specatlas.engine.stopping import Finish, StopConditions
from specatlas.engine.transformer import NORMED, Transformer, pad_rows
from specatlas.engine.verification import VerificationRule
from specatlas.errors import ContextOverflow, UnsupportedBatch

PREFILL_CHUNK = 512
"""Prompt tokens a pass; every arm prefills alike, so the first token never depends on the method."""


@dataclass
class Phases:
    """Nanoseconds spent in each phase, summed over steps."""

    draft: int = 0
    verify: int = 0
    accept: int = 0
    observe: int = 0


@dataclass
class Generation:
    """One row's answer and how it came about; the lists have one entry a verification step (see `StepCounts`)."""

    ids: list[int] = field(default_factory=list)
    finish: Finish = "length"
    emitted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    drafted: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    probes: list[int] = field(default_factory=list)


@dataclass
class Batch:
    """The answers of one call, and its times.

    Attributes:
        prefill_ns: From the call to the first token of every row.
        decode_ns: From there to the last token, the drafter's start included.
    """

    generations: list[Generation]
    prefill_ns: int
    decode_ns: int
    draft_passes: int
    phases: Phases


class Decoder:
    """Runs one target with one drafter and one verification rule.

    Args:
        target: The model whose output counts.
        drafter: The method.
        rule: Decides what stands.
        settings: Sampling settings of target and drafter.
        synchronize: Waits for the device; called at both ends of a window, and around phases if `time_phases`.
        time_phases: Split the decoding time; on a CPU this costs nothing.
        check: Verify the drafter's side of the contract at every step.
    """

    def __init__(
        self,
        target: Transformer,
        drafter: Drafter,
        rule: VerificationRule,
        settings: SamplingSettings,
        *,
        synchronize: Callable[[], None] = lambda: None,
        time_phases: bool = True,
        check: bool = False,
    ) -> None:
        self.target, self.drafter, self.rule, self.settings = target, drafter, rule, settings
        self._synchronize, self._time_phases, self._check = synchronize, time_phases, check
        self._cache: KVCache | None = None

    @torch.inference_mode()
    def generate(self, prompts: Sequence[Sequence[int]], stop: StopConditions, seeds: Sequence[int]) -> Batch:
        """Decodes a batch of prompts.

        Args:
            prompts: Token ids; each at least one.
            stop: When answers end.
            seeds: One a prompt.

        Raises:
            ContextOverflow: Prompt and answer exceed the target's context.
            UnsupportedBatch: Several prompts for a drafter that takes one.
            NumericalError: The logits contain NaN.
        """
        self._refuse(prompts, stop)
        self._synchronize()
        started = perf_counter_ns()
        random = RowRandom(seeds, self.target.device)
        cache, logits, taps = self._prefill(prompts)
        first = self._first_tokens(logits, random)
        self._synchronize()
        prefilled = perf_counter_ns()
        run = _Run(self, prompts, stop, cache, random, taps)
        run.emit_first(first)
        run.decode()
        self._synchronize()
        ended = perf_counter_ns()
        return Batch(run.generations, prefilled - started, ended - prefilled, self.drafter.passes, run.phases)

    def _refuse(self, prompts: Sequence[Sequence[int]], stop: StopConditions) -> None:
        if not prompts or any(len(prompt) == 0 for prompt in prompts):
            raise ValueError("every prompt needs at least one token.")
        if len(prompts) > 1 and not self.drafter.batched:
            raise UnsupportedBatch(f"{type(self.drafter).__name__} decodes one prompt at a time; set batch to 1.")
        longest, context = max(map(len, prompts)), self.target.architecture.context
        if longest + stop.max_new_tokens > context:
            raise ContextOverflow(
                f"A prompt of {longest} tokens and an answer of {stop.max_new_tokens} exceed the target's context of "
                f"{context}; shorten one of them."
            )

    def _prefill(self, prompts: Sequence[Sequence[int]]) -> tuple[KVCache, Tensor, dict[int, Tensor]]:
        """Fills the cache; returns it with each row's last logits and the drafter's taps over the prompt."""
        longest = max(map(len, prompts))
        cache = self._fresh_cache(len(prompts), longest)
        tokens = pad_rows(prompts, self.target.device)
        wanted = {*self.drafter.taps}
        last = torch.tensor([len(prompt) - 1 for prompt in prompts], device=self.target.device)
        final: Tensor | None = None
        taps: dict[int, list[Tensor]] = {tap: [] for tap in wanted}
        for start in range(0, longest, PREFILL_CHUNK):
            part = tokens[:, start : start + PREFILL_CHUNK]
            done = self.target(part, cache, taps=wanted)
            cache.advance([part.shape[1]] * len(prompts))
            for tap in wanted:
                taps[tap].append(done.taps[tap])
            inside = (last - start).clamp(0, part.shape[1] - 1)
            ends = done.hidden[torch.arange(len(prompts), device=last.device), inside]
            final = ends if final is None else torch.where((last >= start).unsqueeze(1), ends, final)
        assert final is not None
        cache.rewind([len(prompt) for prompt in prompts])
        return cache, self.target.logits(final), {tap: torch.cat(parts, 1) for tap, parts in taps.items()}

    def _fresh_cache(self, batch: int, longest: int) -> KVCache:
        if self._cache is None or self._cache.batch != batch:
            self._cache = self.target.new_cache(batch, longest + 128)
        self._cache.reset()
        return self._cache

    def _first_tokens(self, logits: Tensor, random: RowRandom) -> list[int]:
        """The token from the prefill, chosen as plain decoding chooses any token."""
        p = probabilities(logits, self.settings)
        refuse_nan(bool(torch.isnan(p[:, 0]).any()))
        if self.settings.greedy:
            return [int(token) for token in p.max(-1).indices.tolist()]
        uniforms = random.uniforms([-1] * len(p), 1, VERIFICATION_STREAM)
        return [int(token) for token in choose(p, uniforms[:, 0]).tolist()]


class _Run:
    """State of one call of `generate`."""

    def __init__(
        self,
        decoder: Decoder,
        prompts: Sequence[Sequence[int]],
        stop: StopConditions,
        cache: KVCache,
        random: RowRandom,
        taps: dict[int, Tensor],
    ) -> None:
        self._decoder, self._stop = decoder, stop
        self._drafter, self._target, self._rule = decoder.drafter, decoder.target, decoder.rule
        self.generations = [Generation() for _ in prompts]
        self.phases = Phases()
        self.context = Context(
            target=decoder.target,
            cache=cache,
            tokens=[list(prompt) for prompt in prompts],
            prompt_lengths=[len(prompt) for prompt in prompts],
            active=[True] * len(prompts),
            budgets=[0] * len(prompts),
            settings=decoder.settings,
            random=random,
            prompt_taps=taps,
        )

    def emit_first(self, tokens: list[int]) -> None:
        """Commits the token from the prefill; it belongs to no step."""
        for row, token in enumerate(tokens):
            self._extend(row, [token])
        self._set_budgets()

    def decode(self) -> None:
        """Steps until every row has ended."""
        if any(self.context.active):
            started = self._clock()
            self._drafter.begin(self.context)
            self.phases.draft += self._clock() - started
        else:
            self._drafter.passes = 0
        while any(self.context.active):
            self._step()

    def _clock(self) -> int:
        if not self._decoder._time_phases:  # noqa: SLF001 same module
            return 0
        self._decoder._synchronize()  # noqa: SLF001 same module
        return perf_counter_ns()

    def _step(self) -> None:
        context = self.context
        begun = self._clock()
        context.budgets = [
            min(allowed, wanted)
            for allowed, wanted in zip(context.budgets, self._drafter.budgets(context), strict=True)
        ]
        draft = self._drafter.propose(context)
        if self._decoder._check:  # noqa: SLF001 same module
            # Before clipping, which relies on parents coming first.
            draft.check(self._target.architecture.vocabulary)
        draft = draft.clipped(context.budgets)
        drafted = self._clock()
        logits, taps, probe_logits = self._verify(draft)
        verified = self._clock()
        paths, emitted = self._accept(draft, logits)
        accepted = self._clock()
        if any(context.active):
            self._drafter.observe(context, Step(draft, logits, taps, probe_logits, paths, emitted))
        self.phases.draft += drafted - begun
        self.phases.verify += verified - drafted
        self.phases.accept += accepted - verified
        self.phases.observe += self._clock() - accepted

    def _verify(self, draft: Draft) -> tuple[Tensor, dict[int, Tensor], Tensor | None]:
        """One target pass over root, nodes and probes."""
        context, target = self.context, self._target
        layout = lay_out(draft, context.roots, context.cache.lengths)
        hidden = target.embed(layout.tokens)
        if draft.probes is not None and draft.probes.embeddings is not None:
            hidden[:, 1 + draft.nodes :] = draft.probes.embeddings
        span = target.span(context.cache, layout.tokens.shape[1], layout.positions, layout.mask)
        taps = self._drafter.taps
        done = target.run(hidden, span, taps=taps)
        logits = target.head(done.taps[NORMED]) if NORMED in taps else target.logits(done.hidden)
        if draft.probes is None:
            return logits, done.taps, None
        return logits[:, : 1 + draft.nodes], done.taps, logits[:, 1 + draft.nodes :]

    def _accept(self, draft: Draft, logits: Tensor) -> tuple[list[list[int]], list[list[int]]]:
        """Asks the rule, trims at the end of answers, commits; returns emitted paths and tokens."""
        context = self.context
        uniforms = None
        if self._rule.needs_randomness:
            uniforms = context.uniforms(1 + draft.nodes, VERIFICATION_STREAM)
        verdict = self._rule(draft, logits, context.settings, uniforms)
        tokens = draft.token_lists()
        depths = _depths(draft)
        paths: list[list[int]] = []
        emitted: list[list[int]] = []
        for row, path in enumerate(verdict.paths):
            if not context.active[row]:
                paths.append([])
                emitted.append([])
                continue
            block = [*(tokens[row][node] for node in path), verdict.bonus[row]]
            kept = self._extend(row, block)
            paths.append(path[: len(kept)])
            emitted.append(kept)
            self._count(row, draft, len(kept), len(paths[-1]), depths[row])
        # The last emitted token is the next root: its keys are written by the next pass.
        context.cache.keep(
            [
                [0, *(1 + node for node in path[: len(kept) - 1])] if kept else []
                for path, kept in zip(paths, emitted, strict=True)
            ]
        )
        self._set_budgets()
        return paths, emitted

    def _extend(self, row: int, block: list[int]) -> list[int]:
        generation = self.generations[row]
        kept, finish = self._stop.trim(generation.ids, block)
        generation.ids.extend(kept)
        self.context.tokens[row].extend(kept)
        if finish is not None:
            generation.finish = finish
            self.context.active[row] = False
        return kept

    def _count(self, row: int, draft: Draft, emitted: int, accepted: int, depth: int) -> None:
        generation = self.generations[row]
        generation.emitted.append(emitted)
        generation.accepted.append(accepted)
        generation.drafted.append(draft.counts[row])
        generation.depth.append(depth)
        generation.probes.append(draft.probes.count if draft.probes is not None else 0)

    def _set_budgets(self) -> None:
        """A step emits at most its deepest path and the bonus token, so deeper drafts than remaining - 1 are waste."""
        self.context.budgets = [
            self._stop.max_new_tokens - len(generation.ids) - 1 if active else 0
            for generation, active in zip(self.generations, self.context.active, strict=True)
        ]


def _depths(draft: Draft) -> list[int]:
    """Deepest node of each row."""
    if draft.parents is None:
        return list(draft.counts)
    depths = []
    for parents in draft.parent_lists():
        row: list[int] = []
        for parent in parents:
            row.append(1 if parent < 0 else row[parent] + 1)
        depths.append(max(row, default=0))
    return depths
