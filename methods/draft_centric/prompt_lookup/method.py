"""Prompt lookup: the draft is what followed the same n-gram earlier in this very text."""

from specatlas.drafting.ngrams import NgramIndex
from specatlas.drafting.setup import Setup
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter, Step
from specatlas.errors import CatalogError


class PromptLookup(Drafter):
    """One n-gram index a row, over prompt and answer."""

    def __init__(self, length: int, shortest: int, longest: int) -> None:
        super().__init__()
        self._length, self._shortest, self._longest = length, shortest, longest

    def start(self, context: Context) -> None:
        """Indexes the prompts."""
        self._indexes = [NgramIndex(self._shortest, self._longest) for _ in range(context.batch)]
        for index, tokens in zip(self._indexes, context.tokens, strict=True):
            index.extend(tokens)

    def propose(self, context: Context) -> Draft:
        """The continuation of the longest suffix that occurred before; empty where none did."""
        limits = [min(self._length, budget) for budget in context.budgets]
        rows = [index.continuation(limit) for index, limit in zip(self._indexes, limits, strict=True)]
        return Draft.chains(rows, context.device)

    def observe(self, context: Context, step: Step) -> None:  # noqa: ARG002
        """Indexes the new tokens."""
        for index, tokens in zip(self._indexes, step.emitted, strict=True):
            index.extend(tokens)


def build(setup: Setup) -> Drafter:
    """A drafter with the card's n-gram lengths."""
    h = setup.hyperparameters
    if h["min_ngram"] > h["max_ngram"]:
        raise CatalogError(f"min_ngram {h['min_ngram']} exceeds max_ngram {h['max_ngram']}; lower it.")
    return PromptLookup(h["draft_length"], h["min_ngram"], h["max_ngram"])
