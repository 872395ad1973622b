"""Where things are: the project's folders, found from the working directory or from this file."""

import os
from dataclasses import dataclass
from pathlib import Path

from specatlas.errors import ConfigError

ROOT_VARIABLE = "SPECATLAS_ROOT"


@dataclass(frozen=True)
class Project:
    """The folders of one SpecAtlas checkout.

    Attributes:
        root: Folder that holds the Snakefile.
        results: Folder for everything the DAG makes; disposable.
    """

    root: Path
    results: Path

    @property
    def methods(self) -> Path:
        """Folder of the catalog: `taxonomy.yaml` and one folder a method."""
        return self.root / "methods"

    @property
    def data(self) -> Path:
        """Folder of prompts, the model list and the published records."""
        return self.root / "data"

    @property
    def published(self) -> Path:
        """Folder of the published records; it only grows."""
        return self.data / "results"

    @property
    def models(self) -> Path:
        """Folder of converted checkpoints, one folder a model id."""
        return self.results / "models"

    def corpus(self, target: str, name: str) -> Path:
        """File of the training corpus that `target` wrote under the corpus settings `name`."""
        return self.results / "corpora" / target / f"{name}.parquet"

    def artifact(self, target: str, budget: str, slug: str) -> Path:
        """Folder of what training or search made for method `slug` at this budget."""
        return self.results / "artifacts" / target / budget / slug


def find_project(start: Path | None = None, results: Path | None = None) -> Project:
    """Finds the checkout that `start` (default: the working directory) lies in.

    The environment variable SPECATLAS_ROOT wins; otherwise the nearest parent folder with a Snakefile and a methods
    folder; otherwise the checkout that this file belongs to.

    Raises:
        ConfigError: No checkout was found.
    """
    here = (start or Path.cwd()).resolve()
    forced = os.environ.get(ROOT_VARIABLE)
    candidates = [Path(forced)] if forced else [here, *here.parents, Path(__file__).resolve().parents[2]]
    for folder in candidates:
        if (folder / "Snakefile").is_file() and (folder / "methods").is_dir():
            return Project(root=folder, results=results or folder / "results")
    raise ConfigError(
        f"No SpecAtlas checkout found from {here}: run inside one, "
        f"or set {ROOT_VARIABLE} to the folder with the Snakefile."
    )
