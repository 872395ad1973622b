"""What the pages say: rows in their right group, missing figures with reasons, hostile text as text."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from specatlas.analysis.schema import Speedup
from specatlas.publish.boards import board_section, group_rows, heat_table
from specatlas.publish.cells import number
from specatlas.publish.links import Links, external
from specatlas.publish.numbers import interval, memory, parameters, percent, rank_range
from specatlas.publish.plot import make_axis, speedup_plot
from specatlas.publish.render import markdown_text, page_title
from tests.site import samples

Read = Callable[[str], str]


def table(page: str, anchor: str) -> str:
    found = re.search(rf'<table class="atlas-table" id="{anchor}">.*?</table>', page, re.DOTALL)
    assert found, anchor
    return found.group()


def test_only_ranked_rows_stand_among_the_ranked(read: Read) -> None:
    page = read("index.html")
    ranked = table(page, "cpu-2-toy-atlas-greedy-ranked")
    assert "Heads" in ranked
    assert "Lookup" in ranked
    assert not {"Typical", "Twin", "Broken", "Giant"} & set(re.findall(r"\w+", ranked))
    assert "Typical" in table(page, "cpu-2-toy-atlas-greedy-lossy")
    assert "Twin" in table(page, "cpu-2-toy-atlas-greedy-controls")
    assert "Broken" in table(page, "cpu-2-toy-atlas-greedy-unranked")
    assert "Vocabularies differ." in table(page, "cpu-2-toy-atlas-greedy-without-numbers")


def test_every_row_is_in_exactly_one_group() -> None:
    rows = samples.board().rows
    groups = vars(group_rows(rows)).values()
    assert sorted(row.method for group in groups for row in group) == sorted(row.method for row in rows)


def test_missing_figure_is_a_dash_with_its_reason_never_zero(read: Read) -> None:
    cells = re.findall(r"<td[^>]*data-missing[^>]*>.*?</td>", read("index.html"), re.DOTALL)
    assert cells
    for cell in cells:
        assert "—" in cell
        assert 'title="' in cell
        assert 'class="reason"' in cell


def test_speedup_cell_has_its_interval(read: Read) -> None:
    ranked = table(read("index.html"), "cpu-2-toy-atlas-greedy-ranked")
    assert re.search(r'<td class="number" data-sort="1.62">1.62× <small>\[1.54, 1.70\]</small></td>', ranked)


def test_flag_and_verdict_are_words_with_signs(read: Read) -> None:
    page = read("index.html")
    assert "repetition_above_baseline</a>" in page
    assert re.search(r'<span class="icon" aria-hidden="true">✓</span> exact', page)


def test_hardware_stands_above_the_figures(read: Read) -> None:
    page = read("index.html")
    assert page.index("Toy CPU, 2 cores, 2 threads; 16.00 GiB memory") < page.index("1.62×")


def test_runnable_method_without_a_record_is_named() -> None:
    extra = samples.card("late", "draft_centric/search")
    assert board_section(samples.board(), samples.catalog(extra)).unmeasured == ("late",)


def test_method_page_keeps_reported_figures_apart(read: Read) -> None:
    page = read("methods/heads.html")
    assert page.index("Our results") < page.index("What the papers report") < page.index("Vicuna-7B")
    for text in ("Heads that look ahead", "1 to 8", "one of wide, deep", "One tree for all prompts."):
        assert text in page, text
    for text in ("specatlas run heads --prompt", "cpu-2/toy/atlas/greedy/heads.json", "Model centric › Dependent"):
        assert text in page, text


def test_method_that_does_not_run_says_why(read: Read) -> None:
    page = read("methods/giant.html")
    assert "Needs eight GPUs." in page
    assert "specatlas run" not in page


def test_taxonomy_shows_both_places(read: Read) -> None:
    page = read("taxonomy.html")
    assert 'The survey also puts here: <a href="methods/heads.html">' in page
    assert "our place" in page


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.inline_scripts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.bold = 0
        self._script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._script = tag == "script"
        self.attributes.extend(attrs)
        self.bold += tag in {"em", "b"}

    def handle_data(self, data: str) -> None:
        if self._script:
            self.inline_scripts.append(data)


@pytest.mark.parametrize(
    "path", ["index.html", "methods/evil.html", "methods/index.html", "taxonomy.html", "data.html"]
)
def test_hostile_text_stays_text(public: Path, path: str) -> None:
    elements = _Elements()
    elements.feed((public / path).read_text())
    assert not [script for script in elements.inline_scripts if "alert" in script]
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    assert not [value for name, value in elements.attributes if name == "href" and (value or "").startswith("java")]


def test_hostile_text_is_shown_in_full(read: Read) -> None:
    page = read("methods/evil.html")
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt; [link](javascript:alert(1)) *bold* `code`" in page


def test_titles_and_headings_are_disarmed() -> None:
    assert page_title("</title>\n<b>&amp") == "‹/title› ‹b›+amp"
    assert str(markdown_text("# [x](y)\n`z` é")) == "&#35; &#91;x&#93;&#40;y&#41; &#96;z&#96; é"


@pytest.mark.parametrize(
    ("address", "expected"),
    [("https://a.org/x", "https://a.org/x"), ("javascript:alert(1)", None), ("http://[broken", None), ("a.org", None)],
)
def test_only_web_addresses_become_links(address: str, expected: str | None) -> None:
    assert external(address) == expected


def test_numbers_for_people() -> None:
    assert (percent(-0.021), memory(900 << 20), memory(3 << 30)) == ("−2.1 %", "900 MiB", "3.00 GiB")
    assert (rank_range((2, 4)), rank_range((1, 1)), parameters(1_200_000)) == ("2–4", "1", "1.2 M")
    assert interval(None) == "(one prompt: no interval)"
    assert number(float("nan"), "{:.1f}".format, "").missing
    assert number(0.0, "{:.1f}".format, "").text == "0.0"


@pytest.mark.parametrize("values", [(1.0,), (0.02, 7.5), (1.31, 1.32)])
def test_axis_holds_every_interval_and_one(values: tuple[float, ...]) -> None:
    speedups = [samples.speedup(value, 0.01) for value in values]
    axis = make_axis(speedups, left=100)
    assert axis.low <= min(1, *(value - 0.01 for value in values))
    assert axis.high >= max(1, *(value + 0.01 for value in values))
    assert 2 <= len(axis.ticks) <= 12


def test_axis_of_a_single_point_has_a_width() -> None:
    one = Speedup(ratio_of_sums=1.0, geometric_mean=1.0, interval=None)
    axis = make_axis([one], left=0)
    assert axis.low < 1 < axis.high


def test_plot_tells_classes_by_shape_and_hides_wrong_outputs() -> None:
    board, links = samples.board(), Links(samples.catalog())
    plot = str(speedup_plot(board, board.rows, links))
    assert "<title>Heads (Model-centric, ranked): 1.62× [1.54, 1.70]</title>" in plot
    assert "Broken" not in plot
    assert plot.count("<rect") == 2  # the model-centric method and the legend
    assert speedup_plot(board, (), links) == ""


def test_heat_table_marks_absent_categories() -> None:
    board = samples.board(samples.row("partial", "draft_centric/search", 1.2, by_category=()))
    short = board.rows[0].model_copy(update={"by_category": board.rows[0].by_category[:1]})
    board = board.model_copy(update={"rows": (short, *board.rows[1:])})
    heat = heat_table(board, group_rows(board.rows), Links(samples.catalog()))
    assert heat is not None
    assert next(row for row in heat.rows if row.cells[0].text == "Heads").cells[2].missing
    assert heat_table(board.model_copy(update={"rows": ()}), group_rows(()), Links(samples.catalog())) is None


def test_single_prompt_has_no_interval() -> None:
    lone = Speedup(ratio_of_sums=1.4, geometric_mean=1.4, interval=None)
    board = samples.board(samples.row("lone", "draft_centric/search", 1.4, speedup=lone))
    section = board_section(board, samples.catalog())
    assert "no interval" in section.plot
