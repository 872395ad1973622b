"""Verification rules on tiny vocabularies, where the law of their output can be computed and must be the target's."""

import itertools
import math

import pytest
import torch

from specatlas.engine.draft import Draft
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.verification import RULES, make_rule
from specatlas.errors import CatalogError, InvalidDraft, NumericalError
from tests.unit.engine.laws import GRID, LAST, continued, law

SAMPLED = SamplingSettings(1.0)
CHAIN, TREE = make_rule("speculative_sampling"), make_rule("siblings_without_replacement")


class Tables:
    """Random next-token distributions of target and drafter by prefix; `sharp` ones hold zeros, as top-k leaves."""

    def __init__(self, vocabulary, seed, sharp=False):
        self.vocabulary, self.sharp = vocabulary, sharp
        self.generator = torch.Generator().manual_seed(seed)
        self.known = {}

    def __call__(self, kind, prefix):
        if (kind, prefix) not in self.known:
            p = torch.rand(self.vocabulary, generator=self.generator) ** 3 + 0.02
            if self.sharp:
                p[int(torch.randint(self.vocabulary, (1,), generator=self.generator))] = 0.0
            self.known[kind, prefix] = p / p.sum()
        return self.known[kind, prefix]

    def p(self, prefix):
        return self("p", tuple(prefix))

    def q(self, prefix):
        return self("q", tuple(prefix))


def assert_law_is_the_targets(total, tables, length):
    """Exact but for the grid's resolution."""
    expected = {}
    for tokens in itertools.product(range(tables.vocabulary), repeat=length):
        expected[tokens] = math.prod(float(tables.p(tokens[:place])[tokens[place]]) for place in range(length))
    for tokens, mass in expected.items():
        assert total.get(tokens, 0.0) == pytest.approx(mass, abs=4 / GRID), tokens
        if mass == 0:
            assert total.get(tokens, 0.0) == 0.0, "a token of probability 0 was emitted"
    assert sum(total.values()) == pytest.approx(1.0, abs=1e-4)


def path_of(node, tokens, parents):
    path = []
    while node >= 0:
        path.append(tokens[node])
        node = parents[node]
    return tuple(reversed(path))


def target_rows(tables, tokens, parents):
    """p after the root and after every node, `[1 + nodes, vocabulary]`."""
    return torch.stack([tables.p(()), *(tables.p(path_of(node, tokens, parents)) for node in range(len(tokens)))])


def draft_of(tokens, parents=None, q=None, q_rows=None):
    return Draft(
        torch.tensor([tokens], dtype=torch.long).view(1, -1),
        [len(tokens)],
        None if parents is None else torch.tensor([parents]),
        None if q is None else torch.stack(q)[None],
        None if q_rows is None else torch.tensor([q_rows]),
    )


def add(total, found, weight):
    for tokens, mass in found.items():
        total[tokens] = total.get(tokens, 0.0) + weight * mass


@pytest.mark.parametrize("rule", ["speculative_sampling", "siblings_without_replacement"])
@pytest.mark.parametrize(("vocabulary", "length", "seed"), [(5, 1, 1), (5, 1, 2), (5, 1, 3), (3, 2, 4)])
@pytest.mark.parametrize("sharp", [False, True], ids=["full", "with zeros"])
def test_sampled_chains_keep_the_distribution(rule, vocabulary, length, seed, sharp):
    """Over all drafts, weighted by q; the tree's rule must agree where the tree is a chain."""
    tables, total = Tables(vocabulary, seed, sharp), {}
    for tokens in itertools.product(range(vocabulary), repeat=length):
        q = [tables.q(tokens[:place]) for place in range(length)]
        weight = math.prod(float(q[place][token]) for place, token in enumerate(tokens))
        if weight == 0:
            continue
        parents = list(range(-1, length - 1))
        found = law(make_rule(rule), draft_of(tokens, None, q), target_rows(tables, tokens, parents))
        add(total, continued(found, tables.p, length + 1), weight)
    assert_law_is_the_targets(total, tables, length + 1)


@pytest.mark.parametrize("rule", [CHAIN, TREE], ids=["chain", "tree"])
@pytest.mark.parametrize("tokens", [(), (0,), (2, 1), (1, 1)])
@pytest.mark.parametrize("sharp", [False, True], ids=["full", "with zeros"])
def test_deterministic_chains_keep_the_distribution(rule, tokens, sharp):
    """For every single draft, since none was drawn."""
    tables = Tables(3, 11, sharp)
    found = law(rule, draft_of(tokens), target_rows(tables, tokens, list(range(-1, len(tokens) - 1))))
    assert_law_is_the_targets(continued(found, tables.p, 3), tables, 3)


