"""Writes tiny checkpoints as GGUF files, the way llama.cpp's converter lays them out."""

import gguf
import numpy as np
from safetensors.torch import load_file
from transformers import AutoConfig

from specatlas.models.tiny import CHAT_TEMPLATE, tiny_tokens

VOCABULARY = 300


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's order of the rows of query and key projections."""
    return weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path, folder, *, quantise=None, split="smollm", template=CHAT_TEMPLATE, drop=()):
    """Writes the tiny checkpoint in `folder` as a GGUF file."""
    config = AutoConfig.from_pretrained(folder)
    architecture = "llama" if config.model_type == "llama" else config.model_type
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCABULARY)
    tokens, merges = tiny_tokens(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(list(tokens))
    writer.add_token_types([3] * 3 + [1] * (VOCABULARY - 3))
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    if template is not None:
        writer.add_chat_template(template)
    names = gguf.get_tensor_name_map(
        gguf.MODEL_ARCH.LLAMA if architecture == "llama" else gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers
    )
    for key, tensor in load_file(folder / "model.safetensors").items():
        weight = tensor.numpy()
        if architecture == "llama" and "q_proj" in key:
            weight = interleaved(weight, config.num_attention_heads)
        if architecture == "llama" and "k_proj" in key:
            weight = interleaved(weight, config.num_key_value_heads)
        name = names.get_name(key, try_suffixes=(".weight", ".bias"))
        if name in drop:
            continue
        if quantise is not None and weight.ndim == 2:
            writer.add_tensor(name, gguf.quantize(weight, quantise), raw_dtype=quantise)
        else:
            writer.add_tensor(name, np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
