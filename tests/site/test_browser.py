"""Sorting and filtering in a real browser, from a folder on disk; the address drives the script."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--dump-dom"]  # fmt: skip
RANKED = "cpu-2-toy-atlas-greedy-ranked"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH; install it with apt-get install chromium"),
]


def dom(page: Path, state: str, profile: Path) -> str:
    """The page's DOM after its scripts ran."""
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", f"{page.as_uri()}{state}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def methods(page: str, anchor: str) -> list[str]:
    """Names in the first column that holds a method, in the table's order, without hidden rows."""
    body = re.search(rf'<table[^>]*id="{anchor}".*?</table>', page, re.DOTALL)
    assert body, anchor
    rows = [row for row in re.findall(r"<tr .*?</tr>", body.group(), re.DOTALL) if "hidden" not in row.split(">")[0]]
    return [re.sub(r"<[^>]+>", "", re.findall(r"<a href=\"methods/[^>]*>.*?</a>", row)[0]) for row in rows]


def test_sorts_by_value_and_says_so(public: Path, tmp_path: Path) -> None:
    page = dom(public / "index.html", f"#sort=speedup&order=ascending&table={RANKED}", tmp_path)
    assert methods(page, RANKED) == ["Lookup", "Heads"]
    assert page.count('aria-sort="ascending"') == 1
    assert re.search(r'<th[^>]*data-key="speedup"[^>]*aria-sort="ascending"[^>]*><button type="button"', page)


def test_missing_values_come_last_either_way(public: Path, tmp_path: Path) -> None:
    for number, order in enumerate(("ascending", "descending")):
        page = dom(public / "index.html", f"#sort=cost_model&order={order}", tmp_path / str(number))
        assert methods(page, RANKED) == ["Heads", "Lookup"]


def test_filters_by_class_and_text(public: Path, tmp_path: Path) -> None:
    page = dom(public / "index.html", "#class=draft_centric&text=retrieval", tmp_path)
    assert methods(page, RANKED) == ["Lookup"]
    assert methods(page, "cpu-2-toy-atlas-greedy-controls") == []
    assert re.search(r"\d+ of \d+ rows shown", page)
    assert not re.search(r"<form class=\"atlas-filter\" hidden", page)


def test_all_rows_show_by_default_and_hostile_text_runs_nothing(public: Path, tmp_path: Path) -> None:
    page = dom(public / "index.html", "", tmp_path)
    assert methods(page, RANKED) == ["Heads", "Lookup"]
    shown, total = map(int, re.findall(r"(\d+) of (\d+) rows shown", page)[0])
    assert shown == total > 10
    assert "atlas-from-disk" in page


def test_clicks_cycle_through_the_orders(public: Path, tmp_path: Path) -> None:
    """Three clicks: the column's own direction, the other one, the page's order."""
    copy = tmp_path / "site"
    shutil.copytree(public, copy)
    clicks = (
        "<script>addEventListener('load', () => {"
        f"const table = document.getElementById('{RANKED}');"
        "const order = () => [...table.tBodies[0].rows].map((row) => row.cells[1].textContent).join('|');"
        "const log = [];"
        "const head = table.querySelector('th[data-key=speedup]');"
        "for (let n = 0; n < 3; n += 1) { head.querySelector('button').click();"
        "log.push(`${head.getAttribute('aria-sort')}:${order()}:${location.hash}`); }"
        "document.body.dataset.log = log.join(' ; ');"
        "});</script>"
    )
    index = copy / "index.html"
    index.write_text(index.read_text().replace("</body>", f"{clicks}</body>"))
    page = dom(index, "", tmp_path / "profile")
    found = re.search(r'data-log="([^"]*)"', page)
    assert found
    first, second, third = found.group(1).split(" ; ")
    assert first.startswith("descending:Heads|Lookup:#sort=speedup")
    assert second.startswith("ascending:Lookup|Heads:#sort=speedup")
    assert third.startswith("null:Heads|Lookup:")
