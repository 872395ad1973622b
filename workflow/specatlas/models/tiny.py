"""Tiny random checkpoints of every family, for tests, conformance and smoke runs.

Weights depend on (seed, parameter name, shape) alone, so the same call writes the same bytes everywhere, and a model
with fewer layers is the beginning of the one with more. They are scaled so that logits spread (standard deviation of
about 3), which keeps argmax gaps far above rounding, and so that layers outweigh the embedding, without which a model
with tied embeddings only repeats its last token.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from specatlas.files import write_json

TinyFamily = Literal["llama", "smollm2", "qwen2", "qwen3", "mistral"]
TinyTokenizer = Literal["bytes", "permuted", "none"]
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
EOS_ID = 2
MAX_POSITIONS = 4096
LOGIT_SPREAD = 3.0
BRANCH_GAIN = 3.0
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Letter pairs that become one token each, most frequent in English first; then all the others.
FREQUENT_PAIRS = "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de"


def make_tiny_checkpoint(
    folder: Path,
    family: TinyFamily = "llama",
    *,
    seed: int = 0,
    vocabulary: int = 384,
    layers: int = 2,
    hidden: int = 64,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int | None = None,
    tie_embeddings: bool | None = None,
    eos: int | Sequence[int] | None = EOS_ID,
    tokenizer: TinyTokenizer | None = None,
) -> Path:
    """Writes a checkpoint with random weights in float32.

    Args:
        folder: Made if it does not exist.
        family: `smollm2` is a Llama with tied embeddings.
        seed: Seed of the weights.
        vocabulary: Rows of the embedding. At least 259 with a tokenizer; without one, 2 and more.
        layers: Decoder layers.
        hidden: Width of the residual stream.
        heads: Query heads.
        kv_heads: Key and value heads; divides `heads`.
        head_dim: Width of a head; null for hidden ÷ heads, and for twice that in `qwen3`.
        tie_embeddings: Share input and output embedding; null for what the family is known for.
        eos: End-of-sequence ids, written to the generation config as given.
        tokenizer: `bytes` writes a byte-level tokenizer with a ChatML template; `permuted` the same tokens under other
            ids (same size, other vocabulary: fault F01); `none` writes none. Null: `bytes` where the vocabulary
            is large enough for it, else `none`.

    Returns:
        `folder`.
    """
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tied = family == "smollm2" if tie_embeddings is None else tie_embeddings
    config = _config(family, vocabulary, layers, hidden, heads, kv_heads, head_dim, tied)
    names = _parameter_shapes(config)
    weights = {name: torch.from_numpy(_weight(seed, name, shape, tied)) for name, shape in names.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    config.eos_token_id = list(eos) if isinstance(eos, Sequence) else eos
    config.dtype, config.architectures = "float32", [_class_name(config)]
    config.save_pretrained(folder)
    write_json(folder / "generation_config.json", {} if eos is None else {"eos_token_id": config.eos_token_id})
    kind = tokenizer or ("bytes" if vocabulary >= _smallest_vocabulary() else "none")
    if kind != "none":
        write_tiny_tokenizer(folder, vocabulary, permuted=kind == "permuted")
    return folder


def _config(
    family: TinyFamily,
    vocabulary: int,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int | None,
    tied: bool,
) -> Any:
    from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

    common: dict[str, Any] = {
        "vocab_size": vocabulary,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": MAX_POSITIONS,
        "tie_word_embeddings": tied,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    width = head_dim or hidden // heads
    if family in ("llama", "smollm2"):
        return LlamaConfig(**common, head_dim=width)
    if family == "qwen2":
        return Qwen2Config(**common)
    if family == "qwen3":
        return Qwen3Config(**common, head_dim=head_dim or 2 * width)
    return MistralConfig(**common, head_dim=width, sliding_window=None)


def _class_name(config: Any) -> str:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return str(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[config.model_type])


def _parameter_shapes(config: Any) -> dict[str, tuple[int, ...]]:
    """Names and shapes as `transformers` has them; a tied output embedding is left out, as `save_pretrained` does."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    if config.tie_word_embeddings:
        shapes.pop("lm_head.weight", None)
    return shapes


def _weight(seed: int, name: str, shape: tuple[int, ...], tied: bool) -> Any:
    """One parameter, float32 of `shape`; depends on its arguments alone."""
    import numpy as np

    digest = hashlib.sha256(f"{seed}/{name}/{shape}".encode()).digest()
    noise = np.random.default_rng(int.from_bytes(digest[:8], "little")).standard_normal(shape).astype(np.float32)
    if "norm" in name:
        return np.float32(1) + np.float32(0.1) * noise
    if name.endswith(".bias"):
        return np.float32(0.5) * noise
    if "lm_head" in name or ("embed_tokens" in name and tied):
        return np.float32(LOGIT_SPREAD / shape[-1] ** 0.5) * noise
    if "embed_tokens" in name:
        return noise
    gain = BRANCH_GAIN if "o_proj" in name or "down_proj" in name else 1.5
    return np.float32(gain / shape[-1] ** 0.5) * noise


def _smallest_vocabulary() -> int:
    return 256 + len(SPECIAL_TOKENS)


def tiny_tokens(vocabulary: int, *, permuted: bool = False) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The token→id map of a tiny tokenizer and its merges.

    Args:
        vocabulary: Wanted size; special tokens, 256 bytes, then letter pairs as far as they go.
        permuted: Hand out the ids after the special tokens in reverse.
    """
    from tokenizers import pre_tokenizers

    if vocabulary < _smallest_vocabulary():
        raise ValueError(f"a tiny tokenizer needs at least {_smallest_vocabulary()} tokens, not {vocabulary}")
    letters = "abcdefghijklmnopqrstuvwxyz"
    pairs = dict.fromkeys([*FREQUENT_PAIRS.split(), *(a + b for a in letters for b in letters)])
    merges = [(pair[0], pair[1]) for pair in list(pairs)[: vocabulary - _smallest_vocabulary()]]
    plain = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(a + b for a, b in merges)]
    ordered = [*SPECIAL_TOKENS, *(reversed(plain) if permuted else plain)]
    return {token: index for index, token in enumerate(ordered)}, merges


def write_tiny_tokenizer(folder: Path, vocabulary: int, *, permuted: bool = False) -> None:
    """Writes a byte-level tokenizer with a ChatML template; every text survives encoding and decoding."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens, merges = tiny_tokens(vocabulary, permuted=permuted)
    backend = Tokenizer(models.BPE(vocab=tokens, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    content = json.loads(backend.to_str())
    content["model"]["vocab"] = dict(sorted(content["model"]["vocab"].items(), key=lambda item: item[1]))
    write_json(folder / "tokenizer.json", content)
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": SPECIAL_TOKENS[EOS_ID],
            "pad_token": SPECIAL_TOKENS[0],
            "clean_up_tokenization_spaces": False,
            "model_max_length": MAX_POSITIONS,
            "chat_template": CHAT_TEMPLATE,
        },
    )
