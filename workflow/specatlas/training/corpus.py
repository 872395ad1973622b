"""The training corpus: the target's own answers to generated instructions, greedy and sampled.

Sequence-level self-distillation data, as in arXiv 2403.00858 and 2411.11055. None of the instructions is an evaluation
prompt.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch

from specatlas.config import Config, Corpus
from specatlas.engine.decoding import Decoder
from specatlas.engine.drafter import PlainDrafter
from specatlas.engine.loading import load_transformer
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.transformer import Transformer
from specatlas.engine.verification import make_rule
from specatlas.errors import ModelSourceError
from specatlas.files import atomic_path, sha256_of_json
from specatlas.models.tokenizer import Tokenizer
from specatlas.progress import task
from specatlas.project import Project
from specatlas.prompts.templates import generate_instructions
from specatlas.training.devices import pick_device


@dataclass(frozen=True)
class _Request:
    """One instruction to answer."""

    instruction: str
    prompt: list[int]
    sampled: bool
    seed: int


def build_corpus(project: Project, config: Config) -> Path:
    """Writes `results/corpora/<target>/<name>.parquet` and returns its path.

    Columns: instruction, prompt_ids, answer_ids, sampled, seed. Finished batches are kept beside the file until it is
    whole, so a killed run goes on where it stopped.

    Raises:
        ModelSourceError: The target has not been fetched.
    """
    folder = project.models / config.target
    if not folder.is_dir():
        raise ModelSourceError(f"{folder} does not exist; run `specatlas fetch {config.target}`.")
    path = project.corpus(config.target, config.corpus.name)
    parts = path.with_suffix(f".{sha256_of_json(config.corpus.model_dump())[:12]}.parts")
    parts.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(folder)
    batches = list(_batches(_requests(project, config.corpus, tokenizer), config.corpus.batch))
    model = load_transformer(folder, dtype=torch.bfloat16, device=pick_device(config.device))
    frames = []
    with task("corpus", sum(map(len, batches))) as progress:
        for number, batch in enumerate(batches):
            part = parts / f"{number:05d}.parquet"
            if not part.is_file():
                with atomic_path(part) as temporary:
                    _answer(model, batch, config.corpus, tokenizer.eos_ids).to_parquet(temporary)
            frames.append(pd.read_parquet(part))
            progress.advance(len(batch))
    with atomic_path(path) as temporary:
        pd.concat(frames, ignore_index=True).to_parquet(temporary)
    shutil.rmtree(parts)
    return path


def _requests(project: Project, corpus: Corpus, tokenizer: Tokenizer) -> list[_Request]:
    instructions = generate_instructions(corpus.instructions, corpus.seed, project_root=project.root)
    # Every n-th answer is sampled, so that any prefix of the corpus has the same share.
    sampled = [int((n + 1) * corpus.sampled_share) > int(n * corpus.sampled_share) for n in range(len(instructions))]
    return [
        _Request(text, tokenizer.encode_chat([text]), is_sampled, corpus.seed * 1_000_003 + number)
        for number, (text, is_sampled) in enumerate(zip(instructions, sampled, strict=True))
    ]


def _batches(requests: Sequence[_Request], size: int) -> Iterator[list[_Request]]:
    """Batches of prompts of similar length, greedy and sampled apart."""
    for sampled in (False, True):
        chosen = sorted((request for request in requests if request.sampled is sampled), key=lambda r: len(r.prompt))
        for start in range(0, len(chosen), size):
            yield chosen[start : start + size]


def _answer(model: Transformer, batch: list[_Request], corpus: Corpus, eos_ids: frozenset[int]) -> pd.DataFrame:
    settings = SamplingSettings(corpus.temperature if batch[0].sampled else 0.0)
    rule = make_rule("speculative_sampling" if batch[0].sampled else "greedy")
    decoder = Decoder(model, PlainDrafter(), rule, settings, time_phases=False)
    stop = StopConditions(corpus.max_new_tokens, eos_ids)
    done = decoder.generate([request.prompt for request in batch], stop, [request.seed for request in batch])
    return pd.DataFrame(
        {
            "instruction": [request.instruction for request in batch],
            "prompt_ids": [request.prompt for request in batch],
            "answer_ids": [generation.ids for generation in done.generations],
            "sampled": [request.sampled for request in batch],
            "seed": [request.seed for request in batch],
        }
    )
