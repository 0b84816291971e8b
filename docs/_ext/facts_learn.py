"""Facts of the tutorials and the explanations: numbers of the committed files in figures/, as text."""

import re

from facts import count, fact, record, table

from quadsim._format import enumerated

TUNED = "cases-optimizers-gd_frozen-adam_adam-tune-true"


def one(found, asked):
    if len(found) != 1:
        raise ValueError(f"{len(found)} entries match {asked}: expected one")
    return found[0]


def row(name, **values):
    """The one row of a table of figures/ with these values."""
    rows = table(name).to_dict("records")
    return one([entry for entry in rows if values.items() <= entry.items()], (name, values))


def check(name, what):
    """The check of a published figure with this text in its first column."""
    return one([entry for entry in record(name)["checks"] if entry["what"] == what], (name, what))


def finding(claim):
    """A claim's entry in the ledger."""
    return one([entry for entry in record("ledger")["findings"] if entry["claim"] == claim], claim)


def part(text, number, separator="; "):
    """One of the parts of a measured text, from 0."""
    return text.split(separator)[number]


def found(pattern, text):
    """The group of the pattern in the text."""
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"{pattern!r} is not in {text!r}")
    return match[1]


# ---- the explanations


@fact
def zhang_r_bound_speedup():
    text = check("zhang-r", "speed-up in Case 3 by the bound")["measured"]
    return part(text, 1, ": ")


@fact
def zhang_r_measured_speedup():
    return check("zhang-r", "speed-up in Case 3 in steps to 1e-6")["measured"]


@fact
def ledger_medians():
    return finding("2-medians")["evidence"]


def heterogeneity(optimizer, level):
    return count(row("sweep-heterogeneity", optimizer=optimizer, heterogeneity=level)["median"])


@fact
def heterogeneity_adam_at_0():
    return heterogeneity("frozen-adam", 0)


@fact
def heterogeneity_adam_at_1():
    return heterogeneity("frozen-adam", 1)


@fact
def heterogeneity_gd_at_0():
    return heterogeneity("gd", 0)


@fact
def heterogeneity_gd_at_1():
    return heterogeneity("gd", 1)


def tuned_steps(optimizer, number):
    """The median of the four cases at tuned learning rates."""
    entries = record(TUNED)["cases"]
    wanted = {"problem": f"case {number}", "optimizer": optimizer}
    return count(one([e for e in entries if wanted.items() <= e.items()], wanted)["median_steps"])


@fact
def tuned_gd_case_4():
    return tuned_steps("gd", 4)


@fact
def tuned_frozen_case_4():
    return tuned_steps("frozen-adam", 4)


@fact
def tuned_adam_case_4():
    return tuned_steps("adam", 4)


@fact
def tuned_gd_case_3():
    return tuned_steps("gd", 3)


@fact
def tuned_gd_lr():
    entries = record(TUNED)["cases"]
    return f"{one([e for e in entries if e['problem'] == 'case 3' and e['optimizer'] == 'gd'], 'gd')['lr']:.2e}"


@fact
def gd_theory_case_3():
    return count(row("cases-seed-0..99", problem="case 3", optimizer="gd")["median_steps"])


@fact
def rotation_title():
    title = record("rotation-axis")["title"].split(";")[0]
    return title[0].lower() + title[1:]


@fact
def case_3_sizes():
    return enumerated([str(entry["size"]) for entry in table("adam-mini-scaling-case-3").to_dict("records")])


@fact
def case_3_kappa_effs():
    return enumerated(
        [
            f"{float(entry['median']):,.{1 if float(entry['median']) < 100 else 0}f}"
            for entry in table("adam-mini-scaling-case-3").to_dict("records")
        ]
    )


@fact
def norm_11_measured():
    return check("rotation-axis", "‖H‖₁,₁ and Adam under rotations (arXiv 2410.08198)")["measured"]


@fact
def zoo_title():
    """From the title: what is fastest in Case 4."""
    title = record("zoo-kappa")["title"]
    return title[title.index("Nesterov") :]


@fact
def floor_case_3():
    return check("adam-floor", "Case 3, floor/((η²/8)·tr(H))")["measured"]


@fact
def floor_case_4():
    return check("adam-floor", "Case 4, floor/((η²/8)·tr(H))")["measured"]


@fact
def trap_shares():
    return check("float64-trap", "runs that end at exactly 0 in float64, at β2 = 0.993, 0.994, 0.999")["measured"]


@fact
def trap_logs():
    return part(check("float64-trap", "the same iteration in logarithms")["measured"], 0, ",")


@fact
def floor_with_momentum():
    return found(r"is ([\d.]+ to [\d.]+) times", finding("5g-momentum")["sentence"])


@fact
def kappa_eff_case_3():
    return found(r"κ_eff is ([\d.]+) in Case 3", finding("2-medians")["sentence"])
