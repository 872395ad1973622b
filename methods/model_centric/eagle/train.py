"""EAGLE's training: feature regression and token distillation on the target's own text."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specatlas.drafting.feature_head import FeatureHead
from specatlas.drafting.setup import Artifact
from specatlas.engine.loading import head_weight
from specatlas.engine.transformer import Transformer
from specatlas.training.examples import Minibatch, read_examples
from specatlas.training.job import Job, Made
from specatlas.training.loop import Recipe, train
from specatlas.training.losses import agreement, rank_acceptance, soft_cross_entropy, teacher_logits
from specatlas.training.vocabulary import coverage, frequent_tokens

HEAD_TOKENS = 8192
RANKS = 8
REGRESSION_WEIGHT = 0.5
NOISE = 0.1


class EagleTraining(nn.Module):
    """The head with what is frozen around it: the target's embeddings and the frequent rows of its head."""

    def __init__(self, target: Transformer, ids: Tensor, rows: Tensor, seed: int) -> None:
        super().__init__()
        self.head = FeatureHead.initial(target, torch.Generator().manual_seed(seed))
        self.register_buffer("embedding", target.embedding.detach().float(), persistent=False)
        self.register_buffer("rows", rows, persistent=False)
        self.place = torch.full((target.architecture.vocabulary,), -1, dtype=torch.long)
        self.place[ids] = torch.arange(len(ids))

    def predict(self, batch: Minibatch, mask: Tensor, noise: float) -> tuple[Tensor, Tensor]:
        """Predicted and true features after every pair whose guess is asked for, `[positions, hidden]` each."""
        features = batch.features[:, :-2]
        scale = batch.features.std()
        if noise:
            features = features + (torch.rand_like(features) - 0.5) * (2 * noise * scale)
        embeddings = F.embedding(batch.tokens[:, 1:-1], self.embedding)
        with torch.autocast(batch.tokens.device.type, torch.bfloat16):
            predicted = self.head.forward_causal(embeddings, features)
        asked = mask[:, 1:-1]
        return predicted[asked].float() / scale, batch.features[:, 1:-1][asked] / scale

    def logits(self, features: Tensor, batch: Minibatch) -> Tensor:
        """Over the frequent tokens."""
        return teacher_logits(features * batch.features.std(), self.rows)

    def loss(self, batch: Minibatch) -> Tensor:
        """Smooth-L1 on features (relative to their spread) and cross-entropy under the target's distribution."""
        predicted, true = self.predict(batch, batch.text, NOISE)
        tokens = soft_cross_entropy(self.logits(predicted, batch), self.logits(true, batch))
        return tokens + REGRESSION_WEIGHT * F.smooth_l1_loss(predicted, true)

    def evaluate(self, batch: Minibatch) -> dict[str, float]:
        """Agreement with the target, and how often each rank holds the target's choice."""
        predicted, true = self.predict(batch, batch.answer, 0.0)
        guesses, wanted = self.logits(predicted, batch), self.logits(true, batch)
        ranks = rank_acceptance(guesses, wanted.argmax(-1), RANKS)
        return {"agreement": agreement(guesses, wanted)} | {f"rank_{r}": float(p) for r, p in enumerate(ranks)}


def make(job: Job) -> Made:
    """Trains the head within the budget."""
    target = job.target()
    assert job.corpus is not None
    examples = read_examples(job.corpus, target)
    ids = frequent_tokens(examples.training, target.architecture.vocabulary, HEAD_TOKENS)
    rows = head_weight(job.target_folder)[ids].to(torch.bfloat16)
    module = EagleTraining(target, ids, rows.to(job.device), job.budget.seed).to(job.device)
    recipe = Recipe(tokens=job.budget.tokens, seed=job.budget.seed)
    curve = train(module, module.loss, module.evaluate, examples, recipe, job=job, name="eagle")
    covered = coverage(examples.held_out, ids, target.architecture.vocabulary)
    # Ranks are measured among the frequent tokens; a rare token is never guessed.
    metadata = _metadata(target, [covered * curve.final[f"rank_{rank}"] for rank in range(RANKS)])
    return Made(_artifact(module.head, rows, ids, metadata), {"curve": curve.report(), "coverage": covered})


def untrained(target: Transformer, seed: int) -> Artifact:
    """A random head over three quarters of the vocabulary."""
    generator = torch.Generator().manual_seed(seed)
    vocabulary = target.architecture.vocabulary
    ids = torch.randperm(vocabulary, generator=generator)[: max(2, vocabulary * 3 // 4)].sort().values
    rows = torch.randn(len(ids), target.architecture.hidden, generator=generator)
    head = FeatureHead.initial(target, generator)
    return _artifact(head, rows, ids, _metadata(target, [0.5, 0.2, 0.1, 0.05]))


def _metadata(target: Transformer, ranks: list[float]) -> dict[str, object]:
    a = target.architecture
    return {"vocabulary": a.vocabulary, "hidden": a.hidden, "rank_acceptance": ranks}


def _artifact(head: FeatureHead, rows: Tensor, ids: Tensor, metadata: dict[str, object]) -> Artifact:
    weights = {name: tensor.detach().to(rows.dtype) for name, tensor in head.state_dict().items()}
    return Artifact(weights | {"head": rows, "ids": ids}, metadata)
