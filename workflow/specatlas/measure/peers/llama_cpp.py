"""The side of llama.cpp, where its Python package and a GGUF file with the same bf16 weights are at hand."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from specatlas.engine.stopping import StopConditions
from specatlas.measure.peers.answers import Run

MODE = "plain, against llama.cpp"
GGUF = "model-bf16.gguf"


def why_not(folder: Path, dtype: str) -> str | None:
    """Why llama.cpp cannot be compared here; null where it can."""
    if find_spec("llama_cpp") is None:
        return "llama-cpp-python is not installed"
    if dtype != "bfloat16":
        return "compared in bfloat16 only"
    if not (folder / GGUF).is_file():
        return f"no {folder / GGUF}; make it with llama.cpp's convert_hf_to_gguf.py --outtype bf16"
    return None


def plain(folder: Path, stop: StopConditions, context: int, threads: int) -> Run:
    """Plain greedy decoding."""
    import llama_cpp

    model = llama_cpp.Llama(
        model_path=str(folder / GGUF), n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False
    )

    def run(prompt: Sequence[int]) -> list[int]:
        model.reset()  # no prefix is kept from the last prompt (known fault K06)
        ids: list[int] = []
        for token in model.generate(list(prompt), top_k=1, temp=0.0, repeat_penalty=1.0):
            ids.append(int(token))
            if token in stop.eos_ids or len(ids) == stop.max_new_tokens:
                break
        return ids

    return run
