"""The side of `transformers`: `generate()` on the same weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from specatlas.engine.stopping import StopConditions
from specatlas.measure.peers.answers import Run


def load(folder: Path, dtype: torch.dtype, device: torch.device) -> Any:
    """A checkpoint as `transformers` loads it, with its default attention."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True, trust_remote_code=False)
    return model.to(device).eval()


def runner(model: Any, stop: StopConditions, **options: Any) -> Run:
    """Greedy decoding with `generate()`; `options` choose how it drafts."""
    from transformers import GenerationConfig

    assistant = options.pop("assistant_model", None)
    eos = sorted(stop.eos_ids) or None
    config = GenerationConfig(
        max_new_tokens=stop.max_new_tokens,
        do_sample=False,
        eos_token_id=eos,
        pad_token_id=eos[0] if eos else 0,
        **options,
    )

    @torch.inference_mode()
    def run(prompt: Sequence[int]) -> list[int]:
        ids = torch.tensor([list(prompt)], device=model.device)
        extra = {} if assistant is None else {"assistant_model": assistant}
        out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config, **extra)
        return [int(token) for token in out[0, len(prompt) :].tolist()]

    return run


def prompt_lookup(model: Any, stop: StopConditions, length: int, ngram: int) -> Run:
    """Prompt lookup."""
    return runner(model, stop, prompt_lookup_num_tokens=length, max_matching_ngram_size=ngram)


def assisted(model: Any, stop: StopConditions, assistant: Any, length: int) -> Run:
    """Assisted generation with drafts of one length.

    The length is set on the assistant: as an argument of `generate()` it would be ignored (known fault G07), and the
    default schedule carries a changed length from call to call (known fault C14).
    """
    config = assistant.generation_config
    config.num_assistant_tokens, config.num_assistant_tokens_schedule = length, "constant"
    config.assistant_confidence_threshold = 0
    return runner(model, stop, assistant_model=assistant)
