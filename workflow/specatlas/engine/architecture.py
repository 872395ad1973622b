"""The shape of a model, read from a Hugging Face `config.json`; families that are not implemented are refused."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specatlas.errors import ModelSourceError, UnsupportedArchitecture

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True)
class RopeScaling:
    """Frequency scaling of rotary embeddings; `kind` is `default`, `linear` or `llama3` (Llama 3.1's)."""

    kind: str = "default"
    factor: float = 1.0
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    original_positions: int = 8192


@dataclass(frozen=True)
class Architecture:
    """Sizes and switches of a decoder-only transformer.

    Attributes:
        context: Longest sequence, in tokens. A sliding-window model is used only within its window, where its attention
            is full attention.
        qkv_bias, output_bias: Whether the attention projections have biases.
        qk_norm: Whether queries and keys are normalised per head (Qwen3).
    """

    family: str
    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling
    context: int
    tied_embeddings: bool
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False


def read_architecture(folder: Path) -> Architecture:
    """Reads `config.json` of a checkpoint folder.

    Raises:
        ModelSourceError: There is no readable `config.json`.
        UnsupportedArchitecture: The family, or a feature of it, is not implemented.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ModelSourceError(
            f"{path}: not a readable model configuration ({error}); fetch the model again."
        ) from error
    return parse_architecture(config, str(path))


def parse_architecture(config: dict[str, Any], source: str) -> Architecture:
    """Translates a Hugging Face configuration that came from `source`.

    Raises:
        UnsupportedArchitecture: The family, or a feature of it, is not implemented.
    """
    family = config.get("model_type", "unnamed")
    if family not in FAMILIES:
        raise UnsupportedArchitecture(
            f"{source}: model_type `{family}` is not implemented; the engine runs {', '.join(FAMILIES)}."
        )
    _refuse_features(config, source)
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    bias = bool(config.get("attention_bias", False))
    return Architecture(
        family=family,
        vocabulary=config["vocab_size"],
        hidden=hidden,
        intermediate=config["intermediate_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or hidden // heads,
        norm_eps=config.get("rms_norm_eps", 1e-6),
        rope_theta=_rope_parameters(config).get("rope_theta", config.get("rope_theta", 10000.0)),
        rope_scaling=_rope_scaling(config, source),
        context=_context(config),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=family == "qwen2" or bias,
        output_bias=bias and family != "qwen2",
        qk_norm=family == "qwen3",
    )


def _refuse_features(config: dict[str, Any], source: str) -> None:
    activation = config.get("hidden_act", "silu")
    unsupported = {
        f"hidden_act `{activation}`": activation != "silu",
        "mlp_bias": bool(config.get("mlp_bias", False)),
        "quantization_config": config.get("quantization_config") is not None,
        "partial_rotary_factor": _rope_parameters(config).get("partial_rotary_factor", 1.0) != 1.0,
        "pretraining_tp": config.get("pretraining_tp", 1) != 1,
    }
    for feature, present in unsupported.items():
        if present:
            raise UnsupportedArchitecture(f"{source}: {feature} is not implemented; use another checkpoint.")


def _rope_parameters(config: dict[str, Any]) -> dict[str, Any]:
    return config.get("rope_parameters") or config.get("rope_scaling") or {}


def _rope_scaling(config: dict[str, Any], source: str) -> RopeScaling:
    parameters = _rope_parameters(config)
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind == "default":
        return RopeScaling()
    if kind == "linear":
        return RopeScaling(kind, factor=parameters["factor"])
    if kind == "llama3":
        return RopeScaling(
            kind,
            factor=parameters["factor"],
            low_frequency_factor=parameters["low_freq_factor"],
            high_frequency_factor=parameters["high_freq_factor"],
            original_positions=parameters["original_max_position_embeddings"],
        )
    raise UnsupportedArchitecture(f"{source}: rope type `{kind}` is not implemented; use default, linear or llama3.")


def _context(config: dict[str, Any]) -> int:
    context: int = config.get("max_position_embeddings", 2048)
    windowed = config.get("use_sliding_window", config["model_type"] == "mistral")
    window = config.get("sliding_window")
    return min(context, window) if windowed and window else context
