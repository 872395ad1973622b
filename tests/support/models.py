"""Tiny random transformers, made without files."""

import torch

from specatlas.engine.architecture import Architecture, RopeScaling
from specatlas.engine.transformer import Transformer


def tiny_architecture(vocabulary: int = 61, layers: int = 3, family: str = "llama", **changes) -> Architecture:
    values = {
        "family": family,
        "vocabulary": vocabulary,
        "hidden": 32,
        "intermediate": 48,
        "layers": layers,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 8,
        "norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": RopeScaling(),
        "context": 256,
        "tied_embeddings": False,
    }
    return Architecture(**(values | changes))


def tiny_transformer(
    vocabulary: int = 61, layers: int = 3, seed: int = 0, scale: float = 0.4, **changes
) -> Transformer:
    """Random fp32 weights, wide enough that the argmax is clear and the greedy text varied."""
    model = Transformer(tiny_architecture(vocabulary, layers, **changes))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(0.0, scale, generator=generator)
    return model.requires_grad_(False).eval()
