"""The columns of the boards: what each says of a row, and why it is empty where it is."""

from collections.abc import Callable
from dataclasses import dataclass

from specatlas.analysis.schema import Row
from specatlas.publish import numbers
from specatlas.publish.cells import Cell, Header, missing, number, speedup
from specatlas.publish.links import Links
from specatlas.records.schema import UnitStatus, Verdict

CLASS_NAMES = {
    "draft_centric": "Draft-centric",
    "model_centric": "Model-centric",
    "control": "Control",
    "withdrawn": "Withdrawn",
}
VERDICTS = {
    Verdict.EXACT: ("✓", "exact"),
    Verdict.NEAR_TIE: ("≈", "exact but for near-ties"),
    Verdict.DISTRIBUTION: ("✓", "same distribution"),
    Verdict.LOSSY: ("◐", "lossy"),
    Verdict.WRONG: ("✗", "wrong"),
    Verdict.NOT_TESTED: ("?", "not tested"),
}
STATUSES = {
    UnitStatus.OK: ("✓", "measured"),
    UnitStatus.FAILED: ("✗", "failed"),
    UnitStatus.REFUSED: ("⊘", "refused"),
    UnitStatus.OUT_OF_MEMORY: ("✗", "out of memory"),
}


@dataclass(frozen=True)
class Column:
    """A column: its head, and the cell that it makes of a row."""

    header: Header
    cell: Callable[[Row, Links], Cell]


def _rank(row: Row, _: Links) -> Cell:
    if row.rank is None:
        return missing("This row is not ranked.")
    best, worst = row.rank
    return Cell(numbers.rank_range(row.rank), sort=best + worst / 10_000)


def method_cell(row: Row, links: Links) -> Cell:
    """The method's name, leading to its page."""
    return Cell(row.name, sort=row.name.casefold(), href=links.method(row.method))


def _place(row: Row, links: Links) -> Cell:
    known = row.category in links.catalog.taxonomy.places()
    return Cell(
        CLASS_NAMES.get(row.method_class, row.method_class),
        sort=row.category,
        detail=links.place_name(row.category),
        href=links.place(row.category) if known else None,
    )


def _speed(row: Row, _: Links) -> Cell:
    plain = row.baseline_tokens_per_s
    detail = "" if plain is None else f"plain {numbers.rate(plain)}"
    return number(row.tokens_per_s, numbers.rate, "The record times no tokens.", detail)


def _memory(row: Row, _: Links) -> Cell:
    extra = row.extra_parameters
    detail = f"+{numbers.parameters(extra)} params" if extra else ""
    return number(row.peak_memory_bytes, numbers.memory, "The record has no peak memory.", detail)


def _verdict(row: Row, _: Links) -> Cell:
    if row.verdict is None:
        return missing("No exactness gate ran.")
    icon, text = VERDICTS[row.verdict]
    return Cell(text, sort=text, icon=icon, hint=row.verdict_detail or "")


def _flags(row: Row, links: Links) -> Cell:
    page = links.method(row.method)
    href = f"{page}#flags" if page else None
    if not row.flags:
        return Cell("none", sort="")
    return Cell("", sort=" ".join(flag.code for flag in row.flags), flags=row.flags, href=href)


def _status(row: Row, _: Links) -> Cell:
    icon, text = STATUSES[row.status]
    return Cell(text, sort=text, icon=icon)


def _plain(
    key: str,
    label: str,
    meaning: str,
    value: Callable[[Row], float | None],
    show: Callable[[float], str],
    reason: str,
) -> Column:
    """A column of one plain number."""
    header = Header(key, label, meaning, numeric=True, first="descending")
    return Column(header, lambda row, _: number(value(row), show, reason))


RANK = Column(Header("rank", "Rank", "Best and worst rank that the data allow; ties share a range.", True), _rank)
METHOD = Column(Header("method", "Method", "Leads to the method's page."), method_cell)
PLACE = Column(Header("place", "Class and place", "Place in our taxonomy."), _place)
SPEEDUP = Column(
    Header(
        "speedup",
        "Speedup",
        "Time per token of plain decoding ÷ that of the method (ratio of sums), with its 95 % interval.",
        True,
        "descending",
    ),
    lambda row, _: speedup(row.speedup, "The record has no times to compare."),
)
SPEED = Column(
    Header(
        "tokens_per_s",
        "Tokens/s",
        "Tokens per second of the method, and of plain decoding beside it.",
        True,
        "descending",
    ),
    _speed,
)
ACCEPTANCE_LENGTH = _plain(
    "acceptance_length",
    "Acceptance length",
    "Tokens emitted per verification step, bonus token included.",
    lambda row: row.acceptance_length,
    "{:.2f}".format,
    "No verification step was made.",
)
PASSES_SAVED = _plain(
    "passes_saved",
    "Target passes saved",
    "Share of plain decoding's target passes that the method did without.",
    lambda row: row.target_passes_saved,
    numbers.percent,
    "No verification step was made.",
)
COST_MODEL = _plain(
    "cost_model",
    "Cost-model speedup",
    "Speedup expected from acceptance and measured latencies alone.",
    lambda row: row.cost_model_speedup,
    numbers.times,
    "The record has no latencies to model the cost from.",
)
DRAFT_SHARE = _plain(
    "draft_share",
    "Draft share",
    "Share of decoding time spent drafting (proposing and observing).",
    lambda row: row.draft_share,
    numbers.percent,
    "The record does not split its decoding time.",
)
MEMORY = Column(
    Header("memory", "Peak memory", "Peak of the unit's process, and the parameters that the method adds.", True),
    _memory,
)
VERDICT = Column(Header("verdict", "Verdict", "What the exactness gate found."), _verdict)
FLAGS = Column(Header("flags", "Flags", "What to know before trusting the row."), _flags)
STATUS = Column(Header("status", "Status", "How the unit ended."), _status)
REASON = Column(Header("reason", "Reason"), lambda row, _: Cell(row.reason or "No reason was recorded."))
UNRANKED_REASON = Column(
    Header("unranked_reason", "Why not ranked"), lambda row, _: Cell(row.unranked_reason or "No reason was recorded.")
)
AGREEMENT = _plain(
    "agreement",
    "Agreement",
    "Share of positions, up to each prompt's first divergence, that equal plain decoding's.",
    lambda row: row.agreement,
    numbers.percent,
    "The record has no quality figures.",
)
LIKELIHOOD = _plain(
    "log_likelihood",
    "Log-likelihood change",
    "Change of the mean log-probability per token under the target, in nats; negative is worse.",
    lambda row: row.log_likelihood_change,
    numbers.signed,
    "The record has no log-likelihoods.",
)

FIGURES = (SPEEDUP, SPEED, ACCEPTANCE_LENGTH, PASSES_SAVED, COST_MODEL, DRAFT_SHARE, MEMORY, VERDICT, FLAGS)
RANKED = (RANK, METHOD, PLACE, *FIGURES)
UNRANKED = (METHOD, PLACE, UNRANKED_REASON, *FIGURES)
CONTROLS = (METHOD, PLACE, *FIGURES)
LOSSY = (METHOD, PLACE, SPEEDUP, AGREEMENT, LIKELIHOOD, *FIGURES[1:])
WITHOUT_NUMBERS = (METHOD, PLACE, STATUS, REASON)
