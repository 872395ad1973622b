"""COVERAGE.md names every known fault, and what it names exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from specatlas.measure.conformance import CHECKS

TESTS = Path(__file__).parents[1]
# Of the project's research notes on known faults, section (d).
LISTED = """
    A01 A02 A03 A05 A06 A08 A09 A10 A11 A12 A13 A14 A15 A16 A17 A18 A19 A20 A21
    B02 B03 B04 B06 B07 B09 B10 B11 B13 B14 B15 B16 B17
    C01 C03 C05 C06 C07 C08 C09 C10 C11 C12 C14 C15 C16 C17 C18 C19 C20 C21
    D01 D03 D04 D05 D06 D07 D09 D10 D11 D12 D13 D14 D15 D16 D17 D18
    E01 E03 E04 E05 E06 E07
    F01 F02 F03 F04 F05 F06
    G02 G03 G04 G05 G06 G07 G08 G09
    H01 H02 H03 H04
    I02 I03 I04 I05 I06 I07
    J01 J02 J04 J05 J06 J07 J08 J09 J10 J11 J12 J13 J14 J15 J16
    K02 K03 K04 K05 K06 K07 K08 K09 K10 K11 K12 K13 K14 K15 K16 K17 K18 K19 K20 K21
    L01 L02 L03 L04 L05 L06 L07 L08 L09 L10
"""
IDS = LISTED.split()
ROW = re.compile(r"^\| ([A-L]\d\d) \| ([^|]+) \| ([^|]+) \| ([^|]*) \|$", re.MULTILINE)
ROWS = ROW.findall((Path(__file__).parent / "COVERAGE.md").read_text(encoding="utf-8"))


@cache
def marked_tests(path):
    """Names of a file's tests, and the faults that each is marked with."""
    found = {}
    for node in ast.walk(ast.parse((TESTS / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks = [one for one in node.decorator_list if isinstance(one, ast.Call)]
            faults = [one for one in marks if ast.unparse(one.func) == "pytest.mark.fault"]
            found[node.name] = {argument.value for one in faults for argument in one.args}
    return found


def named(row):
    return re.findall(r"`([^`]+)`", row[2])


def test_every_fault_is_listed_once_in_order():
    assert [row[0] for row in ROWS] == IDS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_is_named_exists(row):
    assert named(row), "nothing keeps this fault out"
    for name in named(row):
        if name.startswith("check:"):
            assert name.removeprefix("check:") in CHECKS
            continue
        path, _, test = name.partition("::")
        assert test in marked_tests(path), name
        if path.startswith("faults/"):
            assert row[0] in marked_tests(path)[test], f"{name} is not marked with {row[0]}"


def test_every_marked_test_is_listed():
    listed = {(row[0], name) for row in ROWS for name in named(row)}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for test, faults in marked_tests(f"faults/{path.name}").items():
            for fault in faults:
                assert (fault, f"faults/{path.name}::{test}") in listed
