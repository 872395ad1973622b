"""Lookahead decoding: never changes a token, and its window is the paper's, computed here in slow loops."""

from pathlib import Path

import pytest
import torch

from specatlas.catalog.discovery import load_catalog
from specatlas.drafting.methods import import_part, prepare
from specatlas.drafting.trie import Trie, draft_of
from specatlas.engine.decoding import Decoder
from specatlas.engine.drafter import PlainDrafter
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.verification import make_rule
from tests.support.models import tiny_transformer

METHOD = load_catalog(Path(__file__).parents[3] / "methods")["lookahead_decoding"]
VOCABULARY = 61
PROMPTS = [[5], [1, 2, 3, 4, 5, 6, 7], [9, 8, 7, 9, 8, 7, 9], [60, 0]]
GREEDY = SamplingSettings()
SMALL = [(2, 1, 1), (2, 4, 2), (3, 1, 2), (3, 3, 1), (4, 3, 2), (5, 4, 7)]
SHAPES = [(2, 1, 1), (2, 5, 3), (3, 1, 1), (3, 4, 2), (4, 2, 1), (5, 7, 7), (8, 15, 15)]
"""(ngram, window, guesses)"""


@pytest.fixture(scope="module")
def target():
    return tiny_transformer(VOCABULARY, seed=3)


@pytest.fixture(scope="module")
def plain(target):
    return [decode(target, (PlainDrafter(), make_rule("greedy")), [prompt], 60)[0].ids for prompt in PROMPTS]


def lookahead(target, ngram, window, guesses, settings=GREEDY, text=False):
    values = {"ngram": ngram, "window": window, "guesses": guesses, "text_ngrams": text}
    return prepare(METHOD, target, settings, artifacts={}, overrides=values)[:2]


def decode(target, arm, prompts, limit=40, settings=GREEDY, seed=11):
    decoder = Decoder(target, *arm, settings, check=True)
    return decoder.generate(prompts, StopConditions(limit), [seed + row for row in range(len(prompts))]).generations


def cycling_transformer(period):
    """The next token depends on the last one alone, and the text runs in a circle of `period` tokens."""
    model = tiny_transformer(period, layers=1, seed=1)
    with torch.no_grad():
        model.layers[0].output.weight.zero_()
        model.layers[0].down.weight.zero_()
        model.head.weight.copy_(model.embedding.roll(1, 0))
        model.embedding.div_(model.embedding.norm(dim=1, keepdim=True))
        model.head.weight.div_(model.head.weight.norm(dim=1, keepdim=True))
    return model


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(("ngram", "window", "guesses"), SHAPES)
def test_greedy_text_is_the_targets(target, plain, ngram, window, guesses, text):
    arm = lookahead(target, ngram, window, guesses, text=text)
    for rows in ([1], [0, 1, 2, 3]):
        generations = decode(target, arm, [PROMPTS[row] for row in rows])
        assert [generation.ids for generation in generations] == [plain[row][:40] for row in rows]


def test_batch_changes_nothing_in_a_row(target):
    arm = lookahead(target, 4, 5, 3)
    together = decode(target, arm, PROMPTS)
    for row, prompt in enumerate(PROMPTS):
        alone = decode(target, arm, [prompt], seed=11 + row)[0]
        assert (alone.ids, alone.emitted, alone.drafted) == (
            together[row].ids,
            together[row].emitted,
            together[row].drafted,
        )


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_short_answers(target, plain, limit):
    generation = decode(target, lookahead(target, 5, 7, 7), [PROMPTS[1]], limit)[0]
    assert generation.ids == plain[1][:limit]


def test_window_may_reach_beyond_the_context(target):
    prompts = [[1] * 226, [2] * 200]
    truth = decode(target, (PlainDrafter(), make_rule("greedy")), prompts, 30)
    found = decode(target, lookahead(target, 8, 15, 4), prompts, 30)
    assert [row.ids for row in found] == [row.ids for row in truth]


