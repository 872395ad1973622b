"""Typical acceptance (Medusa, arXiv 2401.10774, section 3.3.1): lossy."""

from typing import ClassVar

import torch
from torch import Tensor

from specatlas.engine.draft import Draft, Topology
from specatlas.engine.sampling import SamplingSettings, choose, probabilities
from specatlas.engine.verification.rule import Preserves, Verdict, VerificationRule, read_back


class TypicalAcceptance(VerificationRule):
    """Token x stands if p(x) > min(ε, δ·exp(-H(p))); the longest standing path wins, the likelier one on a tie.

    The bonus token is sampled from p after the path. At temperature 0 p is one-hot, and the rule is greedy.

    Args:
        typical_epsilon: Hard threshold ε.
        typical_delta: Entropy-dependent threshold δ.
    """

    preserves: ClassVar[Preserves] = "lossy"
    parameters = ("typical_epsilon", "typical_delta")

    def __init__(self, typical_epsilon: float = 0.09, typical_delta: float = 0.3) -> None:
        self.epsilon, self.delta = typical_epsilon, typical_delta

    def __call__(self, draft: Draft, logits: Tensor, settings: SamplingSettings, uniforms: Tensor | None) -> Verdict:
        """See the base class."""
        assert uniforms is not None
        p = probabilities(logits, settings)
        rows = torch.arange(len(p), device=p.device)
        last, standing = self._best(draft, p, rows)
        bonus = choose(p[rows, last], uniforms[:, 0])
        host = read_back(draft, torch.cat((bonus.unsqueeze(1), standing.long()), 1), p[..., 0])
        return Verdict([[node for node, kept in enumerate(row[1:]) if kept] for row in host], [row[0] for row in host])

    def _best(self, draft: Draft, p: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Index (root = 0) of each row's winning node, and which nodes lie on its path, `[batch, nodes]`."""
        batch, nodes = draft.tokens.shape
        if nodes == 0:
            return torch.zeros(batch, dtype=torch.long, device=p.device), torch.zeros_like(draft.tokens)
        parents = draft.parents
        if parents is None:
            parents = torch.arange(-1, nodes - 1, device=p.device).expand(batch, -1)
        topology = draft.topology or Topology.of(parents)
        entropy = -torch.special.xlogy(p, p).sum(-1)
        threshold = torch.clamp(self.delta * torch.exp(-entropy), max=self.epsilon).gather(1, parents + 1)
        p_x = p[rows[:, None], parents + 1, draft.tokens]
        own = torch.arange(nodes, device=p.device) < torch.tensor(draft.counts, device=p.device).unsqueeze(1)
        stands = torch.nn.functional.pad((p_x > threshold) & own, (1, 0), value=True)
        ancestors = topology.ancestors.expand(batch, -1, -1)
        whole = (ancestors & ~stands.unsqueeze(1)).sum(-1) == 0
        log_likelihood = torch.nn.functional.pad(p_x.clamp(min=1e-30).log(), (1, 0))
        path_log_likelihood = (ancestors * log_likelihood.unsqueeze(1)).sum(-1)
        depth = topology.depths.expand(batch, -1)
        # Depth dominates: a likelihood squashed into (0, 1) only breaks ties.
        score = torch.where(whole, depth + torch.sigmoid(path_log_likelihood), -1.0)
        last = score.argmax(1)
        return last, ancestors[rows, last, 1:]