TREES = {
    "two children": ([-1, -1], 4),
    "all tokens": ([-1, -1, -1], 3),
    "a child has children": ([-1, -1, 0, 0], 3),
    "the second child has one": ([-1, -1, 1], 3),
}


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("sharp", [False, True], ids=["full", "with zeros"])
def test_deterministic_trees_keep_the_distribution(name, sharp):
    parents, vocabulary = TREES[name]
    tables = Tables(vocabulary, 17, sharp)
    generator = torch.Generator().manual_seed(3)
    for _ in range(6):
        tokens = torch.randint(vocabulary, (len(parents),), generator=generator).tolist()
        found = law(TREE, draft_of(tokens, parents), target_rows(tables, tokens, parents))
        assert_law_is_the_targets(continued(found, tables.p, 3), tables, 3)


def without_replacement(q, count):
    """(tokens, probability) of all ordered draws; the drafter stops where q has no mass left."""
    if count == 0:
        yield (), 1.0
        return
    for token in q.nonzero().flatten().tolist():
        rest = q.clone()
        rest[token] = 0.0
        if rest.sum() > 0:
            rest = rest / rest.sum()
        for others, mass in without_replacement(rest, count - 1):
            yield (token, *others), float(q[token]) * mass


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("sharp", [False, True], ids=["full", "with zeros"])
def test_siblings_without_replacement_keep_the_distribution(count, sharp):
    tables, total = Tables(4, 23 + count, sharp), {}
    for tokens, weight in without_replacement(tables.q(()), count):
        draft = draft_of(tokens, [-1] * count, [tables.q(())], [0] * count)
        found = law(TREE, draft, target_rows(tables, tokens, [-1] * count))
        add(total, continued(found, tables.p, 1), weight)
    assert_law_is_the_targets(total, tables, 1)


def test_two_levels_of_siblings_keep_the_distribution():
    """Root: two children without replacement; each of them: one child. Later levels have q of their own."""
    tables, total = Tables(3, 31), {}
    parents = [-1, -1, 0, 1]
    for roots, weight in without_replacement(tables.q(()), 2):
        for children in itertools.product(range(3), repeat=2):
            q = [tables.q(()), tables.q(roots[:1]), tables.q(roots[1:])]
            mass = weight * float(q[1][children[0]]) * float(q[2][children[1]])
            tokens = [*roots, *children]
            found = law(TREE, draft_of(tokens, parents, q, [0, 0, 1, 2]), target_rows(tables, tokens, parents))
            add(total, continued(found, tables.p, 3), mass)
    assert_law_is_the_targets(total, tables, 3)


def accepted_share(rule, p, q):
    """Share of drafts of one token that stand, over all drafts weighted by q."""
    share = 0.0
    for token in range(len(p)):
        found = law(rule, draft_of([token], None, [q]), torch.stack([p, p]))
        share += float(q[token]) * sum(mass for tokens, mass in found.items() if len(tokens) == 2)
    return share


@pytest.mark.parametrize("rule", [CHAIN, TREE], ids=["chain", "tree"])
@pytest.mark.parametrize("seed", range(4))
def test_acceptance_is_one_minus_total_variation(rule, seed):
    tables = Tables(4, seed, sharp=seed % 2 == 1)
    p, q = tables.p(()), tables.q(())
    assert accepted_share(rule, p, q) == pytest.approx(1 - float((p - q).abs().sum()) / 2, abs=4 / GRID)
    assert accepted_share(rule, p, p) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("uniform", [0.0, 2**-24, 0.5, LAST])
@pytest.mark.parametrize("rule", [CHAIN, TREE], ids=["chain", "tree"])
def test_tokens_of_probability_zero_are_never_emitted(rule, uniform):
    """At the edges of the uniforms too (fault D10), whatever q said."""
    p = torch.tensor([[0.0, 0.5, 0.0, 0.5]] * 3)
    for q in (None, torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.tensor([0.5, 0.0, 0.5, 0.0]), torch.full((4,), 0.25)):
        for token in (0, 2):
            if q is not None and q[token] == 0:
                continue
            draft = draft_of([token, 1], None, None if q is None else [q, q])
            verdict = rule(draft, p.log()[None], SAMPLED, torch.full((1, 3), uniform))
            assert verdict.paths == [[]]
            assert verdict.bonus[0] in (1, 3)


@pytest.mark.parametrize("rule", [CHAIN, TREE], ids=["chain", "tree"])
def test_no_residual_mass_falls_back_to_p(rule):
    """Rounding may reject although p = q leaves nothing to redistribute (fault D16)."""
    generator = torch.Generator().manual_seed(0)
    rejected = 0
    for _ in range(300):
        p = torch.rand(5, generator=generator)
        p[0] = p[4] = 0.0
        p = (p / p.sum()).log().softmax(-1)
        draft = draft_of([1], None, [p])
        verdict = rule(draft, torch.stack([p, p]).log()[None], SAMPLED, torch.tensor([[0.3, LAST]]))
        rejected += verdict.paths == [[]]
        assert verdict.bonus[0] in (1, 2, 3)
    assert rejected > 0, "the case did not occur"


