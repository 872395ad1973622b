"""Our side: the same decoding loop as every unit."""

from collections.abc import Sequence
from pathlib import Path

import torch

from specatlas.catalog.discovery import Catalog
from specatlas.drafting.draft_model import DraftModel
from specatlas.drafting.methods import prepare
from specatlas.drafting.vocabulary import SubsetHead
from specatlas.engine.decoding import Decoder
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter, PlainDrafter, Step
from specatlas.engine.loading import load_transformer, read_safetensors
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.transformer import Transformer
from specatlas.engine.verification import make_rule
from specatlas.measure.clock import synchronizer
from specatlas.measure.peers.answers import Run

GREEDY = SamplingSettings()


class Assisted(Drafter):
    """A draft language model from a checkpoint folder, drafting chains of one length."""

    def __init__(self, draft_model: DraftModel, length: int) -> None:
        super().__init__()
        self._draft_model, self._length = draft_model, length

    def start(self, context: Context) -> None:
        """Prefills the draft model."""
        self._draft_model.start(context)

    def propose(self, context: Context) -> Draft:
        """A chain of the draft model's argmax tokens."""
        return self._draft_model.chain(context, [min(self._length, budget) for budget in context.budgets])

    def observe(self, context: Context, step: Step) -> None:  # noqa: ARG002
        """Rolls the draft model back to what was accepted."""
        self._draft_model.observe(step)


def runner(target: Transformer, drafter: Drafter, stop: StopConditions) -> Run:
    """Greedy decoding with a drafter."""
    decoder = Decoder(
        target, drafter, make_rule("greedy"), GREEDY, synchronize=synchronizer(target.device), time_phases=False
    )

    def run(prompt: Sequence[int]) -> list[int]:
        return decoder.generate([prompt], stop, [0]).generations[0].ids

    return run


def plain(target: Transformer, stop: StopConditions) -> Run:
    """Plain greedy decoding."""
    return runner(target, PlainDrafter(), stop)


def prompt_lookup(target: Transformer, stop: StopConditions, catalog: Catalog, length: int, ngram: int) -> Run:
    """The catalog's prompt lookup."""
    chosen = {"draft_length": length, "max_ngram": ngram, "min_ngram": 1}
    return runner(target, prepare(catalog["prompt_lookup"], target, GREEDY, artifacts={}, overrides=chosen)[0], stop)


def assisted(target: Transformer, stop: StopConditions, draft_folder: Path, length: int) -> Run:
    """A draft model with its whole head."""
    model = load_transformer(draft_folder, dtype=target.dtype, device=target.device)
    tensors = read_safetensors(draft_folder)
    rows = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"]).to(target.device, target.dtype)
    vocabulary = target.architecture.vocabulary
    head = SubsetHead(rows, torch.arange(len(rows)), vocabulary)
    return runner(target, Assisted(DraftModel(model, head, vocabulary), length), stop)
