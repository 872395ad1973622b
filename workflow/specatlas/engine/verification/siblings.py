"""Trees whose siblings were drawn without replacement (RSD, arXiv 2402.14160; Sequoia, arXiv 2402.12374)."""

from typing import ClassVar

import torch
from torch import Tensor

from specatlas.engine.draft import Draft
from specatlas.engine.sampling import SamplingSettings, choose, probabilities
from specatlas.engine.verification.rule import Preserves, Verdict, VerificationRule, read_back


class SiblingsWithoutReplacement(VerificationRule):
    """Tries the children of the current node in turn against the residual r, starting from r = p.

    Child x of distribution q stands with probability min(1, r(x)/q(x)); otherwise r ← norm((r - q)₊) and q loses x. If
    none stands, the bonus token is drawn from r. Deterministic children (one-hot q) stand with probability r(x), and
    then r loses x.
    """

    preserves: ClassVar[Preserves] = "distribution"

    def __call__(self, draft: Draft, logits: Tensor, settings: SamplingSettings, uniforms: Tensor | None) -> Verdict:
        """See the base class. Walks all nodes once, parents first; nothing is read back before the end."""
        assert uniforms is not None
        p = probabilities(logits, settings)
        rows = torch.arange(len(p), device=p.device)
        state = _State(p)
        parents = _parents(draft)
        for node in range(draft.nodes):
            candidate = (parents[:, node] == state.current) & (state.counts(draft) > node)
            if p.device.type == "cpu" and not candidate.any():
                continue
            token = draft.tokens[:, node]
            q = None if draft.q is None else draft.q[rows, _q_row(draft, node)]
            state.try_node(node, candidate, token, q, uniforms[:, node + 1])
        bonus = choose(state.residual, uniforms[:, 0])
        decision = torch.stack([bonus, *(taken.long() for taken in state.taken)], 1)
        host = read_back(draft, decision, p[..., 0])
        paths = [[node for node, taken in enumerate(row[1:]) if taken] for row in host]
        return Verdict(paths, [row[0] for row in host])


class _State:
    """Where the walk stands in every row: current node, residual distribution, what is left of the siblings' q."""

    def __init__(self, p: Tensor) -> None:
        self.p = p
        self.rows = torch.arange(len(p), device=p.device)
        self.current = torch.full((len(p),), -1, dtype=torch.long, device=p.device)
        self.residual = p[:, 0]
        self.remaining: Tensor | None = None
        self.fresh = torch.ones(len(p), dtype=torch.bool, device=p.device)
        self.taken: list[Tensor] = []
        self._counts: Tensor | None = None

    def counts(self, draft: Draft) -> Tensor:
        if self._counts is None:
            self._counts = torch.tensor(draft.counts, device=self.p.device)
        return self._counts

    def try_node(self, node: int, candidate: Tensor, token: Tensor, q: Tensor | None, uniform: Tensor) -> None:
        """Accepts or rejects `node` in the rows where it is a child of the current node."""
        while len(self.taken) < node:
            self.taken.append(torch.zeros_like(candidate))
        index = token.unsqueeze(1)
        r_x = self.residual.gather(1, index).squeeze(1)
        q_x = torch.ones_like(r_x)
        if q is not None:
            kept = q if self.remaining is None else torch.where(self.fresh.unsqueeze(1), q, self.remaining)
            self.remaining = kept
            q_x = kept.gather(1, index).squeeze(1)
        stands = candidate & (uniform * q_x < r_x)
        self._reject(candidate & ~stands, index)
        self.current = torch.where(stands, node, self.current)
        self.residual = torch.where(stands.unsqueeze(1), self.p[:, node + 1], self.residual)
        self.fresh = (self.fresh & ~candidate) | stands
        self.taken.append(stands)

    def _reject(self, rejected: Tensor, index: Tensor) -> None:
        if self.remaining is None:
            smaller = self.residual.scatter(1, index, 0.0)
        else:
            smaller = (self.residual - self.remaining).clamp_(min=0)
            without = self.remaining.scatter(1, index, 0.0)
            without = without / without.sum(1, keepdim=True).clamp(min=torch.finfo(without.dtype).tiny)
            self.remaining = torch.where(rejected.unsqueeze(1), without, self.remaining)
        mass = smaller.sum(1, keepdim=True)
        # Rounding can leave no residual mass although a token was rejected; the old residual is the limit of the rule.
        use = rejected.unsqueeze(1) & (mass > 0)
        self.residual = torch.where(use, smaller / mass.clamp(min=torch.finfo(mass.dtype).tiny), self.residual)


def _parents(draft: Draft) -> Tensor:
    if draft.parents is not None:
        return draft.parents
    return torch.arange(-1, draft.nodes - 1, device=draft.tokens.device).expand(len(draft.tokens), -1)


def _q_row(draft: Draft, node: int) -> Tensor | int:
    return node if draft.q_rows is None else draft.q_rows[:, node]
