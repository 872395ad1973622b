"""Medusa-1's training: the target is frozen, each head learns to say what the target says k tokens later."""

import torch
from torch import Tensor, nn

from specatlas.drafting.medusa_heads import MedusaHeads
from specatlas.drafting.setup import Artifact
from specatlas.engine.loading import head_weight
from specatlas.engine.transformer import Transformer
from specatlas.training.examples import Minibatch, read_examples
from specatlas.training.job import Job, Made
from specatlas.training.loop import Recipe, train
from specatlas.training.losses import agreement, rank_acceptance, soft_cross_entropy, teacher_logits
from specatlas.training.vocabulary import coverage, frequent_tokens

HEADS = 4
HEAD_TOKENS = 8192
RANKS = 8
DECAY = 0.8


class MedusaTraining(nn.Module):
    """The heads with the frequent rows of the target's frozen head."""

    def __init__(self, hidden: int, rows: Tensor) -> None:
        super().__init__()
        self.heads = MedusaHeads(hidden, HEADS)
        self.register_buffer("rows", rows, persistent=False)

    def pairs(self, batch: Minibatch, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Per head, (its logits, the target's) at every position of the mask.

        The head makes the next token's distribution from f_t; Medusa head k guesses what the target makes of f_{t+k}.
        """
        made = []
        for head in range(HEADS):
            ahead = head + 1
            asked = mask[:, ahead:] & mask[:, :-ahead]
            moved = self.heads.single(batch.features[:, :-ahead][asked], head)
            made.append((teacher_logits(moved, self.rows), teacher_logits(batch.features[:, ahead:][asked], self.rows)))
        return made

    def loss(self, batch: Minibatch) -> Tensor:
        """Σ_k 0.8^k · cross-entropy under the target's distribution (section 2.2.1)."""
        pairs = [(k, pair) for k, pair in enumerate(self.pairs(batch, batch.text), 1) if len(pair[0])]
        return torch.stack([DECAY**k * soft_cross_entropy(*pair) for k, pair in pairs]).sum()

    def evaluate(self, batch: Minibatch) -> dict[str, float]:
        """Agreement with the target and accuracy by rank, of every head."""
        figures: dict[str, float] = {}
        for head, (guesses, wanted) in enumerate(self.pairs(batch, batch.answer)):
            ranks = rank_acceptance(guesses, wanted.argmax(-1), RANKS) if len(guesses) else torch.zeros(RANKS)
            figures[f"head_{head}_agreement"] = agreement(guesses, wanted)
            figures |= {f"head_{head}_rank_{rank}": float(p) for rank, p in enumerate(ranks)}
        return figures


def make(job: Job) -> Made:
    """Trains the heads within the budget."""
    target = job.target()
    assert job.corpus is not None
    examples = read_examples(job.corpus, target)
    vocabulary = target.architecture.vocabulary
    ids = frequent_tokens(examples.training, vocabulary, HEAD_TOKENS)
    rows = head_weight(job.target_folder)[ids].to(torch.bfloat16)
    module = MedusaTraining(target.architecture.hidden, rows.to(job.device)).to(job.device)
    recipe = Recipe(tokens=job.budget.tokens, seed=job.budget.seed)
    curve = train(module, module.loss, module.evaluate, examples, recipe, job=job, name="medusa")
    covered = coverage(examples.held_out, ids, vocabulary)
    ranks = [[covered * curve.final[f"head_{head}_rank_{rank}"] for rank in range(RANKS)] for head in range(HEADS)]
    return Made(_artifact(module.heads, rows, ids, ranks), {"curve": curve.report(), "coverage": covered})


def untrained(target: Transformer, seed: int) -> Artifact:
    """Random heads over three quarters of the vocabulary."""
    generator = torch.Generator().manual_seed(seed)
    vocabulary, hidden = target.architecture.vocabulary, target.architecture.hidden
    ids = torch.randperm(vocabulary, generator=generator)[: max(2, vocabulary * 3 // 4)].sort().values
    heads = MedusaHeads(hidden, HEADS)
    with torch.no_grad():
        heads.weight.normal_(0.0, 0.3, generator=generator)
    rows = torch.randn(len(ids), hidden, generator=generator)
    return _artifact(heads, rows, ids, [[0.5, 0.2, 0.1]] * HEADS)


def _artifact(heads: MedusaHeads, rows: Tensor, ids: Tensor, ranks: list[list[float]]) -> Artifact:
    weights = {name: tensor.detach().to(rows.dtype) for name, tensor in heads.state_dict().items()}
    return Artifact(weights | {"head": rows, "ids": ids}, {"rank_acceptance": ranks})
