"""Weights: Hugging Face safetensors in, fused and reordered for the engine. Pickled weights are never read."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from specatlas.engine.architecture import Architecture, read_architecture
from specatlas.engine.rotary import Rotary, interleave
from specatlas.engine.transformer import Transformer
from specatlas.errors import ModelSourceError


def load_transformer(
    folder: Path, *, dtype: torch.dtype, device: torch.device | str = "cpu", packed: bool = True
) -> Transformer:
    """Loads a checkpoint folder (config.json and *.safetensors).

    Args:
        folder: The checkpoint.
        dtype: Precision of the weights.
        device: Where they go.
        packed: Pack for inference; False keeps the model trainable.

    Raises:
        ModelSourceError: Files or tensors are missing or unreadable.
        UnsupportedArchitecture: The family is not implemented.
    """
    architecture = read_architecture(folder)
    weights = fuse(read_safetensors(folder), architecture, folder)
    with torch.device("meta"):
        model = Transformer(architecture)
    model.load_state_dict(
        {name: tensor.to(device, dtype) for name, tensor in weights.items()}, strict=False, assign=True
    )
    if architecture.tied_embeddings:
        model.head.weight = model.embedding
    model.rotary = Rotary(architecture).to(device)
    model.requires_grad_(not packed)
    if packed:
        model.pack()
    return model.eval() if packed else model


def read_safetensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder, sharded or not.

    Raises:
        ModelSourceError: There are none, or a file is damaged.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        files = [folder / name for name in names]
    else:
        files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelSourceError(f"{folder}: no *.safetensors file; only safetensors weights are read, fetch them again.")
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as handle:
                tensors.update({name: handle.get_tensor(name) for name in handle.keys()})  # noqa: SIM118 not a dict
        except (OSError, SafetensorError) as error:
            raise ModelSourceError(
                f"{file}: not a readable safetensors file ({error}); fetch the model again."
            ) from error
    return tensors


def head_weight(folder: Path) -> Tensor:
    """The head's weight `[vocabulary, hidden]` as stored, since a loaded model has packed its own."""
    tensors = read_safetensors(folder)
    return tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])


def fuse(tensors: dict[str, Tensor], architecture: Architecture, source: Path | str) -> dict[str, Tensor]:
    """Renames a Hugging Face state dict to the engine's names, fusing projections and reordering rotary pairs.

    Raises:
        ModelSourceError: A tensor is missing.
    """
    a = architecture

    def take(name: str) -> Tensor:
        if name not in tensors:
            raise ModelSourceError(f"{source}: tensor {name} is missing from the checkpoint; fetch the model again.")
        return tensors[name]

    fused = {"embedding": take("model.embed_tokens.weight"), "norm.weight": take("model.norm.weight")}
    if not a.tied_embeddings:
        fused["head.weight"] = take("lm_head.weight")
    for layer in range(a.layers):
        theirs, ours = f"model.layers.{layer}", f"layers.{layer}"
        parts = [("weight", True), ("bias", a.qkv_bias)]
        for part, present in parts:
            if present:
                query, key, value = (take(f"{theirs}.self_attn.{name}_proj.{part}") for name in "qkv")
                reordered = (interleave(query, a.head_dim), interleave(key, a.head_dim), value)
                fused[f"{ours}.qkv.{part}"] = torch.cat(reordered)
        fused[f"{ours}.output.weight"] = take(f"{theirs}.self_attn.o_proj.weight")
        if a.output_bias:
            fused[f"{ours}.output.bias"] = take(f"{theirs}.self_attn.o_proj.bias")
        gate_up = (take(f"{theirs}.mlp.gate_proj.weight"), take(f"{theirs}.mlp.up_proj.weight"))
        fused[f"{ours}.gate_up.weight"] = torch.cat(gate_up)
        fused[f"{ours}.down.weight"] = take(f"{theirs}.mlp.down_proj.weight")
        fused[f"{ours}.attention_norm.weight"] = take(f"{theirs}.input_layernorm.weight")
        fused[f"{ours}.feed_forward_norm.weight"] = take(f"{theirs}.post_attention_layernorm.weight")
        if a.qk_norm:
            fused[f"{ours}.query_norm.weight"] = interleave(take(f"{theirs}.self_attn.q_norm.weight"), a.head_dim)
            fused[f"{ours}.key_norm.weight"] = interleave(take(f"{theirs}.self_attn.k_norm.weight"), a.head_dim)
    return fused
