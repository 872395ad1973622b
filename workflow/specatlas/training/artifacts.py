"""Makes one method's artifact: finds its `train.py`, runs it, writes artifact and report."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from specatlas.catalog.discovery import load_catalog
from specatlas.config import Config
from specatlas.drafting.methods import import_part
from specatlas.drafting.setup import REPORT_FILE
from specatlas.errors import CatalogError, ModelSourceError
from specatlas.files import sha256_of_file, write_json
from specatlas.models.tokenizer import Tokenizer
from specatlas.project import Project
from specatlas.prompts.registry import load_prompt_set
from specatlas.training.devices import pick_device
from specatlas.training.job import Job, Made, Make


def make_artifact(project: Project, config: Config, slug: str) -> Path:
    """Writes `results/artifacts/<target>/<budget>/<slug>/` and returns the folder.

    Raises:
        CatalogError: The method does not train or search.
        ModelSourceError: Target or corpus are missing.
    """
    method = load_catalog(project.methods)[slug]
    if method.card.training is None:
        raise CatalogError(f"Method {slug} needs no training; there is nothing to make.")
    make: Make | None = getattr(import_part(method, "train"), "make", None)
    if make is None:
        raise CatalogError(f"{method.folder}/train.py defines no make(job); see methods/_template.")
    folder = project.artifact(config.target, config.budget.name, slug)
    job = _job(project, config, folder, searches=method.card.training.kind == "search")
    started = monotonic()
    made = make(job)
    path = made.artifact.save(folder)
    write_json(folder / REPORT_FILE, _report(made, job, slug, config, path, monotonic() - started))
    shutil.rmtree(job.work, ignore_errors=True)
    return folder


def _job(project: Project, config: Config, folder: Path, *, searches: bool) -> Job:
    target_folder = project.models / config.target
    if not target_folder.is_dir():
        raise ModelSourceError(f"{target_folder} does not exist; run `specatlas fetch {config.target}`.")
    tokenizer = Tokenizer(target_folder)
    prompts = load_prompt_set(config.prompts.source, project.root, split="tune") if searches else []
    # Checkpoints live beside the artifact's folder, which Snakemake empties before it runs a job again.
    work = folder.parent / f".{folder.name}.work"
    work.mkdir(parents=True, exist_ok=True)
    return Job(
        target_folder=target_folder,
        corpus=None if searches else project.corpus(config.target, config.corpus.name),
        tune_prompts=[tokenizer.encode_chat(list(prompt.turns[:1])) for prompt in prompts],
        eos_ids=tokenizer.eos_ids,
        budget=config.budget,
        device=pick_device(config.device),
        work=work,
    )


def _report(made: Made, job: Job, slug: str, config: Config, path: Path, seconds: float) -> dict[str, object]:
    return {
        "method": slug,
        "target": config.target,
        "budget": config.budget.model_dump(),
        "corpus": None if job.corpus is None else {"name": config.corpus.name, "sha256": sha256_of_file(job.corpus)},
        "artifact_sha256": sha256_of_file(path),
        "seconds": round(seconds, 1),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        **made.report,
    }
