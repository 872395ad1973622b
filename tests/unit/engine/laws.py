"""The exact law of what a verification rule emits, by integrating over its uniform numbers one at a time."""

import torch

from specatlas.engine.draft import Draft
from specatlas.engine.sampling import SamplingSettings

GRID = 1024
LAST = 1 - 2**-24
UNIFORMS = (torch.arange(GRID) + 0.5) / GRID


def law(rule, draft: Draft, p: torch.Tensor) -> dict[tuple[int, ...], float]:
    """Probability of each emitted sequence for one draft of one row; exact to 1 / GRID a decision.

    Whether node i stands depends on the nodes before it and on its own uniform, so each is integrated on a grid while
    the earlier ones are held at 0 (stands) or almost 1 (falls).

    Args:
        rule: The rule.
        draft: One row.
        p: Target probabilities after the root and after every node, `[1 + nodes, vocabulary]`.
    """
    logits = p.log()
    found: dict[tuple[int, ...], float] = {}

    def verdicts(held, column):
        uniforms = torch.full((GRID, 1 + draft.nodes), LAST)
        uniforms[:, 1 : 1 + len(held)] = torch.tensor(held)
        uniforms[:, column] = UNIFORMS
        return rule(_repeated(draft), logits.expand(GRID, -1, -1), SamplingSettings(1.0), uniforms)

    def descend(held, mass):
        node = len(held)
        if node == draft.nodes:
            verdict = verdicts(held, 0)
            path = verdict.paths[0]
            assert all(other == path for other in verdict.paths)
            tokens = [int(draft.tokens[0, place]) for place in path]
            for bonus in verdict.bonus:
                found[(*tokens, bonus)] = found.get((*tokens, bonus), 0.0) + mass / GRID
            return
        stands = sum(node in path for path in verdicts(held, node + 1).paths) / GRID
        if stands > 0:
            descend([*held, 0.0], mass * stands)
        if stands < 1:
            descend([*held, LAST], mass * (1 - stands))

    descend([], 1.0)
    return found


def _repeated(draft: Draft) -> Draft:
    """The row `GRID` times."""

    def repeat(tensor):
        return None if tensor is None else tensor.expand(GRID, *tensor.shape[1:])

    return Draft(
        repeat(draft.tokens), list(draft.counts) * GRID, repeat(draft.parents), repeat(draft.q), repeat(draft.q_rows)
    )


def continued(found, p_after, length):
    """Sequences cut or continued to `length` tokens, the missing ones drawn from the target's own p."""
    total: dict[tuple[int, ...], float] = {}

    def extend(tokens, mass):
        if len(tokens) == length:
            total[tokens] = total.get(tokens, 0.0) + mass
            return
        for token, p in enumerate(p_after(tokens).tolist()):
            extend((*tokens, token), mass * p)

    for tokens, mass in found.items():
        extend(tokens[:length], mass)
    return total
