r"""The tokenizer inside a GGUF file, rebuilt with the `tokenizers` library.

`transformers` can convert it too, but not the same way in every version: some leave a decoder behind that eats a
leading space, and all of them ignore `tokenizer.ggml.pre`, llama.cpp's name of the rule that splits text before BPE.
SmolLM's rule splits every digit off first, so "\n\n2" has one token for the line breaks and not two. Files with a rule
that is not written down here are refused.
"""

from pathlib import Path
from typing import Any

from specatlas.errors import ModelSourceError

CONTROL, USER_DEFINED = 3, 4
QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PROBES = (
    "In 2024, I paid 12345 dollars.\n\n2 items:  3\tand  don't  stop.",
    "def f(x):\n    return x ** 2  # naïve – 東京 🙂\n",
    "  leading and trailing  ",
)


def field(reader: Any, name: str) -> Any:
    """Value of a metadata field; None where the file has none."""
    found = reader.get_field(name)
    return None if found is None else found.contents()


def write_tokenizer(reader: Any, folder: Path, chat_template: str | None) -> None:
    """Writes the tokenizer of an open GGUF file into `folder`.

    Args:
        reader: The `gguf.GGUFReader`.
        folder: The checkpoint folder.
        chat_template: Used when the file carries none.

    Raises:
        ModelSourceError: No byte-level BPE, an unchecked splitting rule, or no chat template.
    """
    from transformers import PreTrainedTokenizerFast

    template = field(reader, "tokenizer.chat_template") or chat_template
    if template is None:
        raise ModelSourceError(
            "The GGUF file has no chat template; give one as `chat_template` in the model's entry of data/models.yaml."
        )
    tokens: list[str] = field(reader, "tokenizer.ggml.tokens") or []
    special = {
        role: tokens[index]
        for role, name in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if (index := field(reader, f"tokenizer.ggml.{name}_token_id")) is not None
    }
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_backend(reader, tokens, special),
        **{f"{role}_token": token for role, token in special.items()},
        clean_up_tokenization_spaces=False,
        model_max_length=field(reader, f"{field(reader, 'general.architecture')}.context_length"),
    )
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)


def check_tokenizer(folder: Path) -> None:
    """What was saved must read back as the same function from text to tokens (fault F04).

    Raises:
        ModelSourceError: It does not.
    """
    from tokenizers import Tokenizer as Backend
    from transformers import AutoTokenizer

    saved = Backend.from_file(str(folder / "tokenizer.json"))
    loaded = AutoTokenizer.from_pretrained(folder)
    for probe in PROBES:
        ids = loaded.encode(probe, add_special_tokens=False)
        if ids != saved.encode(probe, add_special_tokens=False).ids or loaded.decode(ids) != probe:
            raise ModelSourceError(f"The converted tokenizer does not read back {probe!r}; use another checkpoint.")


def _backend(reader: Any, tokens: list[str], special: dict[str, str]) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

    kind, split = field(reader, "tokenizer.ggml.model"), field(reader, "tokenizer.ggml.pre")
    if kind != "gpt2":
        raise ModelSourceError(f"The GGUF file's tokenizer is {kind!r}, not byte-level BPE; use another checkpoint.")
    merges = [tuple(merge.split(" ", 1)) for merge in field(reader, "tokenizer.ggml.merges")]
    backend = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    if split == "qwen2":
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = _splitting(split)
    backend.decoder = decoders.ByteLevel()
    types = field(reader, "tokenizer.ggml.token_type")
    for wanted, is_special in ((CONTROL, True), (USER_DEFINED, False)):
        added = [token for token, found in zip(tokens, types, strict=True) if found == wanted]
        backend.add_tokens([AddedToken(token, special=is_special, normalized=False) for token in added])
    if field(reader, "tokenizer.ggml.add_bos_token"):
        bos = special["bos"]
        backend.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A $B", special_tokens=[(bos, tokens.index(bos))]
        )
    return backend


def _splitting(rule: str | None) -> Any:
    """How text is split before BPE under a rule of llama.cpp."""
    from tokenizers import Regex, pre_tokenizers

    if rule == "gpt-2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if rule == "smollm":
        parts = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        return pre_tokenizers.Sequence(parts)
    if rule == "qwen2":
        split = pre_tokenizers.Split(Regex(QWEN2_SPLIT), behavior="isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    raise ModelSourceError(
        f"The GGUF file splits text by the rule {rule!r}, which is not known here; "
        "use a safetensors checkpoint with its own tokenizer."
    )
