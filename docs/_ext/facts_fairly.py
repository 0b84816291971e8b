"""Facts of the comparison of tuned methods on the four cases."""

from facts import count, fact, record, table
from facts_changed_minds import quote

CHECKS = {  # name of the facts: the first column of the verdict
    "fair_own": "Published picture, GD and Adam (β1 = 0, β2 = 1), each draw at its own best rates",
    "fair_other": "The same at rates tuned on other draws",
    "fair_1": "Hypothesis 1: GD and Adam (β1 = 0, β2 = 1), no noise",
    "fair_2": "Hypothesis 2: GD and Adam (0.9, 0.999), no noise, 1,000 steps",
    "fair_3": "Hypothesis 3: heavy ball and the best Adam, no noise, from 1,000 steps on",
    "fair_4": "Hypothesis 4: SGD with momentum and Adam (0.9, 0.999), minibatches",
    "fair_5": "Hypothesis 5: GD and Adam with β2 < 1, no noise, 100,000 steps",
    "fair_lasts": "Does the lead of Adam (0.9, 0.999) at 1,000 steps last? No noise",
    "fair_all": "All pairs of methods, horizons and noise levels",
}

EFFECTS = {"wider": "wider", "narrower": "narrower", "none": "not changed"}

for _name, _what in CHECKS.items():
    for _column in ("published", "measured", "verdict"):
        fact(quote(_name, "four-cases-fairly", _what, _column))
fact(quote("fair_3", "four-cases-fairly", CHECKS["fair_3"], "why"))


@fact
def fair_title() -> str:
    return record("four-cases-fairly")["title"]


def effects(rows) -> str:
    counts = rows["effect"].value_counts()
    parts = [f"{word} in {count(counts.get(name, 0))}" for name, word in EFFECTS.items()]
    return f"{', '.join(parts)} of {count(len(rows))}"


def with_beta2(one: bool):
    """The comparisons with Adam at β2 = 1, or below; the best Adam, which may be either, is left out."""
    rows = table("four-cases-fairly")
    return rows[rows["adam"].str.endswith("-1") == one].query("adam != 'adam-best'")


@fact
def fair_beta2_below_1() -> str:
    return effects(with_beta2(False))


@fact
def fair_beta2_1() -> str:
    return effects(with_beta2(True))


@fact
def fair_long() -> str:
    rows = with_beta2(False)
    return effects(rows[rows["horizon"] == rows["horizon"].max()])


@fact
def fair_without_beta1() -> str:
    """The gaps of GD and Adam (0, 0.999) in Cases 2 and 4; an error if Adam is not behind."""
    rows = table("four-cases-fairly").fillna({"noise": "none"})
    rows = rows.query("noise == 'none' and horizon == 1000 and baseline == 'plain' and adam == 'adam-0-0.999'")
    assert (rows["gap_alike"] < 0).all()
    return " and ".join(f"{-gap:.1f}" for gap in rows.sort_values("cases")["gap_alike"]) + " decades behind"


@fact
def fair_comparisons() -> str:
    return count(len(table("four-cases-fairly")))
