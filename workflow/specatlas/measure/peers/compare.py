"""`specatlas peers`: one row a mode."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import bootstrap

from specatlas import progress
from specatlas.catalog.discovery import load_catalog
from specatlas.config import read_config
from specatlas.engine.stopping import StopConditions
from specatlas.measure.bench import DTYPES
from specatlas.measure.clock import choose_device, synchronizer
from specatlas.measure.lock import machine_lock
from specatlas.measure.peers import llama_cpp, ours, theirs
from specatlas.measure.peers.answers import Mode, Run, Timing, interleaved
from specatlas.measure.peers.early_layers import write_early_layers
from specatlas.measure.single import DEFAULT_CONFIG
from specatlas.measure.unit import load_encoder, lock_name, model_folder
from specatlas.project import Project
from specatlas.prompts.registry import load_prompt_set

DRAFT_LENGTH, NGRAM, ASSISTED_LENGTH = 10, 3, 4
IDENTITY_PROMPTS, IDENTITY_TOKENS = 3, 32
RESAMPLES, SEED = 9999, 0
PLAIN, LOOKUP, ASSISTED = "plain", "prompt lookup", "assisted"


@dataclass(frozen=True)
class Comparison:
    """What is compared on what."""

    project: Project
    folder: Path
    draft_folder: Path
    device: torch.device
    eos_ids: frozenset[int]

    def modes(self, dtype: torch.dtype, max_new_tokens: int) -> Iterator[Mode]:
        """The modes in one precision; loads both sides once."""
        from specatlas.engine.loading import load_transformer

        stop = StopConditions(max_new_tokens, self.eos_ids)
        mine = load_transformer(self.folder, dtype=dtype, device=self.device)
        other = theirs.load(self.folder, dtype, self.device)
        yield Mode(PLAIN, ours.plain(mine, stop), theirs.runner(other, stop))
        catalog = load_catalog(self.project.methods)
        yield Mode(
            LOOKUP,
            ours.prompt_lookup(mine, stop, catalog, DRAFT_LENGTH, NGRAM),
            theirs.prompt_lookup(other, stop, DRAFT_LENGTH, NGRAM),
        )
        assistant = theirs.load(self.draft_folder, dtype, self.device)
        yield Mode(
            ASSISTED,
            ours.assisted(mine, stop, self.draft_folder, ASSISTED_LENGTH),
            theirs.assisted(other, stop, assistant, ASSISTED_LENGTH),
        )


def compare_peers(
    project: Project,
    *,
    target: str | None = None,
    dtype: str = "bfloat16",
    prompts: Sequence[Sequence[int]] | None = None,
    max_new_tokens: int = 48,
    cycles: int = 1,
    draft: Path | None = None,
) -> list[dict[str, Any]]:
    """Times our loop and others' on the same weights, prompts and machine, side by side.

    Tokens per second are generated tokens ÷ wall time, prefill included on both sides, since `generate()` cannot leave
    it out; both sides end an answer at EOS or at the limit.

    Args:
        project: The checkout.
        target: Model id; the default configuration's if null.
        dtype: Precision of the timed runs.
        prompts: Token ids; by default the first prompt of every category of the tune split.
        max_new_tokens: Limit of an answer, in tokens.
        cycles: How often every prompt is decoded by each side.
        draft: Checkpoint of a draft model for assisted generation; by default the target's first layers.

    Returns:
        One row a mode: `mode`, `ours_tokens_per_s`, `theirs_tokens_per_s`, `ratio` (ours ÷ theirs), `interval` (95 %,
        over prompts), `identical_ids` (in fp32, on a few prompts), `reason` (why a mode was left out).
    """
    defaults = read_config(project.root / DEFAULT_CONFIG)
    folder = model_folder(project, target or defaults.target)
    encoder, device = load_encoder(folder), choose_device(defaults.device)
    if prompts is None:
        chosen = load_prompt_set("atlas", project.root, split="tune", per_category=1)
        prompts = [encoder.encode_chat([prompt.turns[0]]) for prompt in chosen]
    with tempfile.TemporaryDirectory(prefix="specatlas-peers-") as scratch, machine_lock(lock_name(device)):
        draft_folder = draft or write_early_layers(folder, Path(scratch))
        comparison = Comparison(project, folder, draft_folder, device, encoder.eos_ids)
        identical = _identical(comparison, prompts)
        rows = [
            row | {"identical_ids": identical[row["mode"]]}
            for row in _timed_rows(comparison, DTYPES[dtype], prompts, max_new_tokens, cycles)
        ]
        return [*rows, _llama_cpp_row(comparison, dtype, prompts, max_new_tokens, cycles)]


def _identical(comparison: Comparison, prompts: Sequence[Sequence[int]]) -> dict[str, bool]:
    """Whether both sides say the same in fp32, by mode."""
    few = prompts[:IDENTITY_PROMPTS]
    modes = comparison.modes(torch.float32, IDENTITY_TOKENS)
    return {mode.name: all(mode.ours(prompt) == mode.theirs(prompt) for prompt in few) for mode in modes}


def _timed_rows(
    comparison: Comparison, dtype: torch.dtype, prompts: Sequence[Sequence[int]], max_new_tokens: int, cycles: int
) -> list[dict[str, Any]]:
    rows = []
    with progress.task("our loop beside transformers", 3) as bar:
        for mode in comparison.modes(dtype, max_new_tokens):
            rows.append(row_of(mode.name, interleaved(mode, prompts, cycles, synchronizer(comparison.device))))
            bar.advance(note=mode.name)
    return rows


def _llama_cpp_row(
    comparison: Comparison, dtype: str, prompts: Sequence[Sequence[int]], max_new_tokens: int, cycles: int
) -> dict[str, Any]:
    reason = llama_cpp.why_not(comparison.folder, dtype)
    if reason is not None:
        return row_of(f"{llama_cpp.MODE} (left out: {reason})", []) | {"identical_ids": None, "reason": reason}
    stop = StopConditions(max_new_tokens, comparison.eos_ids)
    context = max(map(len, prompts)) + max_new_tokens
    other = llama_cpp.plain(comparison.folder, stop, context, torch.get_num_threads())
    mine = next(comparison.modes(DTYPES[dtype], max_new_tokens)).ours
    mode = Mode(llama_cpp.MODE, mine, other)
    return row_of(mode.name, interleaved(mode, prompts, cycles, synchronizer(comparison.device))) | {
        "identical_ids": _same(mine, other, prompts[:IDENTITY_PROMPTS])
    }


def _same(mine: Run, other: Run, prompts: Sequence[Sequence[int]]) -> bool:
    return all(mine(prompt) == other(prompt) for prompt in prompts)


def row_of(mode: str, timings: Sequence[Timing]) -> dict[str, Any]:
    """A mode's figures; null where nothing was timed."""
    data = np.array([[*timing.ours, *timing.theirs] for timing in timings], dtype=np.float64).reshape(-1, 4)
    row: dict[str, Any] = {"mode": mode, "reason": None, "interval": None}
    if not len(data):
        return row | {"ours_tokens_per_s": None, "theirs_tokens_per_s": None, "ratio": None}
    tokens, ns, their_tokens, their_ns = data.sum(0)
    if len(data) > 1:
        drawn = bootstrap(
            tuple(data.T),
            _ratio,
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(SEED),
        ).confidence_interval
        row["interval"] = {"low": float(drawn.low), "high": float(drawn.high)}
    return row | {
        "ours_tokens_per_s": float(tokens / ns * 1e9),
        "theirs_tokens_per_s": float(their_tokens / their_ns * 1e9),
        "ratio": float(_ratio(*data.T)),
    }


def _ratio(
    tokens: NDArray[np.float64],
    ns: NDArray[np.float64],
    their_tokens: NDArray[np.float64],
    their_ns: NDArray[np.float64],
    axis: int = -1,
) -> Any:
    """Ratio of tokens per second, each a ratio of sums over prompts."""
    return (tokens.sum(axis) / ns.sum(axis)) / (their_tokens.sum(axis) / their_ns.sum(axis))
