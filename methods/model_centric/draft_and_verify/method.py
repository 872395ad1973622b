"""Draft & Verify: the target drafts for itself with some of its sublayers skipped."""

import torch
from torch import Tensor

from specatlas.drafting.setup import Artifact, Setup
from specatlas.drafting.target_head import Head, shared_head
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter, Step
from specatlas.engine.sampling import DRAFT_STREAM, choose
from specatlas.engine.transformer import LayerPlan
from specatlas.errors import MissingArtifact

from .threshold import Threshold


class DraftAndVerify(Drafter):
    """Drafts chains on a branch of the target's own cache, where verification writes the full model's keys afterwards.

    Args:
        plan: What a draft pass skips.
        head: The target's head, or its most frequent tokens.
        threshold: Of every row at the start of an answer; its `longest` bounds the draft.
    """

    def __init__(self, plan: LayerPlan, head: Head, threshold: Threshold) -> None:
        super().__init__()
        self._plan, self._head, self._initial = plan, head, threshold
        self.extra_parameters = head.parameter_count

    def start(self, context: Context) -> None:
        """Every answer begins with the initial threshold."""
        initial = self._initial
        self._thresholds = [
            Threshold(initial.value, initial.target, initial.step, initial.longest) for _ in range(context.batch)
        ]

    def propose(self, context: Context) -> Draft:
        """Drafts until every row has reached its limit or lost confidence; the doubtful token is still proposed."""
        limits = [min(self._initial.longest, budget) for budget in context.budgets]
        if max(limits) == 0:
            return Draft.empty(context.batch, context.device)
        uniforms = None if context.settings.greedy else context.uniforms(max(limits), DRAFT_STREAM)
        cache = context.cache.branch()
        token = torch.tensor(context.roots, device=context.device)
        tokens: list[Tensor] = []
        distributions: list[Tensor] = []
        counts, going = [0] * context.batch, [limit > 0 for limit in limits]
        while any(going):
            hidden = context.target(token.unsqueeze(1), cache, plan=self._plan).hidden[:, -1]
            cache.advance([1] * context.batch)
            self.passes += 1
            logits = self._head.logits(context.target.norm(hidden))
            if uniforms is None:
                token = self._head.argmax(logits)
            else:
                distributions.append(self._head.distribution(logits, context.settings))
                token = choose(distributions[-1], uniforms[:, len(tokens)])
            tokens.append(token)
            counts = [count + now for count, now in zip(counts, going, strict=True)]
            going = self._goes_on(confidence(logits).tolist(), counts, limits, going)
        q = torch.stack(distributions, 1) if distributions else None
        return Draft(torch.stack(tokens, 1), counts, q=q)

    def observe(self, context: Context, step: Step) -> None:  # noqa: ARG002
        """Adapts the thresholds of the rows that drafted."""
        for threshold, path, drafted in zip(self._thresholds, step.paths, step.draft.counts, strict=True):
            if drafted:
                threshold.update(len(path), drafted)

    def _goes_on(self, sure: list[float], counts: list[int], limits: list[int], going: list[bool]) -> list[bool]:
        rows = zip(going, counts, limits, sure, self._thresholds, strict=True)
        return [now and count < limit and p >= threshold.value for now, count, limit, p, threshold in rows]


def confidence(logits: Tensor) -> Tensor:
    """Largest probability at temperature 1, whatever the sampling settings: `[..., tokens]` to `[...]`, fp32."""
    scores = logits.float()
    return (scores.amax(-1) - scores.logsumexp(-1)).exp()


def plan_of(artifact: Artifact, layers: int) -> LayerPlan:
    """The skipped set that the search left.

    Raises:
        MissingArtifact: It was found for a target of another depth.
    """
    if artifact.metadata["layers"] != layers:
        raise MissingArtifact(
            f"The skipped layers were searched on a target of {artifact.metadata['layers']} layers, this one has "
            f"{layers}; run `specatlas train draft_and_verify` for it."
        )
    return LayerPlan(
        skipped_attention=frozenset(artifact.metadata["skipped_attention"]),
        skipped_feed_forward=frozenset(artifact.metadata["skipped_feed_forward"]),
    )


def build(setup: Setup) -> Drafter:
    """A drafter with the searched skipped set."""
    h, artifact = setup.hyperparameters, setup.artifacts["draft_and_verify"]
    plan = plan_of(artifact, setup.target.architecture.layers)
    head = shared_head(setup.target, artifact.tensors["ranked_ids"], h["draft_vocabulary"])
    first = h["threshold"] if setup.settings.greedy else h["sampling_threshold"]
    return DraftAndVerify(plan, head, Threshold(first, h["acceptance_target"], h["threshold_step"], h["draft_length"]))
