"""A temporary checkout with four small methods, the real Snakefile and package, and a fake `specatlas` on PATH."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROFILE = ("--workflow-profile", "workflow/profiles/cpu")
CARD = """\
slug: {slug}
name: Method {slug}
summary: A method for tests.
class: {method_class}
place: {{atlas: {place}}}
{extra}
draft_shape: chain
lossless: {{greedy: exact, sampling: unsupported}}
verification: {{greedy: greedy}}
status: runnable
"""
TRAINED = "needs: {{artifacts: [{slug}]}}\ntraining: {{kind: {kind}, summary: Learns.}}"
# Modules that belong to others and may import what the fake engine does not have.
STANDINS = {
    "environment.py": "def machine_name(config):\n    return 'box' if config.machine == 'auto' else config.machine\n",
    "hashes.py": "def harness_sha256():\n    return 'harness-1'\n\n\ndef training_sha256():\n    return 'training-1'\n",
}


@dataclass
class Run:
    """What one call of Snakemake did."""

    code: int
    text: str
    stderr: str

    @property
    def plan(self) -> dict[str, int]:
        """Jobs by rule, from the statistics that Snakemake prints; empty when there is nothing to do."""
        table = self.text.partition("Job stats:")[2].partition("total")[0]
        return {name: int(count) for name, count in re.findall(r"^(\w+)\s+(\d+)$", table, flags=re.MULTILINE)}

    def jobs(self, rule: str) -> set[str]:
        """The slugs (or models) of the planned jobs of one rule."""
        blocks = re.findall(rf"^(?:local)?rule {rule}:\n((?: +.*\n)+)", self.text, flags=re.MULTILINE)
        found = (
            re.search(r"wildcards: .*?(?:slug|model)=(\S+?)(?:,|$)", block, flags=re.MULTILINE) for block in blocks
        )
        return {match[1] for match in found if match}


@dataclass
class Checkout:
    """A temporary checkout."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def snakemake(self, *arguments: str, profile: bool = True, **environment: str) -> Run:
        """Runs the real Snakemake on the real Snakefile."""
        command = [sys.executable, "-m", "snakemake", *(PROFILE if profile else ()), *arguments]
        done = subprocess.run(
            command, cwd=self.root, env=self.environment | environment, capture_output=True, text=True, check=False
        )
        return Run(done.returncode, done.stdout + done.stderr, done.stderr)

    def calls(self) -> list[list]:
        """Every call of the fake since the last question, as [command, name, start, end]."""
        log = Path(self.environment["FAKE_LOG"])
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    def add_method(self, slug: str, method_class: str = "draft_centric", place: str = "", extra: str = "") -> Path:
        """Writes a method's folder."""
        folder = self.root / "methods" / method_class / slug
        folder.mkdir(parents=True)
        card = CARD.format(slug=slug, method_class=method_class, place=place or method_class, extra=extra)
        (folder / "method.yaml").write_text(card)
        (folder / "method.py").write_text(f'"""Code of {slug}."""\n')
        return folder

    def edit(self, path: str, text: str = "# edited\n") -> None:
        """Appends to a file of the checkout."""
        with (self.root / path).open("a") as handle:
            handle.write(text)

    def record(self, slug: str) -> Path:
        """A unit's record."""
        return self.root / "results/records/box/tiny-llama/atlas-smoke/greedy-fp32" / f"{slug}.json"


def make_checkout(root: Path) -> Checkout:
    """Copies what the DAG reads and writes the fake."""
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "workflow", root / "workflow", ignore=skip)
    shutil.copytree(ROOT / "data" / "prompts", root / "data" / "prompts")
    shutil.copy(ROOT / "Snakefile", root / "Snakefile")
    shutil.copy(ROOT / "data" / "models.yaml", root / "data" / "models.yaml")
    shutil.copy(root / "workflow/config/smoke.yaml", root / "workflow/config/default.yaml")
    for name, text in STANDINS.items():
        (root / "workflow/specatlas/measure" / name).write_text(text)
    (root / "site/templates").mkdir(parents=True)
    (root / "site/templates/page.j2").write_text("page\n")
    (root / "methods").mkdir()
    shutil.copy(ROOT / "methods/taxonomy.yaml", root / "methods/taxonomy.yaml")
    checkout = Checkout(root, environment_for(root))
    checkout.add_method("plain", "control")
    checkout.add_method("alpha", "model_centric", extra=TRAINED.format(slug="alpha", kind="gradient"))
    checkout.add_method("alpha2", "model_centric", extra="needs: {artifacts: [alpha]}")
    checkout.add_method("searched", extra=TRAINED.format(slug="searched", kind="search"))
    return checkout


def environment_for(root: Path) -> dict[str, str]:
    """An environment with the fake on PATH and this checkout's own package."""
    fake = root / "bin" / "specatlas"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text(f"#!{sys.executable}\n" + (Path(__file__).parent / "fake_specatlas.py").read_text())
    fake.chmod(0o755)
    return os.environ | {
        "PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(root / "workflow"),
        "FAKE_LOG": str(root / "fake.log"),
        "COLUMNS": "200",
    }
