"""What the fault tests share: a tiny target, prompts, plain answers, methods of the catalog with random weights."""

from functools import cache
from pathlib import Path

import torch

from specatlas.catalog.discovery import load_catalog
from specatlas.drafting.draft_model import DraftModel
from specatlas.drafting.methods import prepare, untrained_artifacts
from specatlas.drafting.vocabulary import SubsetHead
from specatlas.engine.decoding import Decoder
from specatlas.engine.drafter import Drafter, PlainDrafter
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.verification import make_rule
from tests.support.models import tiny_transformer

VOCABULARY = 61
PROMPTS = [[5], [1, 2, 3, 4, 5, 6, 7], [9, 8, 7, 9, 8, 7, 9], [60, 0]]
GREEDY, SAMPLED = SamplingSettings(), SamplingSettings(1.0)
CATALOG = load_catalog(Path(__file__).parents[2] / "methods")


@cache
def target(vocabulary=VOCABULARY, **changes):
    return tiny_transformer(vocabulary, seed=3, **changes)


def decode(drafter, prompts=PROMPTS, limit=24, *, model=None, rule="greedy", settings=GREEDY, seeds=None, **stop):
    """Answers of a batch, with the contract checked."""
    decoder = Decoder(model or target(), drafter, make_rule(rule), settings, check=True)
    return decoder.generate(prompts, StopConditions(limit, **stop), seeds or range(len(prompts))).generations


@cache
def plain_answers(limit=48):
    return [row.ids for row in decode(PlainDrafter(), limit=limit)]


def method(slug, model, settings=GREEDY, **overrides):
    """A method of the catalog with random weights: drafter and rule."""
    chosen = CATALOG[slug]
    artifacts = untrained_artifacts(CATALOG, chosen, model, 1)
    drafter, rule, _ = prepare(chosen, model, settings, artifacts=artifacts, overrides=overrides)
    return drafter, rule


class OwnDraft(Drafter):
    """The target as its own draft model: a draft that must always be accepted."""

    def __init__(self, model, lengths, draft=None):
        super().__init__()
        draft = draft or model
        weight = draft.head.weight.detach()
        head = SubsetHead(weight, torch.arange(len(weight)), model.architecture.vocabulary)
        self.inner, self.lengths, self.step = DraftModel(draft, head, model.architecture.vocabulary), lengths, 0
        self.drafts = []

    def start(self, context):
        self.step, self.drafts = 0, []
        self.inner.start(context)

    def propose(self, context):
        length = self.lengths[self.step % len(self.lengths)]
        self.step += 1
        self.drafts.append(self.inner.chain(context, [min(length, budget) for budget in context.budgets]))
        return self.drafts[-1]

    def observe(self, context, step):
        self.inner.observe(step)
