"""`run`: decode with one method beside plain decoding, and `peers`: other implementations on the same prompts."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from specatlas.cli.common import (
    ConfigOption,
    JsonOption,
    TargetOption,
    load_config,
    load_project,
    parse_hyperparameters,
    print_json,
    print_table,
    runnable,
    say,
)
from specatlas.errors import ConfigError

Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]


def register(app: typer.Typer) -> None:
    """Adds this group's commands."""
    app.command("run")(run)
    app.command("peers")(peers)


def run(
    slug: str,
    prompt: Annotated[str | None, typer.Option(help="What to answer.")] = None,
    prompts: Annotated[
        Path | None, typer.Option(help="File with one prompt a line; `.jsonl`: objects with `prompt` or `turns`.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Limit of the answer, in tokens.")] = 128,
    temperature: Annotated[float, typer.Option(min=0, help="0 for greedy.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Keep the k most probable tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(min=0, max=1, help="Keep this much probability.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampling.")] = 0,
    dtype: Dtype = "bfloat16",
    target: TargetOption = None,
    budget: Annotated[str | None, typer.Option(help="Which artifact to load. [default: the configuration's]")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Hyper-parameter as name=value; repeatable.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a prompt with one method, and show what it gained over plain decoding."""
    _check_dtype(dtype)
    project, catalog = load_project()
    hyperparameters = parse_hyperparameters(set_ or [])
    runnable(catalog, slug).card.settings(dict(hyperparameters))
    texts = _texts(prompt, prompts)
    defaults = load_config(project, config)
    from specatlas.measure.single import run_single

    answers = [
        run_single(
            project,
            slug=slug,
            prompt=text,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            dtype=dtype,
            target=target or defaults.target,
            budget=budget or defaults.budget.name,
            hyperparameters=hyperparameters,
        )
        for text in texts
    ]
    if as_json:
        print_json(answers if prompts else answers[0])
        return
    for answer in answers:
        _show_answer(answer)


def _texts(prompt: str | None, prompts: Path | None) -> list[str]:
    if (prompt is None) == (prompts is None):
        raise ConfigError("Give either --prompt TEXT or --prompts FILE.")
    if prompts is None:
        return [prompt or ""]
    if not prompts.is_file():
        raise ConfigError(f"{prompts}: no such file; give one with a prompt a line.")
    lines = [line for line in prompts.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise ConfigError(f"{prompts}: the file has no prompts; give one a line.")
    if prompts.suffix != ".jsonl":
        return lines
    return [_text_of_json(line, f"{prompts}:{number}") for number, line in enumerate(lines, start=1)]


def _text_of_json(line: str, where: str) -> str:
    try:
        row = json.loads(line)
        text = row["prompt"] if "prompt" in row else row["turns"][0]
    except (json.JSONDecodeError, KeyError, IndexError, TypeError):
        text = None
    if not isinstance(text, str):
        raise ConfigError(f'{where}: no prompt; write objects like {{"prompt": "..."}} or {{"turns": ["..."]}}.')
    return text


def _show_answer(answer: dict[str, Any]) -> None:
    print(answer["text"])
    chunks = " ".join(str(chunk) for chunk in answer["chunks"])
    say(
        f"{answer['method']} on {answer['target']}: {len(answer['ids'])} tokens, "
        f"acceptance length {_number(answer['acceptance_length'])}, {_number(answer['tokens_per_s'])} tokens/s, "
        f"{_number(answer['speedup'])}x plain decoding, {answer['verdict']}; tokens per step: {chunks}"
    )


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _check_dtype(dtype: str) -> None:
    if dtype not in {"float32", "bfloat16", "float16"}:
        raise ConfigError(f"--dtype must be float32, bfloat16 or float16, not {dtype}.")


def peers(
    target: TargetOption = None,
    dtype: Dtype = "bfloat16",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare our plain and speculative decoding with other implementations on this machine."""
    _check_dtype(dtype)
    project, _ = load_project()
    chosen = target or load_config(project, config).target
    from specatlas.measure.peers import compare_peers

    rows = compare_peers(project, target=chosen, dtype=dtype)
    if as_json:
        print_json(rows)
        return
    columns = ("mode", "ours, tokens/s", "theirs, tokens/s", "ours ÷ theirs", "95 % interval", "identical ids")
    print_table(f"{chosen} in {dtype}", columns, [_peer_cells(row) for row in rows])


def _peer_cells(row: dict[str, Any]) -> list[str]:
    interval = row["interval"]
    low, high = (interval["low"], interval["high"]) if isinstance(interval, dict) else (interval or (None, None))
    span = f"{_number(low)} … {_number(high)}" if low is not None else "unknown"
    figures = [_number(row[key]) for key in ("ours_tokens_per_s", "theirs_tokens_per_s", "ratio")]
    return [row["mode"], *figures, span, str(row["identical_ids"])]
