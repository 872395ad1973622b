"""Speculative sampling: a small independent language model drafts a chain, token by token."""

from specatlas.drafting.draft_checkpoint import load_draft_model
from specatlas.drafting.draft_model import DraftModel
from specatlas.drafting.setup import Setup
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter, Step


class SpeculativeSampling(Drafter):
    """Drafts `draft_length` tokens a step, each sampled from the draft model as the settings say."""

    def __init__(self, draft_model: DraftModel, length: int, extra_parameters: int) -> None:
        super().__init__()
        self._draft_model, self._length = draft_model, length
        self.extra_parameters = extra_parameters

    def start(self, context: Context) -> None:
        """Prefills the draft model."""
        self._draft_model.start(context)
        self.passes = self._draft_model.passes

    def propose(self, context: Context) -> Draft:
        """A chain from the draft model."""
        draft = self._draft_model.chain(context, [min(self._length, budget) for budget in context.budgets])
        self.passes = self._draft_model.passes
        return draft

    def observe(self, context: Context, step: Step) -> None:  # noqa: ARG002
        """Rolls the draft model back to what was accepted."""
        self._draft_model.observe(step)


def build(setup: Setup) -> Drafter:
    """The draft model trained for this target."""
    artifact = setup.artifacts["speculative_sampling"]
    model, head = load_draft_model(artifact, setup.target)
    drafter = DraftModel(model, head, setup.target.architecture.vocabulary)
    own = sum(tensor.numel() for name, tensor in artifact.tensors.items() if name not in {"head", "ids"})
    return SpeculativeSampling(drafter, setup.hyperparameters["draft_length"], own)
