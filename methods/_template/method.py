"""My method: the draft repeats, token by token, what followed each token last time."""

import itertools

from specatlas.drafting.setup import Setup
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter, Step


class MyMethod(Drafter):
    """A drafter only proposes. The harness prefills, verifies, accepts, rolls back, stops, counts and times.

    Every hook gets the whole batch: one entry a row, rows of different lengths, some of which may have ended.
    """

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length = length

    def start(self, context: Context) -> None:
        """Called once an answer. Whatever the last answer left must go: methods are measured cold.

        `context.tokens[row]` holds the prompt and the first token, which the prefill gave.
        """
        self._followers: list[dict[int, int]] = [{} for _ in range(context.batch)]
        for followers, tokens in zip(self._followers, context.tokens, strict=True):
            followers.update(itertools.pairwise(tokens))

    def propose(self, context: Context) -> Draft:
        """Called every step; continues each row's last token, the root, which is not part of the draft.

        `context.budgets[row]` is the deepest draft that can still be emitted, 0 for a row that has ended. Deeper drafts
        are cut, but what they cost has been paid. A row may get an empty draft: its step emits one token.

        `Draft.chains` takes deterministic picks. For sampled ones give `q`, the distributions exactly as they were
        sampled, made with `specatlas.engine.sampling.probabilities` from `context.settings`, and draw with
        `context.uniforms`; for a tree give `parents`.
        """
        limits = [min(self._length, budget) for budget in context.budgets]
        rows = zip(context.roots, self._followers, limits, strict=True)
        return Draft.chains([self._chain(*row) for row in rows], context.device)

    def observe(self, context: Context, step: Step) -> None:
        """Called after every step but the last, with `context.tokens` already extended.

        `step` has the draft, the target's logits after the root and every node, the accepted `paths`, the `emitted`
        tokens, and the hidden states that the class asked for in `taps`.
        """
        for followers, tokens, emitted in zip(self._followers, context.tokens, step.emitted, strict=True):
            recent = tokens[len(tokens) - len(emitted) - 1 :]
            followers.update(itertools.pairwise(recent))

    @staticmethod
    def _chain(token: int, followers: dict[int, int], limit: int) -> list[int]:
        chain: list[int] = []
        while len(chain) < limit and token in followers:
            token = followers[token]
            chain.append(token)
        return chain


def build(setup: Setup) -> Drafter:
    """Called once a run, with the target, the sampling settings, the card's checked hyper-parameters and artifacts.

    Refuse here what the method cannot do: a type from `specatlas.errors`, one sentence, and what to change.
    """
    return MyMethod(setup.hyperparameters["draft_length"])