@pytest.mark.parametrize(("ngram", "window"), [(2, 1), (2, 4), (3, 2), (3, 5), (5, 7)])
def test_repetition_is_accepted(ngram, window):
    model = cycling_transformer(7)
    plain = decode(model, (PlainDrafter(), make_rule("greedy")), [[2]], 90)[0].ids
    assert plain[:9] == [3, 4, 5, 6, 0, 1, 2, 3, 4]
    generation = decode(model, lookahead(model, ngram, window, 1), [[2]], 90)[0]
    assert generation.ids == plain
    # Once every token of the circle has its n-gram, each step emits a whole one.
    assert generation.emitted[-3:-1] == [ngram, ngram]
    assert sum(generation.emitted) / len(generation.emitted) > 1.4


class SlowLookahead:
    """The paper's algorithm for one prompt with plain lists; every guess is the argmax after an explicit text."""

    def __init__(self, target, prompt, first_guesses, ngram, window, guesses):
        self.target, self.N, self.W, self.G = target, ngram, window, guesses
        self.tokens, self.pool = list(prompt), {}
        self.levels = [list(first_guesses)]
        self.tokens.append(self.next_token(self.tokens))

    def next_token(self, text):
        return int(self.target.logits(self.target.forward_causal(torch.tensor([text])).hidden)[0, -1].argmax())

    def text_of(self, level, column):
        """What column `column` of level `level` reads: the committed text, level 0 up to the column, the column."""
        text = self.tokens + self.levels[0][:column]
        return text + [self.levels[above][column] for above in range(1, level + 1)]

    def step(self):
        top = len(self.levels) - 1
        columns = len(self.levels[0]) + 1
        outputs = [self.next_token(self.text_of(top, column)) for column in range(columns)]
        accepted = self.accept()
        if len(self.levels) < self.N - 1:
            self.levels = [level[1:] for level in [*self.levels, outputs]]
        else:
            firsts = [self.tokens[-1], *self.levels[0]]
            for column in range(self.W):
                self.remember((firsts[column], *(level[column] for level in self.levels[1:]), outputs[column]))
            self.levels = [*self.levels[1:], outputs]
            self.levels[0] = self.levels[0][1:]
        self.tokens += accepted

    def remember(self, ngram):
        kept = self.pool.setdefault(ngram[0], [])
        if ngram[1:] in kept:
            kept.remove(ngram[1:])
        kept.append(ngram[1:])
        self.pool[ngram[0]] = kept[-self.G :]

    def accept(self):
        truth = []
        for _ in range(self.N):
            truth.append(self.next_token(self.tokens + truth))
        best = 0
        for guess in self.pool.get(self.tokens[-1], []):
            hits = 0
            while hits < len(guess) and guess[hits] == truth[hits]:
                hits += 1
            best = max(best, hits)
        return truth[: best + 1]


@pytest.mark.parametrize(("ngram", "window", "guesses"), SMALL)
def test_window_and_pool_are_the_papers(target, ngram, window, guesses):
    drafter, rule = lookahead(target, ngram, window, guesses)
    steps = 14
    seen = []
    propose = drafter.propose

    def recorded(context):
        levels = [level[0].tolist() for level in drafter._window.levels]
        pool = {first: list(kept) for first, kept in drafter._pools[0]._by_first.items()}
        seen.append((list(context.tokens[0]), levels, pool))
        return propose(context)

    drafter.propose = recorded
    decode(target, (drafter, rule), [PROMPTS[1]], 80)
    slow = SlowLookahead(target, PROMPTS[1], seen[0][1][0], ngram, window, guesses)
    for tokens, levels, pool in seen[:steps]:
        assert tokens == slow.tokens
        assert levels == slow.levels
        assert pool == slow.pool
        slow.step()
    assert set(seen[0][1][0]) <= {*PROMPTS[1], seen[0][0][-1]}


