"""Finds the sublayers that Draft & Verify skips, on the target's own answers to the tune prompts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from specatlas.catalog.card import read_card
from specatlas.drafting.setup import Artifact
from specatlas.drafting.target_head import shared_head
from specatlas.engine.decoding import Decoder
from specatlas.engine.drafter import PlainDrafter
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.transformer import Transformer
from specatlas.engine.verification import make_rule
from specatlas.errors import ConfigError
from specatlas.training.job import Job, Made

from .costs import measure_costs
from .exam import Exam, Text
from .search import Search, logged_costs

PROMPTS, LONGEST_PROMPT, ANSWER = 24, 384, 49
"""Prompts used, in tokens their longest, and answer tokens; the first of these comes from the prefill."""


def make(job: Job) -> Made:
    """Searches within `job.budget.trials` evaluations; a killed search goes on from its log."""
    defaults = read_card(Path(__file__).with_name("method.yaml")).settings()
    length, threshold = int(defaults["draft_length"]), float(defaults["threshold"])
    target, log = job.target(), job.work / "trials.jsonl"
    texts = plain_texts(target, job.tune_prompts, job.eos_ids)
    ranked = ranked_ids(texts, target.architecture.vocabulary)
    head = shared_head(target, ranked, int(defaults["draft_vocabulary"]))
    costs = logged_costs(log) or measure_costs(target, head, length)
    search = Search(target.architecture.layers, costs, threshold, job.budget.seed)
    search.run(Exam(target, head, texts, length).marks, job.budget.trials, log)
    best = search.best
    report = {
        "best": asdict(best),
        "share_right": best.matched / best.positions,
        "costs": asdict(costs),
        "prompts": len(texts),
        "trials": [asdict(trial) for trial in search.trials],
    }
    return Made(_artifact(target, best.skipped_attention, best.skipped_feed_forward, ranked), report)


def untrained(target: Transformer, seed: int) -> Artifact:
    """Skips every sublayer with probability one third, and ranks the tokens at random."""
    generator = torch.Generator().manual_seed(seed)
    layers = target.architecture.layers
    attention, feed_forward = (torch.rand(2, layers, generator=generator) < 1 / 3).tolist()
    ranked = torch.randperm(target.architecture.vocabulary, generator=generator)
    return _artifact(
        target,
        [layer for layer, skipped in enumerate(attention) if skipped],
        [layer for layer, skipped in enumerate(feed_forward) if skipped],
        ranked,
    )


def plain_texts(target: Transformer, prompts: Sequence[Sequence[int]], eos_ids: frozenset[int]) -> list[Text]:
    """Greedy answers of the target to evenly chosen prompts.

    Raises:
        ConfigError: No prompt gives an answer that can be judged.
    """
    longest = min(LONGEST_PROMPT, target.architecture.context - ANSWER)
    short = [list(prompt) for prompt in prompts if len(prompt) <= longest]
    chosen = short[:: max(1, len(short) // PROMPTS)][:PROMPTS]
    texts = []
    if chosen:
        decoder = Decoder(target, PlainDrafter(), make_rule("greedy"), SamplingSettings())
        answers = decoder.generate(chosen, StopConditions(ANSWER, eos_ids), [0] * len(chosen)).generations
        texts = [Text(prompt, answer.ids) for prompt, answer in zip(chosen, answers, strict=True)]
    texts = [text for text in texts if len(text.answer) > 1]
    if not texts:
        raise ConfigError(
            f"draft_and_verify found no tune prompt of at most {longest} tokens with an answer; "
            "choose a prompt set with a tune split."
        )
    return texts


def ranked_ids(texts: Sequence[Text], vocabulary: int) -> Tensor:
    """All token ids, the most frequent in the texts first; the rest as they come, since BPE numbers by frequency."""
    counts = Counter(token for text in texts for token in (*text.prompt, *text.answer))
    return torch.tensor(sorted(range(vocabulary), key=lambda token: -counts[token]), dtype=torch.int32)


def _artifact(target: Transformer, attention: list[int], feed_forward: list[int], ranked: Tensor) -> Artifact:
    metadata = {
        "layers": target.architecture.layers,
        "skipped_attention": attention,
        "skipped_feed_forward": feed_forward,
    }
    return Artifact({"ranked_ids": ranked.to(torch.int32)}, metadata)
