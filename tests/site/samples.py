"""A small made-up catalog and boards, so that the site's tests depend on no real method or record."""

from pathlib import Path
from typing import Any

from specatlas.analysis.schema import Board, Boards, CategoryRow, Flag, Interval, PositionAcceptance, Row, Speedup
from specatlas.catalog.card import Card
from specatlas.catalog.discovery import Catalog, Method
from specatlas.catalog.taxonomy import Taxonomy
from specatlas.records.schema import Environment, UnitStatus, Verdict

HOSTILE = """</td></title><script>alert("x")</script> [link](javascript:alert(1)) *bold* `code` {: onclick="x" } <b """


def card(slug: str, atlas: str, **changes: Any) -> Card:
    values: dict[str, Any] = {
        "slug": slug,
        "name": slug.replace("_", " ").capitalize(),
        "summary": f"What {slug} does.",
        "class": atlas.split("/", maxsplit=1)[0],
        "place": {"atlas": atlas},
        "draft_shape": "chain",
        "lossless": {"greedy": "exact", "sampling": "distribution"},
        "verification": {"greedy": "greedy", "sampling": "speculative_sampling"},
        "status": "runnable",
    }
    return Card.model_validate(values | changes)


def catalog(*extra: Card) -> Catalog:
    heads = card(
        "heads",
        "model_centric/dependent/heads",
        place={"survey": "model_centric/dependent", "atlas": "model_centric/dependent/heads"},
        papers=({"title": "Heads that look ahead", "arxiv": "2401.10774", "year": 2024, "venue": "ICML"},),
        official_code="https://example.org/heads",
        needs={"artifacts": ("heads",), "hidden_states": True},
        training={"kind": "gradient", "summary": "Cross-entropy on the corpus."},
        hyperparameters={
            "heads": {"default": 3, "minimum": 1, "maximum": 8, "unit": "heads", "description": "How many heads."},
            "mode": {"default": "wide", "choices": ("wide", "deep"), "unit": "mode", "description": "Form."},
        },
        reported=(
            {"metric": "speedup", "value": "2.2", "target": "Vicuna-7B", "hardware": "A100", "source": "Table 1"},
        ),
        differs_from_paper=("One tree for all prompts.",),
    )
    cards = [
        heads,
        card("lookup", "draft_centric/retrieval"),
        card("typical", "draft_centric/relaxed_verification", lossless={"greedy": "lossy", "sampling": "lossy"}),
        card("giant", "draft_centric/tree_graph", status="catalogued", reason="Needs eight GPUs."),
        card("twin", "control/baseline", draft_shape="none"),
        *extra,
    ]
    taxonomy = Taxonomy.model_validate({"classes": [
        _node("model_centric", "2.1", dependent=_node("dependent", "2.1.2", heads=_node("heads"))),
        _node("draft_centric", "3.1", retrieval=_node("retrieval"), tree_graph=_node("tree_graph", "3.1.3"),
              relaxed_verification=_node("relaxed_verification"), search=_node("search", "3.1.2")),
        _node("control", baseline=_node("baseline")),
    ]})  # fmt: skip
    return Catalog({entry.slug: Method(entry, Path("methods") / entry.slug) for entry in cards}, taxonomy)


def _node(key: str, survey: str | None = None, **children: Any) -> dict[str, Any]:
    name = key.replace("_", " ").capitalize()
    return {"key": key, "name": name, "summary": f"{name}.", "survey": survey, "children": list(children.values())}


def speedup(value: float, spread: float = 0.08) -> Speedup:
    interval = Interval(low=value - spread, high=value + spread)
    return Speedup(ratio_of_sums=value, geometric_mean=value - 0.01, interval=interval)


