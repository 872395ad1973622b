"""Speculative sampling for chains (arXiv 2211.17192, algorithm 1; arXiv 2302.01318, algorithm 2)."""

from typing import ClassVar

import torch
from torch import Tensor

from specatlas.engine.draft import Draft
from specatlas.engine.sampling import SamplingSettings, choose, probabilities
from specatlas.engine.verification.rule import Preserves, Verdict, VerificationRule, read_back
from specatlas.errors import InvalidDraft


class SpeculativeSampling(VerificationRule):
    """Keeps token x with probability min(1, p(x)/q(x)); on the first rejection emits from norm((p - q)₊).

    A deterministic draft has a one-hot q: x stands with probability p(x), and the residual is p without x.
    """

    preserves: ClassVar[Preserves] = "distribution"
    chains_only = True

    def __call__(self, draft: Draft, logits: Tensor, settings: SamplingSettings, uniforms: Tensor | None) -> Verdict:
        """See the base class.

        Raises:
            InvalidDraft: The draft is a tree.
        """
        if draft.parents is not None:
            raise InvalidDraft("speculative_sampling verifies chains; use siblings_without_replacement for trees.")
        assert uniforms is not None
        p = probabilities(logits, settings)
        accepted = self._accepted(draft, p, uniforms)
        last = p[torch.arange(len(p), device=p.device), accepted]
        bonus = choose(self._residual(draft, last, accepted), uniforms[:, 0])
        host = read_back(draft, torch.stack((accepted, bonus), 1), p[..., 0])
        return Verdict([list(range(length)) for length, _ in host], [token for _, token in host])

    @staticmethod
    def _accepted(draft: Draft, p: Tensor, uniforms: Tensor) -> Tensor:
        """Length of the accepted prefix of each row, `[batch]`."""
        if draft.nodes == 0:
            return torch.zeros(len(p), dtype=torch.long, device=p.device)
        index = draft.tokens.unsqueeze(2)
        p_x = p[:, :-1].gather(2, index).squeeze(2)
        q_x = torch.ones_like(p_x)
        if draft.q is not None:
            q_x = _rows_of_q(draft).gather(2, index).squeeze(2)
        own = torch.arange(draft.nodes, device=p.device) < torch.tensor(draft.counts, device=p.device).unsqueeze(1)
        # u·q < p rather than u < p/q: no division by 0, and a token that the target gives 0 never stands.
        stands = (uniforms[:, 1:] * q_x < p_x) & own
        return stands.long().cumprod(1).sum(1)

    @staticmethod
    def _residual(draft: Draft, last: Tensor, accepted: Tensor) -> Tensor:
        """Weights of the bonus token: the residual after a rejection, plain p after full acceptance."""
        if draft.nodes == 0:
            return last
        rows = torch.arange(len(last), device=last.device)
        place = accepted.clamp(max=draft.nodes - 1)
        if draft.q is not None:
            q = _rows_of_q(draft)[rows, place]
        else:
            q = torch.zeros_like(last).scatter_(1, draft.tokens[rows, place].unsqueeze(1), 1.0)
        residual = (last - q).clamp_(min=0)
        rejected = accepted < torch.tensor(draft.counts, device=last.device)
        # Rounding can leave no residual mass although a token was rejected; p is then the limit of the rule.
        use = (rejected & (residual.sum(1) > 0)).unsqueeze(1)
        return torch.where(use, residual, last)


def _rows_of_q(draft: Draft) -> Tensor:
    """The distribution of every node, `[batch, nodes, vocabulary]`."""
    assert draft.q is not None
    if draft.q_rows is None:
        return draft.q[:, : draft.nodes]
    return draft.q.gather(1, draft.q_rows.unsqueeze(2).expand(-1, -1, draft.q.shape[2]))
