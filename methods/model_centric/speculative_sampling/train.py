"""The draft model's training: a few decoder layers, distilled from the target on the target's own text."""

import torch
from torch import Tensor, nn

from specatlas.drafting.draft_checkpoint import draft_architecture, draft_artifact
from specatlas.drafting.setup import Artifact
from specatlas.engine.loading import fuse, head_weight, read_safetensors
from specatlas.engine.transformer import Transformer
from specatlas.training.examples import Minibatch, read_examples
from specatlas.training.job import Job, Made
from specatlas.training.loop import Recipe, train
from specatlas.training.losses import agreement, soft_cross_entropy, teacher_logits
from specatlas.training.vocabulary import coverage, frequent_tokens

LAYERS = 2
HEAD_TOKENS = 8192


class DraftTraining(nn.Module):
    """The draft model with the frequent rows of the target's frozen head; its embeddings are the target's, frozen."""

    def __init__(self, model: Transformer, rows: Tensor) -> None:
        super().__init__()
        self.model = model
        model.embedding.requires_grad_(False)
        self.register_buffer("rows", rows, persistent=False)

    def pair(self, batch: Minibatch, asked: Tensor) -> tuple[Tensor, Tensor]:
        """(draft logits, target logits) over the frequent tokens, at the positions of the mask `asked`."""
        with torch.autocast(batch.tokens.device.type, torch.bfloat16):
            hidden = self.model.forward_causal(batch.tokens).hidden[asked]
            student = teacher_logits(self.model.norm(hidden), self.rows)
        return student, teacher_logits(batch.features[asked], self.rows)

    def loss(self, batch: Minibatch) -> Tensor:
        """Cross-entropy under the target's distribution."""
        return soft_cross_entropy(*self.pair(batch, batch.text))

    def evaluate(self, batch: Minibatch) -> dict[str, float]:
        """Agreement with the target."""
        return {"agreement": agreement(*self.pair(batch, batch.answer))}


def make(job: Job) -> Made:
    """Trains the draft model within the budget."""
    target = job.target()
    assert job.corpus is not None
    examples = read_examples(job.corpus, target)
    vocabulary = target.architecture.vocabulary
    ids = frequent_tokens(examples.training, vocabulary, HEAD_TOKENS)
    rows = head_weight(job.target_folder)[ids].to(torch.bfloat16)
    model = _from_target(job, target)
    module = DraftTraining(model, rows.to(job.device)).to(job.device)
    recipe = Recipe(tokens=job.budget.tokens, seed=job.budget.seed)
    curve = train(module, module.loss, module.evaluate, examples, recipe, job=job, name="draft model")
    covered = coverage(examples.held_out, ids, vocabulary)
    return Made(draft_artifact(model, rows, ids), {"curve": curve.report(), "coverage": covered})


def _from_target(job: Job, target: Transformer) -> Transformer:
    """A draft model whose layers start as the target's first and last ones."""
    weights = fuse(read_safetensors(job.target_folder), target.architecture, job.target_folder)
    model = Transformer(draft_architecture(target.architecture, LAYERS))
    sources = [0, *range(target.architecture.layers - LAYERS + 1, target.architecture.layers)]
    own = {name: tensor.float() for name, tensor in weights.items() if not name.startswith("layers.")}
    for place, source in enumerate(sources):
        prefix = f"layers.{source}."
        own |= {
            f"layers.{place}.{name.removeprefix(prefix)}": tensor.float()
            for name, tensor in weights.items()
            if name.startswith(prefix)
        }
    model.load_state_dict(own, strict=False)
    # The reduced head is used instead; a full one would only be carried along.
    model.head.weight = nn.Parameter(torch.empty(0), requires_grad=False)
    return model


def untrained(target: Transformer, seed: int) -> Artifact:
    """A random draft model over three quarters of the vocabulary."""
    generator = torch.Generator().manual_seed(seed)
    vocabulary, hidden = target.architecture.vocabulary, target.architecture.hidden
    ids = torch.randperm(vocabulary, generator=generator)[: max(2, vocabulary * 3 // 4)].sort().values
    model = Transformer(draft_architecture(target.architecture, 1))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(0.0, 0.3, generator=generator)
    return draft_artifact(model, torch.randn(len(ids), hidden, generator=generator), ids)
