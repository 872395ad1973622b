"""A sound method, and the ways to break it: each is one change of its source or card."""

from dataclasses import dataclass, field

import yaml

SOUND = '''
"""Draws chains from a fixed random table of next-token scores."""

import torch
from specatlas.drafting.setup import Setup
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter, Step
from specatlas.engine.sampling import DRAFT_STREAM, choose, probabilities


class Table(Drafter):
    def __init__(self, scores, length):
        super().__init__()
        self.scores, self.length = scores, length
        self.starts = 0

    def start(self, context):
        self.proposed = 0
        self.starts += 1

    def propose(self, context):
        counts = [min(self.length, budget) for budget in context.budgets]
        if max(counts) == 0:
            return Draft.empty(context.batch, context.device)
        token = torch.tensor(context.roots, device=context.device)
        uniforms = context.uniforms(max(counts), DRAFT_STREAM)
        tokens, rows = [], []
        for place in range(max(counts)):
            q = probabilities(self.scores[token], context.settings)
            token = choose(q, uniforms[:, place])
            tokens.append(token)
            rows.append(q)
            self.passes += 1
        self.proposed += max(counts)
        q = None if context.settings.greedy else torch.stack(rows, 1)
        return Draft(torch.stack(tokens, 1), counts, q=q)

    def observe(self, context, step):
        pass


def build(setup):
    vocabulary = setup.target.architecture.vocabulary
    scores = torch.randn(vocabulary, vocabulary, generator=torch.Generator().manual_seed(0))
    return Table(scores, setup.hyperparameters["draft_length"])
'''

CARD = {
    "slug": "sound",
    "name": "Table",
    "summary": "Draws from a table.",
    "class": "draft_centric",
    "place": {"survey": None, "atlas": "draft_centric/retrieval"},
    "draft_shape": "chain",
    "lossless": {"greedy": "exact", "sampling": "distribution"},
    "verification": {"greedy": "greedy", "sampling": "speculative_sampling"},
    "hyperparameters": {
        "draft_length": {
            "default": 3,
            "minimum": 0,
            "maximum": 8,
            "unit": "tokens",
            "description": "Tokens drafted a step.",
        }
    },
    "status": "runnable",
}

TOKENS = "        return Draft(torch.stack(tokens, 1), counts, q=q)\n"


@dataclass(frozen=True)
class Breakage:
    """One bug, and the check that must find it.

    Attributes:
        check: Name of the check.
        says: Words of its detail.
        edits: Replacements in the source, (old, new).
        card: Replaced keys of the card.
        train: Source of `train.py`, where the bug needs an artifact.
    """

    check: str
    says: str
    edits: tuple[tuple[str, str], ...] = ()
    card: dict = field(default_factory=dict)
    train: str | None = None


def shifted(by):
    """Drafts that depend on `by`; the token that is continued stays the same, so that q fits no longer."""
    return (
        (
            "            tokens.append(token)",
            f"            token = (token + {by}) % len(self.scores)\n            tokens.append(token)",
        ),
        ("q = None if context.settings.greedy else torch.stack(rows, 1)", "q = None"),
    )


def with_parents(parents):
    """The last line of `propose`, with parents."""
    return f"        return Draft(torch.stack(tokens, 1), counts, {parents}.expand(context.batch, -1))\n"


