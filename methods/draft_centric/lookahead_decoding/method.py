"""Lookahead decoding: the target guesses many positions at once and later verifies the n-grams that this leaves."""

import torch
from torch import Tensor

from specatlas.drafting.setup import Setup
from specatlas.drafting.trie import Trie, draft_of
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter, Step
from specatlas.engine.sampling import DRAFT_STREAM

from .pool import NgramPool
from .window import Window


class LookaheadDecoding(Drafter):
    """One window for the batch and one pool a row; both start cold with every prompt.

    Args:
        columns: Columns of the window, W.
        ngram: Tokens of an n-gram, N, the first one included.
        guesses: N-grams kept for a first token and verified at once, G.
        from_text: Whether the n-grams of prompt and answer go into the pool too.
    """

    def __init__(self, columns: int, ngram: int, guesses: int, *, from_text: bool) -> None:
        super().__init__()
        self._columns, self._ngram, self._guesses, self._from_text = columns, ngram, guesses, from_text

    def start(self, context: Context) -> None:
        """Fills level 0 with tokens drawn from each prompt."""
        self._pools = [NgramPool(self._guesses) for _ in range(context.batch)]
        self._window = Window(self._drawn(context), self._columns, self._ngram)
        if self._from_text:
            for pool, tokens in zip(self._pools, context.tokens, strict=True):
                self._add_text(pool, tokens, len(tokens))

    def propose(self, context: Context) -> Draft:
        """The pool's n-grams that begin with the root, merged into a tree, and the window as probes."""
        self._roots = torch.tensor(context.roots, device=context.device).unsqueeze(1)
        tries = [
            Trie.of(rest[:budget] for rest in pool.continuations(root)) if budget else Trie()
            for pool, root, budget in zip(self._pools, context.roots, context.budgets, strict=True)
        ]
        probes = self._window.probes(max(len(trie.tokens) for trie in tries))
        return draft_of(tries, context.device, probes)

    def observe(self, context: Context, step: Step) -> None:
        """Harvests the n-grams that the pass completed, then moves the window."""
        top = self._window.top(step.logits[:, :1], step.probe_logits)
        if self._window.full:
            for pool, ngrams in zip(self._pools, self._window.ngrams(self._roots, top).tolist(), strict=True):
                for ngram in ngrams:
                    pool.add(ngram)
        self._window.advance(top)
        if self._from_text:
            for pool, tokens, emitted in zip(self._pools, context.tokens, step.emitted, strict=True):
                self._add_text(pool, tokens, len(emitted))

    def _drawn(self, context: Context) -> Tensor:
        """Random tokens of each row's own text, `[batch, columns + ngram - 3]`."""
        uniforms = context.uniforms(self._columns + self._ngram - 3, DRAFT_STREAM)
        rows = zip(context.tokens, uniforms.tolist(), strict=True)
        drawn = [[tokens[int(uniform * len(tokens))] for uniform in row] for tokens, row in rows]
        return torch.tensor(drawn, dtype=torch.long, device=context.device).view(context.batch, -1)

    def _add_text(self, pool: NgramPool, tokens: list[int], new: int) -> None:
        """Adds the n-grams that end in the last `new` tokens."""
        for end in range(max(len(tokens) - new + 1, self._ngram), len(tokens) + 1):
            pool.add(tokens[end - self._ngram : end])


def build(setup: Setup) -> Drafter:
    """A drafter with the card's window, n-gram length and number of guesses."""
    h = setup.hyperparameters
    return LookaheadDecoding(h["window"], h["ngram"], h["guesses"], from_text=h["text_ngrams"])