def test_window_shape_follows_the_official_code():
    window = import_part(METHOD, "window").Window(torch.zeros(1, 9, dtype=torch.long), 7, 5)
    shapes = []
    while not window.full:
        shapes.append([level.shape[1] for level in window.levels])
        window.advance(torch.zeros(1, window.width, dtype=torch.long))
    assert shapes == [[9], [8, 9], [7, 8, 8]]
    assert [level.shape[1] for level in window.levels] == [6, 7, 7, 7]
    probes = window.probes(4)
    assert probes.count == 27
    assert probes.offsets[0].tolist() == [*range(1, 7), *range(1, 8), *range(2, 9), *range(3, 10)]
    assert probes.visible.shape == (1, 27, 32)
    assert probes.visible[0, :, 0].all()
    assert not probes.visible[0, :, 1:5].any()
    # Column 2 of level 2 sees the root, level 0 up to column 2, and column 2 of levels 1 and 2.
    assert (probes.visible[0, 6 + 7 + 2, 5:].nonzero()[:, 0]).tolist() == [0, 1, 6 + 2, 6 + 7 + 2]


def test_pool_keeps_the_most_recent():
    pool = import_part(METHOD, "pool").NgramPool(2)
    for ngram in ([1, 2, 3], [1, 4, 5], [1, 2, 3], [1, 6, 7], [2, 2, 2]):
        pool.add(ngram)
    assert pool.continuations(1) == [(6, 7), (2, 3)]
    assert pool.continuations(9) == []


def test_trie_merges_prefixes():
    trie = Trie.of([(1, 2, 3), (1, 2, 4), (5,), (1,), (5, 2)])
    assert trie.tokens == [1, 2, 3, 4, 5, 2]
    assert trie.parents == [-1, 0, 1, 1, -1, 4]
    draft = draft_of([trie, Trie(), Trie.of([(7,)])], torch.device("cpu"))
    draft.check(10)
    assert list(draft.counts) == [6, 0, 1]
    assert draft_of([Trie()], torch.device("cpu")).nodes == 0


def test_sampling_follows_the_seed_and_the_distribution(target):
    settings = SamplingSettings(temperature=1.0)
    arm = lookahead(target, 3, 4, 3, settings)
    assert type(arm[1]).__name__ == "SiblingsWithoutReplacement"
    first = [generation.ids for generation in decode(target, arm, PROMPTS, settings=settings)]
    assert first == [generation.ids for generation in decode(target, arm, PROMPTS, settings=settings)]
    assert first != [generation.ids for generation in decode(target, arm, PROMPTS, settings=settings, seed=99)]


def test_sampled_pairs_have_the_targets_frequencies():
    settings = SamplingSettings(temperature=1.0)
    model = tiny_transformer(5, layers=1, seed=2, scale=0.25)
    prompt, count = [1, 2, 3, 1, 2], 1500
    generations = decode(model, lookahead(model, 3, 2, 3, settings, text=True), [prompt] * count, 4, settings)
    drawn = torch.zeros(125)
    for generation in generations:
        a, b, c = generation.ids[1:4]
        drawn[a * 25 + b * 5 + c] += 1
    truth = torch.zeros(125)
    for first in range(5):
        for index in range(125):
            text = [*prompt, first, index // 25, index // 5 % 5, index % 5]
            p = model.logits(model.forward_causal(torch.tensor([text])).hidden)[0].softmax(-1)
            places = torch.arange(len(prompt) - 1, len(text) - 1)
            truth[index] += p[places, torch.tensor(text[len(prompt) :])].prod()
    assert truth.sum() == pytest.approx(1, abs=1e-4)
    expected = truth * count
    chi_square = ((drawn - expected) ** 2 / expected.clamp(min=0.5)).sum()
    assert chi_square < 124 + 5 * (2 * 124) ** 0.5
    assert sum(sum(generation.accepted) for generation in generations) > count / 20
