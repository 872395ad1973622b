"""Drafters whose acceptance is known in advance: the oracles that prove the loop before any method."""

import torch

from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter


class Scripted(Drafter):
    """Proposes slices of known continuations, one a row, altered by `alter(token, absolute index)`."""

    def __init__(self, continuations, length, alter=lambda token, index: token):
        super().__init__()
        self.continuations, self.length, self.alter = continuations, length, alter

    def propose(self, context: Context) -> Draft:
        rows = []
        for row, done in enumerate(context.answer_lengths):
            ahead = self.continuations[row][done : done + self.length]
            rows.append([self.alter(token, done + index) for index, token in enumerate(ahead)])
        return Draft.chains(rows, context.device)


class ScriptedTree(Drafter):
    """Hides the known continuation in a bushy tree: wrong siblings first, and each true node has wrong children."""

    def __init__(self, continuations, depth, vocabulary):
        super().__init__()
        self.continuations, self.depth, self.vocabulary = continuations, depth, vocabulary

    def propose(self, context: Context) -> Draft:
        rows = []
        for row, done in enumerate(context.answer_lengths):
            tokens, parents, true_parent = [], [], -1
            for token in self.continuations[row][done : done + self.depth]:
                wrong = (token + 1) % self.vocabulary
                tokens += [wrong, token, wrong]
                parents += [true_parent, true_parent, len(tokens) - 3]
                true_parent = len(tokens) - 2
            rows.append((tokens, parents))
        width = max(len(tokens) for tokens, _ in rows)
        pad = lambda values, fill: [*values, *[fill] * (width - len(values))]  # noqa: E731
        return Draft(
            torch.tensor([pad(tokens, 0) for tokens, _ in rows], dtype=torch.long).view(len(rows), width),
            [len(tokens) for tokens, _ in rows],
            torch.tensor([pad(parents, -1) for _, parents in rows], dtype=torch.long).view(len(rows), width),
        )
