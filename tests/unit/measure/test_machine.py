"""Names, hashes, load and the lock: what a record says of the machine and what it depends on."""

import multiprocessing
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import specatlas
from specatlas.errors import ConfigError, MachineBusy
from specatlas.measure import environment
from specatlas.measure.clock import choose_device, synchronizer
from specatlas.measure.environment import accelerator_name, git_state, machine_name, read_environment
from specatlas.measure.hashes import harness_sha256, model_sha256, training_sha256
from specatlas.measure.load import LoadMeter, foreign_load
from specatlas.measure.lock import machine_lock
from specatlas.measure.seeds import generation_seed, order_seed
from tests.unit.measure.world import tiny_config

NAME = re.compile(r"^[a-z0-9][a-z0-9._-]*$")


def config(**changes):
    return tiny_config().model_copy(update=changes)


def test_machine_name_is_given_or_derived():
    assert machine_name(config(machine="node-7")) == "node-7"
    derived = machine_name(config(machine="auto"))
    assert derived == machine_name(config(machine="auto"))
    assert NAME.match(derived)


def test_machine_name_tells_machines_apart(monkeypatch):
    names = set()
    for cpu, cores in (("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", 28), ("AMD EPYC", 2), ("AMD EPYC", 4)):
        monkeypatch.setattr(environment, "cpu_model", lambda cpu=cpu: cpu)
        monkeypatch.setattr(environment, "physical_cores", lambda cores=cores: cores)
        names.add(machine_name(config(machine="auto", device="cpu")))
    assert len(names) == 3
    assert all(NAME.match(name) for name in names)
    assert any(name.startswith("intel-xeon-e5-2680-v4-28-cores-") for name in names)


