"""What is decoded: every turn of every prompt, as token ids, settled before the clock starts.

The prompt of a second turn contains plain decoding's answer to the first, for both arms. Were each arm to go on from
its own answer, a single near-tie in turn one would give the arms different prompts in turn two, and neither their times
nor their ids could be compared.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from specatlas.prompts.schema import Prompt

Item = TypeVar("Item")


class ChatEncoder(Protocol):
    """What is needed of a tokenizer.

    Attributes:
        eos_ids: Ids that end an answer.
    """

    eos_ids: frozenset[int]

    @property
    def template_sha256(self) -> str:
        """Hash of the chat template and what it is given."""
        ...

    def encode_chat(self, turns: Sequence[str], /) -> list[int]:
        """Ids of a conversation: user, assistant, user, …, ending where the assistant is to answer."""
        ...

    def encode(self, text: str, /) -> list[int]:
        """Ids of plain text."""
        ...

    def decode(self, ids: Sequence[int], /) -> str:
        """Text of ids."""
        ...


@dataclass(frozen=True)
class Question:
    """One turn of one prompt.

    Attributes:
        tokens: The whole conversation up to here, template applied.
    """

    prompt_id: str
    category: str
    turn: int
    tokens: tuple[int, ...]


Answer = Callable[[Sequence[Question]], list[list[int]]]
"""Plain decoding of one batch of questions at cycle 0; ids of each answer."""


def settle(prompts: Sequence[Prompt], encoder: ChatEncoder, answer: Answer, batch: int) -> list[Question]:
    """All questions, in the prompts' order.

    Args:
        prompts: The selected prompts.
        encoder: The target's tokenizer.
        answer: Plain decoding; called for the turns that others follow, untimed.
        batch: Questions answered at once.
    """
    conversations: dict[str, list[str]] = {prompt.id: [] for prompt in prompts}
    settled: dict[tuple[str, int], Question] = {}
    for turn in range(max((len(prompt.turns) for prompt in prompts), default=0)):
        asked = [_ask(prompt, turn, conversations, encoder) for prompt in prompts if turn < len(prompt.turns)]
        settled.update({(question.prompt_id, turn): question for question in asked})
        followed = {prompt.id for prompt in prompts if turn + 1 < len(prompt.turns)}
        for group in groups([question for question in asked if question.prompt_id in followed], batch):
            for question, ids in zip(group, answer(group), strict=True):
                conversations[question.prompt_id].append(_text(ids, encoder))
    return [settled[prompt.id, turn] for prompt in prompts for turn in range(len(prompt.turns))]


def _ask(prompt: Prompt, turn: int, conversations: dict[str, list[str]], encoder: ChatEncoder) -> Question:
    conversation = conversations[prompt.id]
    conversation.append(prompt.turns[turn])
    return Question(prompt.id, prompt.category, turn, tuple(encoder.encode_chat(conversation)))


def _text(ids: Sequence[int], encoder: ChatEncoder) -> str:
    """An answer's text; the template writes the end of the assistant's message itself."""
    kept = ids[:-1] if ids and ids[-1] in encoder.eos_ids else ids
    return encoder.decode(kept)


def groups(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Consecutive groups of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """At most `count` items, evenly spread over the sequence, so that categories differ."""
    count = min(count, len(items))
    return [items[place * len(items) // count] for place in range(count)]
