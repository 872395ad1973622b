"""Makes the artifact of my_method. Delete this file if nothing is trained or searched.

As an example: which token follows each token most often in the tune prompts. With `needs` and `training` in the card,
`build` finds the result as `setup.artifacts["my_method"].tensors["follower"]`.
"""

import itertools
from collections import Counter

import torch

from specatlas.drafting.setup import Artifact
from specatlas.engine.transformer import Transformer
from specatlas.progress import task
from specatlas.training.job import Job, Made


def make(job: Job) -> Made:
    """Called by `specatlas train my_method`.

    The job brings the target, the corpus (the target's own answers, for `kind: gradient`) or the tune prompts (for
    `kind: search`), a budget with a seed, and the folder `job.work` for checkpoints: a killed job is called again with
    what it left there, and should go on. The same seed must make the same artifact.
    """
    pairs: Counter[tuple[int, int]] = Counter()
    with task("Counting", len(job.tune_prompts)) as progress:
        for prompt in job.tune_prompts:
            pairs.update(itertools.pairwise(prompt))
            progress.advance()
    follower = torch.full((job.target().architecture.vocabulary,), -1, dtype=torch.int32)
    for (first, second), _ in sorted(pairs.items(), key=lambda pair: pair[1]):
        follower[first] = second
    return Made(Artifact({"follower": follower}, {}), {"pairs": pairs.total()})


def untrained(target: Transformer, seed: int) -> Artifact:
    """Random weights for a tiny target: the conformance suite runs on these, since losslessness needs no training."""
    generator = torch.Generator().manual_seed(seed)
    vocabulary = target.architecture.vocabulary
    return Artifact({"follower": torch.randint(vocabulary, (vocabulary,), generator=generator, dtype=torch.int32)}, {})