def smi(monkeypatch, listing, version="2.13.0"):
    monkeypatch.setattr(environment.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(environment, "_version", lambda package: version)
    monkeypatch.setattr(environment, "_output", lambda command: listing)


def test_accelerator_names_the_machine(monkeypatch):
    smi(monkeypatch, "0, GPU-aa, NVIDIA H200\n1, GPU-bb, NVIDIA A100, 80GB")
    assert machine_name(config(machine="auto", device="auto")).startswith("nvidia-h200-")
    assert not machine_name(config(machine="auto", device="cpu")).startswith("nvidia")
    for visible, name in (
        ("1", "NVIDIA A100, 80GB"),
        ("GPU-bb", "NVIDIA A100, 80GB"),
        ("", None),
        ("MIG-1", "NVIDIA H200"),
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert accelerator_name() == name
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    smi(monkeypatch, None)
    assert accelerator_name() is None
    smi(monkeypatch, "0, GPU-aa, NVIDIA H200", version="2.13.0+cpu")
    assert accelerator_name() is None


def test_naming_needs_no_torch():
    code = (
        "import sys, specatlas.measure.environment, specatlas.measure.hashes, specatlas.measure.load\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_environment_describes_this_machine():
    seen = read_environment("here", "cpu", load_before=0.1, load_after=0.2, foreign_load=0.3)
    assert (seen.machine, seen.accelerator, seen.foreign_load) == ("here", None, 0.3)
    assert seen.memory_bytes > 0
    assert {"torch", "transformers", "specatlas"} <= set(seen.packages)


def test_device_is_honoured(monkeypatch):
    assert choose_device("cpu").type == "cpu"
    assert synchronizer(choose_device("cpu"))() is None
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert choose_device("auto").type == "cpu"
    with pytest.raises(ConfigError, match="no GPU"):
        choose_device("cuda")


def git(folder, *arguments):
    name = ["-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run(["git", "-C", str(folder), *name, *arguments], check=True, capture_output=True)


def test_git_state(tmp_path, monkeypatch):
    assert git_state(tmp_path) == (None, None)
    git(tmp_path, "init")
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-m", "one")
    commit, dirty = git_state(tmp_path)
    assert (len(commit), dirty) == (40, False)
    (tmp_path / "data" / "results").mkdir(parents=True)
    (tmp_path / "data" / "results" / "record.json").write_text("{}")
    assert git_state(tmp_path) == (commit, False)
    (tmp_path / "new.py").write_text("")
    assert git_state(tmp_path) == (commit, True)
    assert git_state(tmp_path / "data") == (None, None)
    monkeypatch.setenv("PATH", "/nowhere")
    assert git_state(tmp_path) == (None, None)


@pytest.mark.parametrize(
    ("file", "harness", "training"),
    [
        ("engine/decoding.py", True, True),
        ("engine/verification/greedy.py", True, True),
        ("drafting/setup.py", True, True),
        ("measure/unit.py", True, False),
        ("records/schema.py", True, False),
        ("prompts/registry.py", True, False),
        ("training/job.py", False, True),
        ("measure/single.py", False, False),
        ("analysis/board.py", False, False),
        ("publish/site.py", False, False),
        ("cli/run.py", False, False),
    ],
)
def test_hashes_change_with_the_right_files_only(tmp_path, file, harness, training):
    package = tmp_path / "specatlas"
    shutil.copytree(Path(specatlas.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    before = harness_sha256(package), training_sha256(package)
    assert before == (harness_sha256(package), training_sha256(package))
    with (package / file).open("a") as handle:
        handle.write("# changed\n")
    after = harness_sha256(package), training_sha256(package)
    assert (before[0] != after[0], before[1] != after[1]) == (harness, training)


def test_model_hash(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before = model_sha256(tmp_path)
    (tmp_path / "README.md").write_text("words")
    assert model_sha256(tmp_path) == before
    (tmp_path / "model.safetensors").write_bytes(b"other")
    assert model_sha256(tmp_path) != before


def test_foreign_load():
    assert foreign_load(2.0, machine=3.0, own=1.0) == 1.0
    assert foreign_load(2.0, machine=1.0, own=1.5) == 0.0
    assert foreign_load(0.05, machine=3.0, own=1.0) is None


def test_own_work_is_not_foreign(monkeypatch):
    from specatlas.measure import load

    readings = iter([load._Reading(0.0, 10.0, 5.0), load._Reading(1.0, 12.5, 6.0)])
    monkeypatch.setattr(load._Reading, "now", lambda: next(readings))
    assert LoadMeter().read() == 1.5


def test_load_meter_sees_another_process():
    def busy(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    context = multiprocessing.get_context("fork")
    other = context.Process(target=busy, args=(1.5,))
    other.start()
    meter = LoadMeter()
    time.sleep(0.6)
    load = meter.read()
    other.terminate()
    other.join()
    assert load > 0.2


HOLDER = """
import sys, time
from pathlib import Path
from specatlas.measure.lock import machine_lock
with machine_lock("cpu", folder=Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def hold(folder, seconds):
    command = [sys.executable, "-c", HOLDER, str(folder), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_lock_excludes_a_second_process(tmp_path, capsys):
    other = hold(tmp_path, 60)
    with (
        pytest.raises(MachineBusy, match=r"still holds cpu after 0\.2 s"),
        machine_lock("cpu", timeout=0.2, folder=tmp_path),
    ):
        pass
    assert "waiting" in capsys.readouterr().err
    with machine_lock("cuda-GPU-1", timeout=0, folder=tmp_path):
        pass
    other.kill()
    other.wait()
    with machine_lock("cpu", timeout=5, folder=tmp_path):
        pass
    assert capsys.readouterr().err.count("waiting") <= 1


def test_lock_waits_for_its_turn(tmp_path):
    other = hold(tmp_path, 0.3)
    with machine_lock("cpu", folder=tmp_path):
        pass
    assert other.wait() == 0


def test_seeds():
    assert generation_seed(0, "a-1", 0, 0) == generation_seed(0, "a-1", 0, 0) < 2**53
    others = {generation_seed(*key) for key in ((0, "a-1", 0, 1), (0, "a-1", 1, 0), (0, "a-2", 0, 0), (1, "a-1", 0, 0))}
    assert len(others) == 4
    assert order_seed(0) != order_seed(1)