def row(method: str, category: str, value: float | None, **changes: Any) -> Row:
    values: dict[str, Any] = dict.fromkeys(Row.model_fields)
    values |= {
        "method": method,
        "name": method.replace("_", " ").capitalize(),
        "method_class": category.split("/", maxsplit=1)[0],
        "category": category,
        "status": UnitStatus.OK,
        "n_prompts": 24,
        "n_tokens": 3000,
        "ranked": value is not None,
        "lossless": True,
        "rank": (1, 1) if value is not None else None,
        "acceptance_by_position": (),
        "acceptance_histogram": {},
        "flags": (),
        "by_category": (),
        "hyperparameters": {},
        "measured": "2026-01-02T03:04:05+00:00",
        "record": f"cpu-2/toy/atlas/greedy/{method}.json",
        "record_sha256": "0" * 64,
    }
    if value is not None:
        values |= _figures(value)
    return Row(**values | changes)


def _figures(value: float) -> dict[str, Any]:
    categories = [("coding", value + 0.3), ("long_story", value - 0.2)]
    return {
        "speedup": speedup(value),
        "acceptance_length": value + 0.4,
        "acceptance_length_vllm": value + 0.4,
        "acceptance_length_sglang": value + 0.41,
        "acceptance_by_position": (PositionAcceptance(position=1, drafted=100, reached=100, accepted=60),
                                   PositionAcceptance(position=2, drafted=100, reached=0, accepted=0)),
        "target_passes_saved": 0.4,
        "cost_model_speedup": value + 0.05,
        "tokens_per_s": 50 * value,
        "baseline_tokens_per_s": 50.0,
        "prefill_ms": 12.5,
        "draft_share": 0.11,
        "peak_memory_bytes": 900 << 20,
        "extra_parameters": 1_200_000,
        "verdict": Verdict.EXACT,
        "verdict_detail": "6 prompts identical in fp32.",
        "by_category": tuple(
            CategoryRow(category=name, n_prompts=6, speedup=speedup(found, 0.2), acceptance_length=found + 0.4,
                        tokens_per_s=50 * found)
            for name, found in categories
        ),
    }  # fmt: skip


def board(*extra: Row, machine: str = "cpu-2") -> Board:
    rows = (
        row("heads", "model_centric/dependent/heads", 1.62, rank=(1, 2), hyperparameters={"heads": 3}),
        row("lookup", "draft_centric/retrieval", 1.55, rank=(1, 2), cost_model_speedup=None, draft_share=None,
            flags=(Flag(code="repetition_above_baseline", severity="warning", message="12 % more 4-grams repeat."),)),
        row("typical", "draft_centric/relaxed_verification", 1.9, ranked=False, rank=None, lossless=False,
            unranked_reason="lossy: changes the output by design", verdict=Verdict.LOSSY, agreement=0.91,
            log_likelihood_change=-0.021),
        row("twin", "control/baseline", 1.0, ranked=False, rank=None,
            unranked_reason="control: shown to read the others by"),
        row("broken", "withdrawn", 2.5, ranked=False, rank=None, verdict=Verdict.WRONG, lossless=False,
            unranked_reason="wrong: claims to be lossless but changes the output",
            flags=(Flag(code="wrong_output", severity="error", message="Differs at position 7."),)),
        row("giant", "draft_centric/tree_graph", None, status=UnitStatus.REFUSED, reason="Vocabularies differ."),
    )  # fmt: skip
    return Board(
        machine=machine,
        target="toy",
        prompt_set="atlas",
        settings="greedy",
        effective_settings={"dtype": "bfloat16", "temperature": 0.0, "top_k": None, "batch": 1},
        environment=Environment(
            machine=machine, cpu="Toy CPU", cores=2, threads=2, memory_bytes=16 << 30, device="cpu", accelerator=None,
            python="3.11.9", packages={"torch": "2.11.0"}, load_before=0.0, load_after=0.1, foreign_load=0.0,
        ),
        n_prompts=24,
        rows=rows + extra,
    )  # fmt: skip


def boards(*found: Board) -> Boards:
    return Boards(boards=found)
