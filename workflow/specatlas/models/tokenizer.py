"""The tokenizer of a checkpoint folder: chat prompts to tokens, tokens to text, and which vocabulary it is."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from specatlas.errors import ModelSourceError
from specatlas.files import sha256_of_json
from specatlas.models.checkpoint import TOKENIZER_FILES, read_provenance

Message = Mapping[str, str]
Conversation = str | Sequence[str] | Sequence[Message]
Relation = Literal["same", "compatible", "different"]


class Tokenizer:
    """Thin wrapper over the `transformers` tokenizer of a local folder; adds no tokens of its own.

    Attributes:
        folder: The checkpoint folder.
        eos_ids: Ids that end an answer; may be empty.
        template_arguments: Passed to the chat template (fixed date, thinking flag), from the folder's provenance.
    """

    def __init__(self, folder: Path) -> None:
        """Loads the tokenizer.

        Raises:
            ModelSourceError: The folder has no tokenizer, or one that cannot be read.
        """
        if not any((folder / name).is_file() for name in TOKENIZER_FILES):
            raise ModelSourceError(f"{folder} has no tokenizer; fetch the model first or give another folder.")
        from transformers import AutoTokenizer  # here, since it imports torch

        try:
            self._backend: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        except (ValueError, OSError, KeyError) as error:
            reason = (str(error).splitlines() or ["no reason given"])[0].rstrip(".")
            raise ModelSourceError(f"The tokenizer in {folder} cannot be read ({reason}); fetch it again.") from error
        provenance = read_provenance(folder)
        self.folder = folder
        self.template_arguments: dict[str, bool | int | str] = provenance.template_arguments if provenance else {}
        self.eos_ids = read_eos_ids(folder) | _ids(self._backend.eos_token_id)

    @property
    def bos_id(self) -> int | None:
        """Id of the token that begins a sequence, where there is one."""
        value = self._backend.bos_token_id
        return None if value is None else int(value)

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Token→id map, added and special tokens included."""
        return {str(token): int(index) for token, index in self._backend.get_vocab().items()}

    @cached_property
    def vocabulary_sha256(self) -> str:
        """Hash of the token→id map: equal hashes mean equal vocabularies, whatever the embeddings are padded to."""
        return sha256_of_json(self.vocabulary)

    @property
    def template_sha256(self) -> str:
        """Hash of the chat template and its arguments."""
        return sha256_of_json([self._backend.chat_template, self.template_arguments])

    def render_chat(self, conversation: Conversation) -> str:
        """The prompt as text, up to where the assistant's answer begins; see `encode_chat`."""
        if self._backend.chat_template is None:
            raise ModelSourceError(
                f"The tokenizer in {self.folder} has no chat template; give one as `chat_template` in data/models.yaml."
            )
        messages = as_messages(conversation)
        return str(
            self._backend.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **self.template_arguments
            )
        )

    def encode_chat(self, conversation: Conversation) -> list[int]:
        """Token ids of a prompt, special tokens exactly once, as the template writes them.

        Args:
            conversation: One user text; or texts of user and assistant in turn, the user first and last; or messages
                with `role` and `content`.

        Raises:
            ModelSourceError: There is no chat template.
            ValueError: The texts do not end with the user's.
        """
        return self.encode(self.render_chat(conversation))

    def encode(self, text: str, *, special_tokens: bool = False) -> list[int]:
        """Token ids of a text.

        Args:
            text: Special tokens that are written out in it count as such.
            special_tokens: Add those that the tokenizer puts around a text, such as BOS; never twice.
        """
        ids = [int(index) for index in self._backend.encode(text, add_special_tokens=special_tokens)]
        return ids[1:] if special_tokens and self.bos_id is not None and ids[:2] == [self.bos_id] * 2 else ids

    def decode(self, ids: Iterable[int], *, special_tokens: bool = False) -> str:
        """Text of token ids.

        Args:
            ids: Token ids.
            special_tokens: Write special tokens out instead of leaving them away.
        """
        kept = [int(index) for index in ids]
        return str(
            self._backend.decode(kept, skip_special_tokens=not special_tokens, clean_up_tokenization_spaces=False)
        )


def as_messages(conversation: Conversation) -> list[dict[str, str]]:
    """Messages with `role` and `content` from any of the forms that `Tokenizer.encode_chat` takes.

    Raises:
        ValueError: Texts that do not end with the user's, or an empty conversation.
    """
    turns: list[str | Message] = [conversation] if isinstance(conversation, str) else list(conversation)
    messages: list[dict[str, str]] = []
    for position, turn in enumerate(turns):
        role = "assistant" if position % 2 else "user"
        messages.append({"role": role, "content": turn} if isinstance(turn, str) else dict(turn))
    if not messages or messages[-1]["role"] == "assistant":
        raise ValueError("A conversation must end with the user's turn, since the assistant's answer comes next.")
    return messages


def read_eos_ids(folder: Path) -> frozenset[int]:
    """Ids that end an answer, from the generation config, else from the config; needs no tokenizer."""
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        if path.is_file():
            value = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
            if value is not None:
                return _ids(value)
    return frozenset()


def _ids(value: int | Sequence[int] | None) -> frozenset[int]:
    if value is None:
        return frozenset()
    return frozenset({int(value)} if isinstance(value, int) else map(int, value))


def same_vocabulary(first: Tokenizer, second: Tokenizer) -> bool:
    """Whether every token has the same id in both; sizes of embeddings do not matter (fault F01)."""
    return first.vocabulary_sha256 == second.vocabulary_sha256


def compare_vocabularies(first: Tokenizer, second: Tokenizer) -> Relation:
    """How two vocabularies relate.

    `compatible`: one contains the other, each common token under the same id; the other's tokens are then a subset
    that may be drafted, with probability zero for the rest.
    """
    if same_vocabulary(first, second):
        return "same"
    small, large = sorted((first.vocabulary, second.vocabulary), key=len)
    return "compatible" if small.items() <= large.items() else "different"
