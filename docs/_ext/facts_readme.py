"""Facts of the README: verdicts of the published figures."""

from functools import partial

from facts import FIGURES, fact, record, table
from facts_howto import register

from quadsim.reproduce.markdown import verdict_counts
from quadsim.reproduce.records import read_records


@fact
def verdicts() -> str:
    return verdict_counts(read_records(FIGURES))


def measured(figure: str, number: int) -> str:
    """What a check of a published figure measured, by its position."""
    return record(figure)["checks"][number]["measured"]


for _case in (1, 2, 3, 4):
    register(f"four_cases_{_case}", partial(measured, "zhang-four-cases", _case - 1))


@fact
def fair_headline() -> str:
    """The title of the figure, as the second half of a sentence."""
    title = record("four-cases-fairly")["title"]
    return title[0].lower() + title[1:]


@fact
def claims() -> str:
    counts = table("ledger")["status"].value_counts()
    proofs = counts["PROVED"] + counts["EXACT"]
    return f"{counts.sum()} claims, {proofs} with a proof and {counts['FALSE']} refuted"
