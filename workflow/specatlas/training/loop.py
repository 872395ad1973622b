"""The training loop that every trained method uses: AdamW, warm-up and cosine decay, checkpoints, a learning curve."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from specatlas.files import atomic_path
from specatlas.progress import task
from specatlas.training.examples import Example, Examples, Minibatch, collate, minibatches
from specatlas.training.job import Job


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Attributes:
        tokens: Positions read in all, padding included.
        batch_tokens: Positions a step.
        learning_rate: Peak.
        warmup: Share of the steps over which the rate rises.
        weight_decay: Of AdamW.
        clip: Largest gradient norm.
        seed: Of order and noise.
        evaluate_every: Share of the run between two held-out evaluations.
    """

    tokens: int
    batch_tokens: int = 512
    learning_rate: float = 1e-3
    warmup: float = 0.05
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 0
    evaluate_every: float = 0.1


@dataclass
class Curve:
    """What the run's report holds: one entry an evaluation."""

    points: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def final(self) -> dict[str, float]:
        """Held-out figures at the end."""
        return self.points[-1]

    def report(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


Loss = Callable[[Minibatch], Tensor]
Evaluate = Callable[[Minibatch], dict[str, float]]
CHECKPOINT_SECONDS = 20.0


def train(
    module: nn.Module,
    loss: Loss,
    evaluate: Evaluate,
    examples: Examples,
    recipe: Recipe,
    *,
    job: Job,
    name: str,
) -> Curve:
    """Trains `module` in place until `recipe.tokens` positions have been read.

    A checkpoint in `job.work` is written every few seconds and at SIGTERM or SIGINT, which then end the process; the
    next call with the same folder goes on from it with the same data order.

    Args:
        module: Its trainable parameters are optimised.
        loss: Of a minibatch.
        evaluate: Named figures of a held-out minibatch, averaged over the held-out set.
        examples: Training and held-out examples.
        recipe: How.
        job: Says where to train and where checkpoints lie.
        name: Shown beside the progress.
    """
    state = _State(module, recipe, job.work / "checkpoint.pt")
    state.restore()
    module.train()
    generator = torch.Generator().manual_seed(recipe.seed)
    torch.manual_seed(recipe.seed)
    batches = minibatches(examples.training, recipe.batch_tokens, generator)
    with task(f"training {name}", recipe.tokens) as progress, _graceful(state.save):
        if state.done:
            progress.advance(state.done, "resumed")
        read = 0
        while state.done < recipe.tokens:
            group = next(batches)
            size = len(group) * max(len(example.tokens) for example in group)
            read += size
            if read <= state.done:
                continue  # this batch was trained on before the run was interrupted
            value = state.step(loss(collate(group, job.device)), size)
            progress.advance(size, f"loss {value:.3f}")
            state.maybe_evaluate(lambda: _held_out(module, evaluate, examples.held_out, recipe, job.device))
    module.eval()
    state.curve.points.append(
        {"tokens": state.done, "final": 1.0} | _held_out(module, evaluate, examples.held_out, recipe, job.device)
    )
    return state.curve


class _State:
    """Optimiser, schedule, counters and curve; what a checkpoint holds."""

    def __init__(self, module: nn.Module, recipe: Recipe, path: Path) -> None:
        self._module, self._recipe, self._path = module, recipe, path
        self._parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self._optimiser = torch.optim.AdamW(
            self._parameters, lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=recipe.weight_decay
        )
        self.done, self.curve, self._recent = 0, Curve(), 0.0
        self._saved = self._started = time.monotonic()

    def restore(self) -> None:
        if not self._path.is_file():
            return
        saved = torch.load(self._path, weights_only=True)
        self._module.load_state_dict(saved["module"], strict=False)
        self._optimiser.load_state_dict(saved["optimiser"])
        self.done = saved["done"]
        self.curve = Curve(saved["points"], saved["seconds"])

    def save(self) -> None:
        trainable = {name for name, parameter in self._module.named_parameters() if parameter.requires_grad}
        weights = {name: value for name, value in self._module.state_dict().items() if name in trainable}
        saved = {
            "module": weights,
            "optimiser": self._optimiser.state_dict(),
            "done": self.done,
            "points": self.curve.points,
            "seconds": self.curve.seconds,
        }
        with atomic_path(self._path) as temporary:
            torch.save(saved, temporary)
        self._saved = time.monotonic()

    def step(self, loss: Tensor, size: int) -> float:
        share = self.done / self._recipe.tokens
        for group in self._optimiser.param_groups:
            group["lr"] = self._recipe.learning_rate * _schedule(share, self._recipe.warmup)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self._parameters, self._recipe.clip)
        self._optimiser.step()
        self.done += size
        now = time.monotonic()
        self.curve.seconds += now - self._started
        self._started = now
        self._recent = float(loss.detach())
        if now - self._saved > CHECKPOINT_SECONDS:
            self.save()
        return self._recent

    def maybe_evaluate(self, evaluate: Callable[[], dict[str, float]]) -> None:
        due = (len(self.curve.points) + 1) * self._recipe.evaluate_every * self._recipe.tokens
        if self.done >= due and self.done < self._recipe.tokens:
            self.curve.points.append({"tokens": self.done, "loss": self._recent} | evaluate())


def _schedule(share: float, warmup: float) -> float:
    """Learning rate relative to its peak: linear warm-up, then cosine decay to a tenth."""
    if share < warmup:
        return max(share, 1e-3) / warmup
    progress = (share - warmup) / (1 - warmup)
    return float(0.1 + 0.45 * (1 + torch.cos(torch.tensor(torch.pi * progress))))


@torch.no_grad()
def _held_out(
    module: nn.Module, evaluate: Evaluate, examples: Sequence[Example], recipe: Recipe, device: torch.device
) -> dict[str, float]:
    module.eval()
    totals: dict[str, float] = {}
    weight = 0
    for group in _in_order(examples, recipe.batch_tokens):
        batch = collate(group, device)
        positions = int(batch.answer.sum())
        for name, value in evaluate(batch).items():
            totals[name] = totals.get(name, 0.0) + value * positions
        weight += positions
    module.train()
    return {name: value / max(weight, 1) for name, value in totals.items()}


def _in_order(examples: Sequence[Example], tokens: int) -> Iterator[list[Example]]:
    per_batch = max(1, tokens // max(len(example.tokens) for example in examples))
    for start in range(0, len(examples), per_batch):
        yield list(examples[start : start + per_batch])


@contextmanager
def _graceful(save: Callable[[], None]) -> Iterator[None]:
    """Saves a checkpoint when the process is asked to end; only the main thread may listen for signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        save()
        raise SystemExit(128 + number)

    previous = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
