"""The marker `fault("A05", …)`: which faults of COVERAGE.md a test is for. `pytest tests/faults -v` lists them."""

from collections import defaultdict

import pytest
import torch

COVERED = pytest.StashKey[dict[str, list[str]]]()


def pytest_configure(config):
    config.addinivalue_line("markers", "fault(*ids): covers these faults of tests/faults/COVERAGE.md")
    config.stash[COVERED] = defaultdict(list)


def pytest_collection_modifyitems(config, items):
    for item in items:
        for marker in item.iter_markers("fault"):
            for fault in marker.args:
                config.stash[COVERED][fault].append(item.nodeid)


def pytest_terminal_summary(terminalreporter, config):
    if config.get_verbosity() < 1 or not config.stash[COVERED]:
        return
    terminalreporter.section("faults with a test of their own here")
    for fault, tests in sorted(config.stash[COVERED].items()):
        names = sorted({test.rpartition("::")[2].partition("[")[0] for test in tests})
        terminalreporter.write_line(f"{fault}  {', '.join(names)}")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
