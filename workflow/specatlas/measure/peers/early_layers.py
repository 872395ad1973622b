"""A draft model for the comparison that needs no training: the target's first layers and its own head.

It drafts badly, but equally badly on both sides, and that is all a comparison of loops needs.
"""

import json
import shutil
from pathlib import Path

from safetensors.torch import save_file

from specatlas.engine.loading import read_safetensors

SHARE = 5
"""One layer in five: about what a small draft model costs beside its target."""

_LAYER = "model.layers."
_TOKENIZER = "tokenizer*"


def write_early_layers(target: Path, folder: Path) -> Path:
    """Writes the first layers of the checkpoint `target` as a checkpoint of its own, and returns `folder`."""
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    layers = max(1, int(config["num_hidden_layers"]) // SHARE)
    tensors = {name: tensor for name, tensor in read_safetensors(target).items() if _belongs(name, layers)}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config |= {"num_hidden_layers": layers}
    for per_layer in ("layer_types",):
        if isinstance(config.get(per_layer), list):
            config[per_layer] = config[per_layer][:layers]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for file in [*target.glob(_TOKENIZER), *target.glob("generation_config.json")]:
        shutil.copy(file, folder)
    return folder


def _belongs(name: str, layers: int) -> bool:
    return not name.startswith(_LAYER) or int(name.removeprefix(_LAYER).split(".")[0]) < layers
