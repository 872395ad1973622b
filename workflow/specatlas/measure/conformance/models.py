"""Tiny random targets with known plain answers: what every method is checked on. Made in memory, in milliseconds."""

from dataclasses import dataclass, replace
from functools import cache

import torch

from specatlas.engine.architecture import Architecture, RopeScaling
from specatlas.engine.decoding import Decoder, Generation
from specatlas.engine.drafter import PlainDrafter
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.transformer import Transformer
from specatlas.engine.verification import make_rule

ANSWER = 20
"""Tokens of the plain answers; checks compare with the beginning of them."""

LONG_PROMPT = 530
"""Tokens of the long prompt: more than one chunk of the prefill."""

BASE = Architecture(
    family="llama",
    vocabulary=61,
    hidden=32,
    intermediate=48,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=8,
    norm_eps=1e-5,
    rope_theta=10000.0,
    rope_scaling=RopeScaling(),
    context=640,
    tied_embeddings=False,
)


@dataclass(frozen=True)
class Case:
    """A target and prompts for it.

    Attributes:
        name: For messages.
        target: Random weights, fp32.
        prompts: One token, short, repetitive, mixed; rows of different lengths.
        plain: What plain greedy decoding answers, `ANSWER` tokens a prompt.
    """

    name: str
    target: Transformer
    prompts: tuple[tuple[int, ...], ...]
    plain: tuple[Generation, ...]

    @property
    def vocabulary(self) -> int:
        """The target's."""
        return self.target.architecture.vocabulary

    @property
    def answers(self) -> dict[tuple[int, ...], list[int]]:
        """Plain answers by prompt."""
        return {prompt: answer.ids for prompt, answer in zip(self.prompts, self.plain, strict=True)}


def random_transformer(architecture: Architecture, seed: int, scale: float = 0.4) -> Transformer:
    """Normal weights, wide enough that the likeliest token leads clearly and the greedy text varies."""
    model = Transformer(architecture)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(0.0, scale, generator=generator)
    return model.requires_grad_(False).eval()


def decode_plainly(target: Transformer, prompts: tuple[tuple[int, ...], ...]) -> tuple[Generation, ...]:
    """Plain greedy answers of `ANSWER` tokens, one prompt at a time."""
    decoder = Decoder(target, PlainDrafter(), make_rule("greedy"), SamplingSettings())
    return tuple(decoder.generate([prompt], StopConditions(ANSWER), [0]).generations[0] for prompt in prompts)


def _case(name: str, architecture: Architecture, seed: int, prompts: tuple[tuple[int, ...], ...]) -> Case:
    target = random_transformer(architecture, seed)
    return Case(name, target, prompts, decode_plainly(target, prompts))


def _prompts(vocabulary: int) -> tuple[tuple[int, ...], ...]:
    """The four kinds of prompt, within any vocabulary."""
    prompts = ((5,), (1, 2, 3), (4, 0, 3) * 6, (60, 0, 2, 17, 2, 17, 33, 1, 9))
    return tuple(tuple(token % vocabulary for token in prompt) for prompt in prompts)


@cache
def varied() -> Case:
    """61 tokens: drafts are almost always wrong."""
    return _case("61 tokens", BASE, 3, _prompts(61))


@cache
def small() -> Case:
    """7 tokens: some drafts are right by chance."""
    return _case("7 tokens", replace(BASE, vocabulary=7), 5, _prompts(7))


@cache
def architectures() -> tuple[Case, ...]:
    """What else a target may be: one layer, biases, normalised heads, tied embeddings, one key head, few tokens."""
    deep = replace(
        BASE, family="qwen3", vocabulary=8, layers=4, kv_heads=4, head_dim=16, qk_norm=True, tied_embeddings=True
    )
    flat = replace(BASE, family="qwen2", vocabulary=8, layers=1, kv_heads=1, qkv_bias=True)
    made = (("qwen3, tied", deep, 7), ("qwen2, one layer", flat, 11))
    return tuple(_case(name, architecture, seed, _prompts(8)) for name, architecture, seed in made)


@cache
def long_prompt() -> Case:
    """A prompt of more than one prefill chunk."""
    generator = torch.Generator().manual_seed(1)
    prompt = tuple(torch.randint(7, (LONG_PROMPT,), generator=generator).tolist())
    return _case("long prompt", replace(BASE, vocabulary=7), 5, (prompt,))


def forget_cases() -> None:
    """Makes every case anew, after a method that may have spoilt them."""
    for made in (varied, small, architectures, long_prompt, short_context):
        made.cache_clear()


@cache
def short_context() -> Case:
    """Prompts whose answers end exactly where the context does, or just before."""
    context = 48
    first = tuple((3 * place + place // 5) % 7 for place in range(context - ANSWER))
    return _case("short context", replace(BASE, vocabulary=7, context=context), 5, (first, first[1:], first[:3]))
