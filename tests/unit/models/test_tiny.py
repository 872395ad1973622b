import hashlib

import pytest
import torch
from transformers import AutoModelForCausalLM

from specatlas.models.tiny import make_tiny_checkpoint, tiny_tokens

VARIANTS = [("llama", None), ("smollm2", None), ("qwen2", False), ("qwen2", True), ("qwen3", None), ("mistral", None)]


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize(("family", "tied"), VARIANTS)
def test_family_loads_and_decodes_without_collapsing(tmp_path, family, tied):
    folder = make_tiny_checkpoint(tmp_path, family, tie_embeddings=tied, eos=None)
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values())
    assert model.dtype == torch.float32
    assert model.config.tie_word_embeddings == (family == "smollm2" or bool(tied))
    prompt = torch.arange(10, 42)[None]
    logits = model(prompt).logits[0]
    gaps = logits.topk(2).values
    answer = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=48, do_sample=False)[0, 32:]
    assert 2 < logits.std() < 4
    assert (gaps[:, 0] - gaps[:, 1]).median() > 0.2
    assert len(set(answer.tolist())) >= 10


def test_families_have_their_marks(tmp_path):
    names = {}
    for family in ("llama", "qwen2", "qwen3"):
        model = AutoModelForCausalLM.from_pretrained(make_tiny_checkpoint(tmp_path / family, family))
        names[family] = {name for name, _ in model.named_parameters()}
    assert "model.layers.0.self_attn.q_proj.bias" in names["qwen2"] - names["llama"]
    assert "model.layers.0.self_attn.q_norm.weight" in names["qwen3"] - names["llama"]
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "qwen3").config.head_dim == 32


def test_same_seed_same_bytes(tmp_path):
    one, two = (make_tiny_checkpoint(tmp_path / name, "qwen2", seed=4) for name in "ab")
    other = make_tiny_checkpoint(tmp_path / "c", "qwen2", seed=5)
    assert digests(one) == digests(two)
    assert digests(one)["model.safetensors"] != digests(other)["model.safetensors"]


def test_fewer_layers_are_the_beginning_of_more(tmp_path):
    long, short = (
        AutoModelForCausalLM.from_pretrained(make_tiny_checkpoint(tmp_path / str(layers), layers=layers)).state_dict()
        for layers in (2, 1)
    )
    assert all(torch.equal(long[name], weight) for name, weight in short.items())


@pytest.mark.parametrize("vocabulary", [5, 8])
def test_tiny_vocabulary_has_no_tokenizer(tmp_path, vocabulary):
    folder = make_tiny_checkpoint(tmp_path, vocabulary=vocabulary, hidden=16, heads=2, kv_heads=1, eos=None)
    assert not list(folder.glob("tokenizer*"))
    assert AutoModelForCausalLM.from_pretrained(folder).config.vocab_size == vocabulary


def test_tokenizer_fills_the_vocabulary_it_is_given():
    for size in (300, 384, 512):
        tokens, merges = tiny_tokens(size)
        assert sorted(tokens.values()) == list(range(size))
        assert len(merges) == size - 259
    with pytest.raises(ValueError, match="at least 259"):
        tiny_tokens(100)