def test_typical_acceptance_by_hand():
    """Stands if p(x) > min(ε, δ exp(-H)); the longest path wins, the likelier on a tie, the bonus follows it."""
    rule = make_rule("typical_acceptance", {"typical_epsilon": 0.3, "typical_delta": 0.6})
    root = torch.tensor([0.45, 0.25, 0.2, 0.1])
    entropy = -float((root * root.log()).sum())
    threshold = min(0.3, 0.6 * math.exp(-entropy))
    assert 0.1 < threshold < 0.2, "or the example says nothing"
    sure = torch.tensor([0.97, 0.01, 0.01, 0.01])
    assert min(0.3, 0.6 * math.exp(-float(-(sure * sure.log()).sum()))) == 0.3
    for tokens, expected in (([2], [0]), ([3], []), ([2, 0], [0, 1]), ([2, 1], [0]), ([0, 0], [0, 1])):
        p = torch.stack([root, *[sure] * len(tokens)])
        verdict = rule(draft_of(tokens), p.log()[None], SAMPLED, torch.full((1, 1 + len(tokens)), 0.5))
        assert verdict.paths == [expected]
        assert verdict.bonus == [0 if expected else 1]
    # Two paths of one token stand: the likelier; then a deeper one beats both.
    p = torch.stack([root, sure, sure, sure])
    half = torch.full((1, 4), 0.5)
    assert rule(draft_of([2, 0, 1], [-1, -1, 1]), p.log()[None], SAMPLED, half).paths == [[1]]
    assert rule(draft_of([0, 2, 0], [-1, -1, 1]), p.log()[None], SAMPLED, half).paths == [[1, 2]]


@pytest.mark.parametrize("name", RULES)
def test_at_temperature_zero_every_rule_is_greedy(name):
    """On random trees or chains, with ties broken by the first index."""
    generator = torch.Generator().manual_seed(1)
    rule, greedy = make_rule(name), make_rule("greedy")
    for _ in range(50):
        nodes = int(torch.randint(0, 6, (1,), generator=generator))
        logits = torch.randint(0, 3, (1, 1 + nodes, 3), generator=generator).float()
        tokens = torch.randint(0, 3, (1, nodes), generator=generator)
        parents = None
        if not rule.chains_only and nodes:
            parents = torch.stack([torch.randint(-1, node, (1,), generator=generator) if node else torch.tensor([-1])
                                   for node in range(nodes)], 1)  # fmt: skip
            if repeated_siblings(tokens[0].tolist(), parents[0].tolist()):
                continue
        draft = Draft(tokens, [nodes], parents)
        uniforms = torch.rand(1, 1 + nodes, generator=generator)
        got, expected = (
            rule(draft, logits, SamplingSettings(), uniforms),
            greedy(draft, logits, SamplingSettings(), None),
        )
        assert got.paths == expected.paths
        assert got.bonus == expected.bonus


def repeated_siblings(tokens, parents):
    """Of twins either may be taken; the emitted tokens are the same, the node is not."""
    return len(set(zip(tokens, parents, strict=True))) < len(tokens)


RULE_SETTINGS = [(name, SamplingSettings()) for name in RULES] + [(name, SAMPLED) for name in RULES if name != "greedy"]


@pytest.mark.parametrize(("name", "chosen"), RULE_SETTINGS)
@pytest.mark.parametrize("node", [0, 1, 2])
def test_nan_is_refused(name, chosen, node):
    logits = torch.zeros(2, 3, 5)
    logits[1, node, 3] = float("nan")
    draft = Draft(torch.tensor([[1, 2], [3, 4]]), [2, 2])
    with pytest.raises(NumericalError, match="NaN"):
        make_rule(name)(draft, logits, chosen, torch.full((2, 3), 0.5))


@pytest.mark.parametrize("name", RULES)
def test_rows_have_their_own_draft_lengths(name):
    """Padding is never accepted, even where it holds the wanted token."""
    logits = torch.full((3, 4, 5), -30.0)
    logits[:, :, 0] = 30.0
    draft = Draft(torch.zeros(3, 3, dtype=torch.long), [0, 2, 3])
    verdict = make_rule(name)(draft, logits, SamplingSettings(), torch.full((3, 4), 0.5))
    assert verdict.paths == [[], [0, 1], [0, 1, 2]]
    assert verdict.bonus == [0, 0, 0]


def test_misuse_is_refused():
    with pytest.raises(InvalidDraft, match="chains"):
        CHAIN(draft_of([1], [-1]), torch.zeros(1, 2, 4), SAMPLED, torch.zeros(1, 2))
    with pytest.raises(CatalogError, match="No verification rule is called `magic`"):
        make_rule("magic")


def test_a_rule_takes_only_its_own_parameters():
    rule = make_rule("typical_acceptance", {"typical_epsilon": 0.5, "tree_nodes": 12})
    assert (rule.epsilon, rule.delta) == (0.5, 0.3)
