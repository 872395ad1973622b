"""Training examples: corpus text with the target's own last hidden state at every position."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specatlas.engine.transformer import NORMED, Transformer, pad_rows
from specatlas.errors import ModelSourceError
from specatlas.files import atomic_path, sha256_of_file, sha256_of_json
from specatlas.progress import task

FEATURE_BATCH_TOKENS = 2048
HELD_OUT_EVERY = 16


@dataclass(frozen=True)
class Example:
    """One prompt with its answer.

    Attributes:
        tokens: Ids, `[length]`.
        features: The target's hidden state after the final norm, bf16 `[length, hidden]`: what its head reads to
            predict the next token.
        answer_start: Index of the first answer token.
    """

    tokens: Tensor
    features: Tensor
    answer_start: int


@dataclass(frozen=True)
class Examples:
    """The corpus, split once: every sixteenth example is held out."""

    training: list[Example]
    held_out: list[Example]


@dataclass(frozen=True)
class Minibatch:
    """Padded examples.

    Attributes:
        tokens: `[batch, length]`.
        features: `[batch, length, hidden]` in fp32.
        answer: bool `[batch, length]`: positions t whose next token belongs to the answer, so that a drafter would be
            asked about them; what held-out figures are taken over.
        text: bool `[batch, length]`: all positions that have a next token; what is learned from.
    """

    tokens: Tensor
    features: Tensor
    answer: Tensor
    text: Tensor

    @property
    def size(self) -> int:
        """Positions, padding included: what a step costs."""
        return self.tokens.numel()


def read_examples(corpus: Path, target: Transformer) -> Examples:
    """Reads the corpus and runs the target over it.

    Raises:
        ModelSourceError: The corpus is missing or empty.
    """
    if not corpus.is_file():
        raise ModelSourceError(f"{corpus} does not exist; make it with `specatlas corpus`.")
    frame = pd.read_parquet(corpus)
    rows = [
        ([*map(int, prompt), *map(int, answer)], len(prompt))
        for prompt, answer in zip(frame["prompt_ids"], frame["answer_ids"], strict=True)
        if len(answer) > 1
    ]
    if len(rows) < 2:
        raise ModelSourceError(f"{corpus} holds no answers to learn from; make a larger corpus.")
    features = _features(rows, target, corpus)
    examples = [Example(torch.tensor(ids), part, start) for (ids, start), part in zip(rows, features, strict=True)]
    return Examples(
        [example for number, example in enumerate(examples) if number % HELD_OUT_EVERY],
        [example for number, example in enumerate(examples) if number % HELD_OUT_EVERY == 0],
    )


def _features(rows: Sequence[tuple[list[int], int]], target: Transformer, corpus: Path) -> list[Tensor]:
    """Hidden states of every row, kept beside the corpus: every trained method starts from the same ones."""
    lengths = [len(ids) for ids, _ in rows]
    key = sha256_of_json([sha256_of_file(corpus), str(target.dtype), target.architecture.hidden])[:12]
    path = corpus.with_suffix(f".{key}.features.safetensors")
    if not path.is_file():
        made = torch.cat(_run_target([ids for ids, _ in rows], target))
        with atomic_path(path) as temporary:
            save_file({"features": made}, temporary)
    return list(load_file(path)["features"].split(lengths))


@torch.inference_mode()
def _run_target(rows: Sequence[list[int]], target: Transformer) -> list[Tensor]:
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    made: dict[int, Tensor] = {}
    with task("features of the target", len(rows)) as progress:
        for group in _groups(order, [len(row) for row in rows], FEATURE_BATCH_TOKENS):
            tokens = pad_rows([rows[number] for number in group], target.device)
            cache = target.new_cache(len(group), tokens.shape[1])
            features = target(tokens, cache, taps=(NORMED,)).taps[NORMED].to(torch.bfloat16).cpu()
            for row, number in enumerate(group):
                made[number] = features[row, : len(rows[number])]
            progress.advance(len(group))
    return [made[number] for number in range(len(rows))]


def _groups(order: Sequence[int], lengths: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Consecutive members of `order` whose padded size stays within `limit` tokens."""
    group: list[int] = []
    longest = 0
    for number in order:
        longest = max(longest, lengths[number])
        if group and longest * (len(group) + 1) > limit:
            yield group
            group, longest = [], lengths[number]
        group.append(number)
    if group:
        yield group


def feature_scale(examples: Sequence[Example]) -> float:
    """Standard deviation of the features over the first few examples: the unit of regression losses."""
    return float(torch.cat([example.features for example in examples[:64]]).float().std())


def minibatches(examples: Sequence[Example], tokens: int, generator: torch.Generator) -> Iterator[list[Example]]:
    """Endless groups of examples of similar length, about `tokens` positions each, in random order every epoch."""
    lengths = [len(example.tokens) for example in examples]
    while True:
        # A little noise on the lengths mixes neighbours anew every epoch.
        noise = torch.rand(len(lengths), generator=generator) * 32
        order = sorted(range(len(lengths)), key=lambda number: lengths[number] + float(noise[number]))
        groups = list(_groups(order, lengths, tokens))
        for place in torch.randperm(len(groups), generator=generator).tolist():
            yield [examples[number] for number in groups[place]]


def collate(group: Sequence[Example], device: torch.device) -> Minibatch:
    """Pads a group of examples."""
    length = max(len(example.tokens) for example in group)
    hidden = group[0].features.shape[1]
    tokens = torch.zeros(len(group), length, dtype=torch.long)
    features = torch.zeros(len(group), length, hidden)
    answer, text = torch.zeros(2, len(group), length, dtype=torch.bool)
    for row, example in enumerate(group):
        size = len(example.tokens)
        tokens[row, :size] = example.tokens
        features[row, :size] = example.features.float()
        answer[row, example.answer_start - 1 : size - 1] = True
        text[row, : size - 1] = True
    return Minibatch(tokens.to(device), features.to(device), answer.to(device), text.to(device))
