"""The commands behind the rules."""

import json
import struct

import pytest

from specatlas.cli.schemas import current_schemas, outdated
from specatlas.errors import ModelSourceError, UnsupportedArchitecture
from tests.unit.cli.conftest import REPOSITORY, raiser


def header_of(path) -> dict:
    """The JSON header of a safetensors file."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length])


def test_fetch(cli, stand_in, project) -> None:
    stand_in(
        "specatlas.models.fetch", FETCH_STEPS=3, fetch_model=lambda project, model, progress: project.models / model
    )
    result = cli("fetch", "tiny-llama")
    assert (result.code, result.out) == (0, "")
    assert "results/models/tiny-llama" in result.err


def test_an_unreachable_hub_is_one_sentence(cli, stand_in) -> None:
    error = ModelSourceError("The hub cannot be reached.")
    stand_in("specatlas.models.fetch", FETCH_STEPS=3, fetch_model=raiser(error))
    cli("fetch", "big").refused("The hub cannot be reached.")


def test_jobs_take_the_configuration_as_json(cli, stand_in, project) -> None:
    seen = []

    def measure_unit(project, config, settings, slug):
        seen.append((config.target, config.settings[settings].dtype, slug))
        return project.results / "records/x.json"

    stand_in("specatlas.measure.unit", measure_unit=measure_unit)
    config = {
        "name": "job",
        "target": "other",
        "prompts": {"name": "none"},
        "settings": {"fast": {"dtype": "float16"}},
        "corpus": {"name": "none", "instructions": 1},
        "budget": {"name": "none", "tokens": 1},
    }
    assert cli("measure", "lookup", "--config", json.dumps(config)).code == 0
    assert seen == [("other", "float16", "lookup")]
    cli("measure", "lookup", "--settings", "slow").refused("No settings are called `slow`", "greedy-fp32")
    cli("measure", "lookup", "--config", json.dumps(config | {"gpus": 1})).refused("--config: gpus: Extra inputs")


def test_corpus(cli, stand_in, project) -> None:
    stand_in("specatlas.training.corpus", build_corpus=lambda project, config: project.corpus(config.target, "smoke"))
    assert "results/corpora/tiny-llama/smoke.parquet" in cli("corpus").err


@pytest.mark.parametrize(
    ("error", "status", "code", "reason"),
    [
        (UnsupportedArchitecture("No heads fit this target."), "refused", "UnsupportedArchitecture", "No heads fit"),
        (ZeroDivisionError("division by zero"), "failed", "ZeroDivisionError", "division by zero"),
        (MemoryError("no room"), "out_of_memory", "MemoryError", "no room"),
    ],
)
def test_a_failed_training_is_typed_data(
    cli, stand_in, project, error: Exception, status: str, code: str, reason: str
) -> None:
    stand_in("specatlas.training.artifacts", make_artifact=raiser(error))
    result = cli("train", "trained")
    assert result.code == 0
    assert reason in result.err
    folder = project.artifact("tiny-llama", "smoke", "trained")
    report = json.loads((folder / "training.json").read_text())
    assert (report["status"], report["error_code"]) == (status, code)
    header = header_of(folder / "artifact.safetensors")
    assert list(header) == ["__metadata__"], "no tensors that could be taken for weights"
    assert json.loads(header["__metadata__"]["specatlas"]) == report


@pytest.mark.parametrize("error", [OSError("disk"), ModelSourceError("The target is not fetched.")])
def test_a_failure_of_the_machine_fails_the_training_job(cli, stand_in, project, error: Exception) -> None:
    stand_in("specatlas.training.artifacts", make_artifact=raiser(error))
    cli("train", "trained").refused(str(error))
    assert not project.results.exists()


def test_training_needs_something_to_train(cli) -> None:
    cli("train", "lookup").refused("Method lookup trains nothing")


def test_site_needs_a_board(cli) -> None:
    cli("site").refused("results/board.json", "build the board first")


def test_schemas_are_current() -> None:
    assert outdated(REPOSITORY / "workflow/schemas", current_schemas()) == [], "run `specatlas schemas`"


def test_schemas_refuse_unknown_keys_at_every_level() -> None:
    schema = json.loads(current_schemas()["config.schema.json"])
    objects = [schema, *schema["$defs"].values()]
    assert len(objects) == 5
    assert all(part["additionalProperties"] is False for part in objects)


def test_schema_drift_is_found_and_repaired(cli, project) -> None:
    result = cli("schemas", "--check")
    assert result.code == 1
    assert "config.schema.json is out of date" in result.err
    assert cli("schemas").code == 0
    assert cli("schemas", "--check").code == 0