BREAKAGES = {
    "state_leaks_from_prompt_to_prompt": Breakage("no-carry-over", "steps", shifted("self.starts")),
    "state_leaks_through_an_abort": Breakage("abort-and-reuse", "after an abort", shifted("self.starts")),
    "instances_share_state": Breakage(
        "side-by-side",
        "instance",
        (
            *shifted("len(SHARED)"),
            ("class Table", "SHARED = []\n\n\nclass Table"),
            ("self.starts += 1", "SHARED.clear()"),
            ("        self.proposed += max(counts)", "        SHARED.append(1)"),
        ),
    ),
    "rejected_tokens_stay": Breakage("first-token-ignores-length", "first draft token", shifted("self.proposed")),
    "batch_leaks_into_rows": Breakage("batch-rows", "in a batch", shifted("context.batch")),
    "rows_leak_into_rows": Breakage("batch-rows", "in a batch", shifted("sum(map(len, context.tokens))")),
    "argmax_with_softmax_q": Breakage(
        "distribution", "not the target's", (("token = choose(q, uniforms[:, place])", "token = q.argmax(-1)"),)
    ),
    "q_of_another_temperature": Breakage(
        "distribution",
        "not the target's",
        (
            ("rows.append(q)", "rows.append(q if context.settings.greedy else self.scores[token0].softmax(-1))"),
            ("            q = prob", "            token0 = token\n            q = prob"),
        ),
    ),
    "q_of_the_position_before": Breakage(
        "distribution", "not the target's", (("torch.stack(rows, 1)", "torch.stack([rows[0], *rows[:-1]], 1)"),)
    ),
    "verification_random_numbers_reused": Breakage(
        "distribution",
        "not the target's",
        (
            ("import DRAFT_STREAM", "import VERIFICATION_STREAM as DRAFT_STREAM"),
            ("context.uniforms(max(counts), DRAFT_STREAM)", "context.uniforms(max(counts) + 1, DRAFT_STREAM)[:, 1:]"),
        ),
    ),
    "unlikely_tokens_withdrawn": Breakage(
        "distribution",
        "not the target's",
        (
            (
                TOKENS,
                "        kept = rows[0].gather(1, tokens[0][:, None])[:, 0] > 0.2\n"
                "        counts = [count if keep else 0 for count, keep in zip(counts, kept.tolist())]\n" + TOKENS,
            ),
        ),
    ),
    "q_at_temperature_zero": Breakage(
        "draft-contract", "temperature 0", (("None if context.settings.greedy else ", ""),)
    ),
    "q_without_the_token": Breakage(
        "draft-contract",
        "probability 0",
        (
            (
                "            rows.append(q)",
                "            rows.append((1 - torch.eye(len(self.scores))[token]) / (len(self.scores) - 1))",
            ),
        ),
    ),
    "token_outside_the_vocabulary": Breakage(
        "draft-contract", "vocabulary", (("torch.stack(tokens, 1), counts", "torch.stack(tokens, 1) + 1, counts"),)
    ),
    "parents_in_a_cycle": Breakage(
        "draft-contract",
        "earlier nodes",
        (
            (
                TOKENS,
                with_parents("torch.arange(max(counts)).flip(0)"),
            ),
        ),
        {"draft_shape": "tree", "verification": {"greedy": "greedy", "sampling": "siblings_without_replacement"}},
    ),
    "parents_in_a_chain": Breakage(
        "draft-contract",
        "chain",
        (
            (
                TOKENS,
                with_parents("torch.arange(-1, max(counts) - 1)"),
            ),
        ),
    ),
    "drafts_though_the_card_says_none": Breakage("draft-contract", "none", (), {"draft_shape": "none"}),
    "target_changed": Breakage(
        "target-untouched",
        "changed",
        (("self.proposed = 0", "self.proposed = 0\n        context.target.norm.weight.mul_(1.001)"),),
    ),
    "target_rearranged": Breakage(
        "target-untouched",
        "changed",
        (("self.proposed = 0", "self.proposed = 0\n        context.target.layers = context.target.layers[:1]"),),
    ),
    "cache_not_branched": Breakage(
        "exact-hyperparameters",
        "differs from plain",
        (
            (
                "self.proposed += max(counts)",
                "context.target(token[:, None], context.cache)\n        context.cache.advance([1] * context.batch)",
            ),
        ),
    ),
    "committed_text_edited": Breakage(
        "exact-prompts", "", (("self.proposed += max(counts)", "context.tokens[0].append(0)"),)
    ),
    "nothing_drafted": Breakage("speculates", "silently", (("if max(counts) == 0:", "if True:"),)),
    "no_empty_draft": Breakage("exact-limits", "", (("if max(counts) == 0:", "if False:"),)),
    "global_random_numbers": Breakage(
        "seeds",
        "same seeds",
        (("context.uniforms(max(counts), DRAFT_STREAM)", "torch.rand(context.batch, max(counts))"),),
    ),
    "one_seed_for_all": Breakage(
        "batch-rows",
        "in a batch",
        (
            (
                "context.uniforms(max(counts), DRAFT_STREAM)",
                "context.uniforms(max(counts), DRAFT_STREAM)[:1].expand(context.batch, -1)",
            ),
        ),
    ),
    "passes_not_counted": Breakage(
        "identities", "passes", (("self.passes += 1", "pass"),), {"needs": {"draft_model": True}}
    ),
    "lossy_rule_called_lossless": Breakage(
        "card",
        "lossy",
        (),
        {"verification": {"greedy": "greedy", "sampling": "typical_acceptance"}, "draft_shape": "tree"},
    ),
    "batch_not_declared": Breakage("card", "batched", (), {"batch": False}),
    "refuses_its_defaults": Breakage(
        "card",
        "defaults",
        (
            (
                "    vocabulary =",
                "    from specatlas.errors import CatalogError\n    raise CatalogError('no')\n    vocabulary =",
            ),
        ),
    ),
    "typical_acceptance_called_lossless": Breakage(
        "distribution", "not the target's", (), {"verification": {"greedy": "greedy", "sampling": "typical_acceptance"}}
    ),
    "greedy_whatever_the_temperature": Breakage(
        "distribution", "not the target's", (), {"verification": {"greedy": "greedy", "sampling": "greedy"}}
    ),
    "foreign_artifact_not_refused": Breakage(
        "refusals",
        "vocabulary of 61",
        (
            (
                "    scores = torch.randn(vocabulary, vocabulary, generator=torch.Generator().manual_seed(0))",
                "    scores = setup.artifacts[setup_slug].tensors['scores']",
            ),
            ("def build", "setup_slug = 'foreign_artifact_not_refused'\n\n\ndef build"),
        ),
        {"needs": {"artifacts": ["foreign_artifact_not_refused"]}},
        "import torch\nfrom specatlas.drafting.setup import Artifact\n\n\ndef untrained(target, seed):\n"
        "    size = target.architecture.vocabulary\n    return Artifact({'scores': torch.rand(size, size)}, {})\n",
    ),
    "untrained_missing": Breakage(
        "builds", "untrained", (), {"needs": {"artifacts": ["untrained_missing"]}}, "x = 1\n"
    ),
}


def write_method(folder, slug, breakage):
    """Writes the method into a catalog's folder."""
    source = SOUND
    for old, new in breakage.edits if breakage else ():
        assert old in source, old
        source = source.replace(old, new)
    place = folder / "draft_centric" / slug
    place.mkdir(parents=True)
    (place / "method.py").write_text(source, encoding="utf-8")
    card = CARD | (breakage.card if breakage else {}) | {"slug": slug}
    (place / "method.yaml").write_text(yaml.safe_dump(card), encoding="utf-8")
    if breakage and breakage.train:
        (place / "train.py").write_text(breakage.train, encoding="utf-8")
