import pytest
import torch

from specatlas.measure import single, unit
from tests.unit.measure.world import FakeEncoder, add_method, make_project


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    made = make_project(tmp_path_factory.mktemp("checkout") / "atlas")
    for slug in ("raises", "refuses", "hungry", "next_token"):
        add_method(made, slug)
    add_method(made, "remembers", carry_over=True)
    return made


@pytest.fixture(scope="session", autouse=True)
def stand_ins(tmp_path_factory):
    """A fake tokenizer, and locks that no job on this machine holds."""
    locks = tmp_path_factory.mktemp("locks")
    with pytest.MonkeyPatch.context() as patch:
        for module in (unit, single):
            patch.setattr(module, "load_encoder", FakeEncoder)
        patch.setattr("specatlas.measure.lock.lock_folder", lambda: locks)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Tiny matrices gain nothing from threads, and wait long for them on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
