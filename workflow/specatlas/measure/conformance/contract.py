"""Checks of the card, of what a drafter hands over, and of what it must leave alone."""

import hashlib
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import torch

from specatlas.catalog.card import Losslessness
from specatlas.drafting.methods import load_artifacts, prepare, untrained_artifacts
from specatlas.engine.draft import Draft
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.transformer import Transformer
from specatlas.engine.verification import RULES, make_rule
from specatlas.errors import CatalogError, MissingArtifact, Refusal, UnsupportedSampling
from specatlas.measure.conformance.models import BASE, Case, random_transformer, small, varied
from specatlas.measure.conformance.registry import CheckFailed, check, expect_equal
from specatlas.measure.conformance.subject import GREEDY, SAMPLED, Runner, Subject


@check("card")
def card(subject: Subject) -> str:
    """What the card claims fits its rules, and its extremes are legal."""
    method = subject.method.card
    assert method.verification is not None
    for claim, rule in (
        (method.lossless.greedy, method.verification.greedy),
        (method.lossless.sampling, method.verification.sampling),
    ):
        if rule is None:
            continue
        make_rule(rule, method.settings())
        if claim is not Losslessness.LOSSY and RULES[rule].preserves == "lossy":
            raise CheckFailed(f"the card claims `{claim}`, but its rule {rule} is lossy; say `lossy`")
    refused = _try_extremes(subject)
    drafter, _ = subject.build(small())
    expect_equal(drafter.batched, method.batch, "the drafter's `batched`, beside the card's `batch`")
    return f"claims fit the rules; {refused} extreme settings are refused by type"


def _try_extremes(subject: Subject) -> int:
    """Builds at every extreme; returns how many the method refuses by type."""
    refused = 0
    for overrides in subject.variants():
        effective = subject.method.card.settings(overrides)
        try:
            subject.build(small(), GREEDY, overrides)
        except (CatalogError, Refusal) as refusal:
            refused += 1
            if effective == subject.method.card.settings():
                raise CheckFailed(f"refused at its own defaults: {refusal}") from refusal
    return refused


@check("builds")
def builds(subject: Subject) -> str:
    """It can be built for every setting that the card offers."""
    settings = [GREEDY]
    if subject.samples:
        settings += [SAMPLED, SamplingSettings(0.7, top_k=3), SamplingSettings(1.3, top_p=0.9)]
    for one in settings:
        subject.build(varied(), one)
    return f"{len(settings)} sampling settings"


@check("draft-contract")
def draft_contract(subject: Subject) -> str:
    """Drafts are well formed, of the declared shape, and their q are distributions that could have given the tokens."""
    seen = 0
    for settings in [GREEDY, *([SAMPLED, SamplingSettings(0.6, top_k=3)] if subject.samples else [])]:
        for corner in subject.corners():
            try:
                runner = subject.runner(small(), settings, corner)
            except CatalogError:
                continue
            runner.decode(small().prompts)
            for _, draft in runner.watched.proposed:
                _check_draft(draft, subject, settings)
                seen += draft.nodes
    return f"{seen} nodes well formed"


def _check_draft(draft: Draft, subject: Subject, settings: SamplingSettings) -> None:
    draft.check(small().vocabulary)
    shape = subject.method.card.draft_shape
    if shape == "none" and draft.nodes:
        raise CheckFailed("the card says `none`, but something is drafted")
    if shape == "chain" and draft.parents is not None:
        raise CheckFailed("the card says `chain`, but the draft has parents")
    if draft.tokens.dtype != torch.long or (draft.parents is not None and draft.parents.dtype != torch.long):
        raise CheckFailed("tokens and parents must be int64")
    if draft.q is None or draft.nodes == 0:
        return
    if settings.greedy:
        raise CheckFailed("q at temperature 0: picks are deterministic there")
    if draft.q.dtype != torch.float32 or not torch.allclose(draft.q.sum(-1), torch.ones(()), atol=1e-4):
        raise CheckFailed("q must be fp32 and sum to 1")
    rows = draft.q_rows if draft.q_rows is not None else torch.arange(draft.nodes).expand_as(draft.tokens)
    chosen = draft.q[torch.arange(len(rows))[:, None], rows, draft.tokens]
    for row, count in enumerate(draft.counts):
        if bool((chosen[row, :count] <= 0).any()):
            raise CheckFailed("a drafted token has probability 0 under its own q")


@check("target-untouched")
def target_untouched(subject: Subject) -> str:
    """Weights, buffers and architecture of the target are what they were."""
    case = small()
    case = replace(case, target=deepcopy(case.target))
    before = _fingerprint(case.target)
    for settings in [GREEDY, *([SAMPLED] if subject.samples else [])]:
        subject.runner(case, settings).decode(case.prompts)
    if _fingerprint(case.target) != before:
        raise CheckFailed("the target's weights or architecture changed; work on a copy")
    return "weights and architecture unchanged"


def _fingerprint(target: Transformer) -> str:
    digest = hashlib.sha256(f"{target.architecture} {target.training} {len(target.layers)}".encode())
    for name, tensor in [*target.named_parameters(), *target.named_buffers()]:
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.requires_grad}".encode())
        digest.update(torch.view_as_real(tensor).numpy().tobytes() if tensor.is_complex() else tensor.numpy().tobytes())
    return digest.hexdigest()


@check("refusals")
def refusals(subject: Subject) -> str:
    """What cannot run is refused by type, before anything is decoded."""
    done = []
    if not subject.samples:
        _expect(UnsupportedSampling, lambda: subject.build(small(), SAMPLED), "a temperature above 0")
        done.append("sampling")
    if subject.method.card.needs.artifacts:
        nowhere = Path("/nonexistent")
        _expect(
            MissingArtifact,
            lambda: load_artifacts(subject.catalog, subject.method, lambda slug: nowhere / slug),
            "a missing artifact",
        )
        done.append("missing artifact")
        done += [_foreign_artifact(subject, changes) for changes in _FOREIGN]
    return ", ".join(done) or "nothing to refuse"


_FOREIGN: tuple[dict[str, int], ...] = ({"vocabulary": 90}, {"vocabulary": 20}, {"hidden": 48, "head_dim": 12})


def _foreign_artifact(subject: Subject, changes: dict[str, int]) -> str:
    """An artifact made for another target is refused by type, or does no harm."""
    other = random_transformer(replace(BASE, **changes), 2)  # type: ignore[arg-type]
    artifacts = untrained_artifacts(subject.catalog, subject.method, other, 1)
    case: Case = varied()
    what = "artifact for a target of " + ", ".join(f"{name} {size}" for name, size in changes.items())
    try:
        drafter, rule, _ = prepare(subject.method, case.target, GREEDY, artifacts=artifacts)
    except Refusal as refusal:
        return f"{what}: {refusal.code}"
    got = Runner.of(case.target, drafter, rule, GREEDY, batch=False).decode(case.prompts[:2])
    if subject.exact:
        expect_equal([answer.ids for answer in got], [answer.ids for answer in case.plain[:2]], what)
    return f"{what}: harmless"


def _expect(kind: type[Exception], action: object, what: str) -> None:
    assert callable(action)
    try:
        action()
    except kind:
        return
    raise CheckFailed(f"{what} must be refused with {kind.__name__}")
