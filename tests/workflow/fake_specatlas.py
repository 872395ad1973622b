"""Stands in for the engine while the real Snakefile runs: writes small plausible files and logs every call."""

import json
import os
import sys
import time
from pathlib import Path

LOG = Path(os.environ["FAKE_LOG"])


def option(name: str, default: str = "") -> str:
    """The value after `name` on the command line."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def write(path: Path, text: str) -> None:
    """Writes a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def measure(slug: str, config: dict) -> None:
    """A record with a status; methods named in FAKE_FAILS fail."""
    status = "failed" if slug in os.environ.get("FAKE_FAILS", "").split(",") else "ok"
    folder = Path("results/records") / config["machine"] / config["target"] / config["prompts"]["name"]
    write(folder / option("--settings") / f"{slug}.json", json.dumps({"method": slug, "status": status}))


def main() -> None:
    """One command of `specatlas`."""
    command, first = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    name = first if command in {"fetch", "train", "measure"} else ""
    started = time.time()
    time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
    if {command, name} & set(os.environ.get("FAKE_BREAKS", "").split(",")) - {""}:
        sys.exit("the machine is broken")
    config = json.loads(option("--config", "{}"))
    if command == "fetch":
        write(Path("results/models") / name / "provenance.json", json.dumps({"model": name}))
    elif command == "corpus":
        write(Path("results/corpora") / config["target"] / f"{config['corpus']['name']}.parquet", "corpus")
    elif command == "train":
        folder = Path("results/artifacts") / config["target"] / config["budget"]["name"] / name
        write(folder / "artifact.safetensors", "weights")
        write(folder / "training.json", "{}")
    elif command == "measure":
        measure(name, config)
    elif command == "board":
        records = [json.loads(path.read_text()) for path in sorted(Path("results/records").rglob("*.json"))]
        write(Path("results/board.json"), json.dumps(records))
    elif command == "site":
        write(Path("site/public/index.html"), Path("results/board.json").read_text())
    with LOG.open("a") as handle:
        handle.write(json.dumps([command, name, started, time.time()]) + "\n")


main()
