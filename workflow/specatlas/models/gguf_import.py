"""A GGUF file becomes an ordinary checkpoint: config, tokenizer and dequantised weights as safetensors.

`transformers` reads the config out of the file. The tensors are dequantised here with the `gguf` package:
`from_pretrained(gguf_file=...)` would need one more dependency and returns an object that refuses `save_pretrained`.

The weights are stored in bfloat16. A dequantised Q4_1 value (scale × q + minimum) needs more bits than that, so storing
rounds once; `Conversion.rounding` says by how much. In exchange the fp32 and the bf16 runs read the very same numbers,
so a difference between them is arithmetic and never weights, and that is what the exactness gate compares.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specatlas.errors import ModelSourceError
from specatlas.models.gguf_tokenizer import check_tokenizer, field, write_tokenizer


@dataclass(frozen=True)
class Conversion:
    """What a conversion did.

    Attributes:
        quantisation: Tensor types in the file with their counts, as in `{"F32": 61, "Q4_1": 210}`.
        rounding: Largest |dequantised − stored| over all weights, relative to the largest weight of its tensor.
    """

    quantisation: dict[str, int]
    rounding: float


def convert_gguf(source: Path, folder: Path, chat_template: str | None = None) -> Conversion:
    """Writes the checkpoint of GGUF file `source` into the existing, empty `folder`.

    Args:
        source: The GGUF file.
        folder: Where config, tokenizer and `model.safetensors` go.
        chat_template: Used when the file carries none.

    Raises:
        ModelSourceError: Unreadable file, an architecture or tokenizer outside of what was checked, missing tensors.
    """
    try:
        from gguf import GGUFReader

        reader = GGUFReader(source)
    except (ValueError, IndexError, OSError) as error:
        raise ModelSourceError(f"{source.name} is not a readable GGUF file ({error}); download it again.") from error
    local = folder / "source.gguf"
    local.symlink_to(source.resolve())  # transformers wants folder and file name apart
    try:
        write_tokenizer(reader, folder, chat_template)
        return _convert_weights(reader, folder, local.name)
    finally:
        local.unlink(missing_ok=True)


def _convert_weights(reader: Any, folder: Path, name: str) -> Conversion:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder, gguf_file=name)
    for entry in ("quantization_config", "_model_name_or_path"):
        config.__dict__.pop(entry, None)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    wanted = {key for key, _ in model.named_parameters()}
    weights, rounding = _dequantise(reader, config, wanted)
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    config.dtype = torch.bfloat16
    config.rms_norm_eps = float(f"{config.rms_norm_eps:.6g}")  # the file holds it as fp32: 9.99999974e-06 means 1e-05
    model.generation_config.eos_token_id = config.eos_token_id
    model.save_pretrained(folder)
    check_tokenizer(folder)
    counts: dict[str, int] = {}
    for tensor in reader.tensors:
        counts[tensor.tensor_type.name] = counts.get(tensor.tensor_type.name, 0) + 1
    return Conversion(quantisation=counts, rounding=rounding)


def _dequantise(reader: Any, config: Any, wanted: set[str]) -> tuple[dict[str, Any], float]:
    """The weights in bfloat16 under their names in `transformers`, and the largest relative rounding error."""
    import torch
    from gguf import dequantize

    tensors = {tensor.name: tensor for tensor in reader.tensors}
    names = _names(reader, config.num_hidden_layers, wanted)
    missing = sorted(key for key, name in names.items() if name not in tensors)
    unused = sorted(tensors.keys() - set(names.values()) - {"rope_freqs.weight"})
    if missing or unused:
        raise ModelSourceError(
            f"The GGUF file does not fit its architecture: missing {missing[:3]}, not understood {unused[:3]}; "
            "use a safetensors checkpoint."
        )
    weights: dict[str, Any] = {}
    rounding = 0.0
    for key, name in names.items():
        exact = torch.from_numpy(dequantize(tensors[name].data, tensors[name].tensor_type).copy()).float()
        exact = _unpermuted(exact, key, config) if field(reader, "general.architecture") == "llama" else exact
        weights[key] = exact.to(torch.bfloat16).contiguous()
        error = (exact - weights[key].float()).abs().max() / exact.abs().max().clamp_min(1e-30)
        rounding = max(rounding, float(error))
    return weights, rounding


def _names(reader: Any, layers: int, wanted: set[str]) -> dict[str, str]:
    """Name in `transformers` → name in the file, for every parameter that the model has."""
    import gguf

    architecture = field(reader, "general.architecture")
    kind = next((key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture), None)
    if architecture not in {"llama", "qwen2", "qwen3"} or kind is None:
        raise ModelSourceError(f"GGUF architecture {architecture!r} is not supported; use llama, qwen2 or qwen3.")
    table = gguf.get_tensor_name_map(kind, layers)
    found = {key: table.get_name(key, try_suffixes=(".weight", ".bias")) for key in sorted(wanted)}
    return {key: name or key for key, name in found.items()}


def _unpermuted(weight: Any, key: str, config: Any) -> Any:
    """Undoes llama.cpp's interleaving of the rotary halves in query and key projections.

    Args:
        weight: [heads × head_dim, hidden], or another tensor, which is returned as it is.
        key: Its name in `transformers`.
        config: The model's config.
    """
    if "self_attn.q_proj" in key:
        heads = config.num_attention_heads
    elif "self_attn.k_proj" in key:
        heads = config.num_key_value_heads
    else:
        return weight
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, half, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)
