"""A whole tiny checkout: a random model on disk, a fake tokenizer, real controls and a few deliberately bad methods."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from specatlas.config import Config
from specatlas.project import Project

ROOT = Path(__file__).parents[3]
VOCABULARY, HIDDEN, LAYERS, HEADS, KV_HEADS = 61, 32, 2, 4, 2
EOS = 60

CARD = """
slug: {slug}
name: {slug}
summary: For tests.
class: control
place: {{survey: null, atlas: control/bound}}
draft_shape: chain
lossless: {{greedy: {claim}, sampling: unsupported}}
verification: {{greedy: {rule}}}
status: runnable
carry_over: {carry_over}
"""

HEAD = """
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Drafter
from specatlas.errors import UnsupportedArchitecture
"""

BODIES = {
    "raises": """
class D(Drafter):
    def propose(self, context):
        raise ZeroDivisionError("draft of\\nseveral lines")
def build(setup):
    return D()
""",
    "refuses": """
def build(setup):
    raise UnsupportedArchitecture("No such layers here.")
""",
    "hungry": """
class D(Drafter):
    def propose(self, context):
        raise MemoryError("gone")
def build(setup):
    return D()
""",
    "next_token": """
class D(Drafter):
    def propose(self, context):
        rows = zip(context.roots, context.budgets)
        return Draft.chains([[(root + 1) % 61] * min(2, budget) for root, budget in rows], context.device)
def build(setup):
    return D()
""",
    "remembers": """
BUILT = []
class D(Drafter):
    def __init__(self):
        super().__init__()
        self.seen = 0
    def start(self, context):
        assert self.seen == 0, "not cold"
        self.seen += 1
    def propose(self, context):
        return Draft.chains([[1][:b] for b in context.budgets], context.device)
def build(setup):
    BUILT.append(1)
    return D()
""",
}


class FakeEncoder:
    """Letters of the conversation's end as ids."""

    def __init__(self, folder=None):
        self.eos_ids = frozenset({EOS})

    template_sha256 = "0" * 64

    def encode_chat(self, turns):
        return self.encode("|".join(turns)[-10:])

    def encode(self, text):
        return [ord(letter) % (VOCABULARY - 1) for letter in text]

    def decode(self, ids):
        return "".join(chr(65 + token) for token in ids)


def write_checkpoint(folder: Path, seed: int = 3, scale: float = 0.4) -> Path:
    """A Llama checkpoint as Hugging Face lays it out."""
    folder.mkdir(parents=True)
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": VOCABULARY, "hidden_size": HIDDEN,
        "intermediate_size": 48, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "hidden_act": "silu", "eos_token_id": EOS, "bos_token_id": None,
        "torch_dtype": "float32",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(seed)
    weight = lambda *shape: torch.randn(*shape, generator=generator) * scale  # noqa: E731
    tensors = {"model.embed_tokens.weight": weight(VOCABULARY, HIDDEN), "lm_head.weight": weight(VOCABULARY, HIDDEN)}
    tensors["model.norm.weight"] = torch.ones(HIDDEN)
    head = HIDDEN // HEADS
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        for part, rows in (("q", HEADS * head), ("k", KV_HEADS * head), ("v", KV_HEADS * head)):
            tensors[f"{name}.self_attn.{part}_proj.weight"] = weight(rows, HIDDEN)
        tensors[f"{name}.self_attn.o_proj.weight"] = weight(HIDDEN, HEADS * head)
        tensors[f"{name}.mlp.gate_proj.weight"] = weight(48, HIDDEN)
        tensors[f"{name}.mlp.up_proj.weight"] = weight(48, HIDDEN)
        tensors[f"{name}.mlp.down_proj.weight"] = weight(HIDDEN, 48)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{name}.{norm}.weight"] = torch.ones(HIDDEN)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def add_method(project: Project, slug: str, *, claim="exact", rule="greedy", carry_over=False) -> None:
    folder = project.methods / "control" / slug
    folder.mkdir(parents=True)
    (folder / "method.yaml").write_text(
        CARD.format(slug=slug, claim=claim, rule=rule, carry_over=str(carry_over).lower())
    )
    (folder / "method.py").write_text(HEAD + BODIES[slug])


def make_project(root: Path) -> Project:
    """A checkout with the real controls and prompt lookup, the real prompts and a tiny target called `tiny`."""
    project = Project(root=root, results=root / "results")
    (root / "methods" / "draft_centric").mkdir(parents=True)
    shutil.copy(ROOT / "methods" / "taxonomy.yaml", project.methods)
    shutil.copytree(ROOT / "methods" / "control", project.methods / "control")
    shutil.copytree(
        ROOT / "methods" / "draft_centric" / "prompt_lookup", project.methods / "draft_centric" / "prompt_lookup"
    )
    (root / "data").mkdir()
    (root / "data" / "prompts").symlink_to(ROOT / "data" / "prompts")
    (root / "workflow" / "config").mkdir(parents=True)
    shutil.copy(ROOT / "workflow" / "config" / "default.yaml", root / "workflow" / "config")
    write_checkpoint(project.models / "tiny")
    return project


def tiny_config(**settings) -> Config:
    values = {"max_new_tokens": 12, "cycles": 2, "gate_prompts": 2, "gate_tokens": 8, "dtype": "float32"}
    return Config.model_validate(
        {
            "name": "test",
            "target": "tiny",
            "machine": "testbed",
            "device": "cpu",
            "prompts": {"name": "few", "categories": ["coding", "open_chat"], "per_category": 2},
            "settings": {"greedy": values | settings},
            "corpus": {"name": "none", "instructions": 1},
            "budget": {"name": "none", "tokens": 1},
        }
    )
