"""Facts of the page of surprising findings: what was published, what was measured, the verdict and the reason."""

from facts import FIGURES, fact, record, table
from facts_learn import TUNED, check, found, tuned_steps

CHECKS = {  # name of the facts: figure, the text in the first column of its verdict, and the columns that are quoted
    "case_2": ("zhang-four-cases", "Case 2 (ResNet18's blocks)", "published measured verdict why"),
    "case_4": ("zhang-four-cases", "Case 4 (similar blocks)", "measured"),
    "speedup": ("zhang-r", "speed-up in Case 3 in steps to 1e-6", "published measured verdict why"),
    "r_all": ("zhang-r", "P(r ≤ 1000), r over all blocks", "published measured"),
    "r_within": ("zhang-r", "P(r ≤ 1000), r within each block", "measured"),
    "js_rank": ("zhang-js-gap", "rank correlation over all problems", "measured"),
    "js_similar": ("zhang-js-gap", "problems with similar JS", "published measured why"),
    "js_diagonal": ("zhang-js-gap", "control: diagonal basis", "measured"),
    "js_training": ("zhang-heat-maps", "ResNet18 in training mode", "measured why"),
    "js_number": ("zhang-heat-maps", "JS⁰ as a number", "published measured verdict why"),
    "identity": ("das-preconditioning", "diagonal H with κ = 1", "published measured why"),
    "diagonal_blocks": ("adam-mini-scaling", "diagonal blocks (τ = 1)", "published measured why"),
    "floor_case_4_check": ("adam-floor", "Case 4, floor/((η²/8)·tr(H))", "measured"),
    "envelope": ("adam-floor", "q where the lower cycle of a pair has just lost its stability", "measured"),
    "trap": ("float64-trap", "runs that end at exactly 0 in float64, at β2 = 0.993, 0.994, 0.999", "measured"),
    "coarse": ("skip-update", "five seeds, four learning rates", "published measured"),
    "paired": ("skip-update", "paired seeds, finer grids", "measured"),
    "listed_rates": ("orvieto-gower", "Case 4, listed rates", "published measured verdict"),
    "wider_grids": ("orvieto-gower", "Case 4, wider grids of rates", "measured why"),
    "small_batches_3": ("batch-crossover", "Case 3, batches 1 and 2", "published measured why"),
    "small_batches_4": ("batch-crossover", "Case 4, batches 1 and 2", "measured"),
    "sgd_ahead": ("batch-crossover", "Both cases, every batch size", "published measured"),
    "lion": ("massive-lion", "Massive Lion compared with Adam (batch 3, all tuned)", "measured why"),
    "zipf_parity": ("kunstner-bach-zipf", "sign descent at d = 10⁵, and its parity (ledger 10)", "measured"),
}


def quote(name, figure, what, column):
    def text():
        return check(figure, what)[column]

    text.__name__ = f"{name}_{column}"
    return text


for _name, (_figure, _what, _columns) in CHECKS.items():
    for _column in _columns.split():
        fact(quote(_name, _figure, _what, _column))


def recipes():
    return " ".join((FIGURES / "recipes.md").read_text(encoding="utf-8").split())


@fact
def recipes_ahead():
    return found(r"\. (On GPT2's spectra Adam is ahead of GD in \d+ of them and behind in \d+)\.", recipes())


@fact
def recipes_count():
    return found(r"(\d+ recipes) map the eigenvalues onto", recipes())


@fact
def recipes_agree():
    return found(r"(In both cases together, \d+ agree with the paper and \d+ do not)", recipes())


@fact
def recipes_similar():
    return found(r"; (\d+) agree if GD and Adam must be similar in Case 2", recipes())


def mapped_recipes():
    """The recipes that map eigenvalues onto [1, 5000], with GD's median over Adam's; an error without a median."""
    rows = table("recipes").query("map != 'unshifted'")
    rows = rows.assign(ratio=rows["gd_median"] / rows["adam_median"])
    if rows["ratio"].isna().any():
        raise ValueError("figures/recipes.csv has recipes without medians: say so in the text")
    return rows


@fact
def recipes_case_2():
    """An error if Adam is ahead by a factor 2 under any recipe."""
    ratios = mapped_recipes().query("case == 2")["ratio"]
    if ratios.max() >= 2:
        raise ValueError("Adam is ahead of GD by a factor 2 in Case 2 under some recipe")
    similar = int((ratios > 0.5).sum())
    return (
        f"under {similar} of {len(ratios)} recipes the medians of GD and Adam are within a factor 2, under the "
        f"other {len(ratios) - similar} Adam is further behind"
    )


@fact
def recipes_by_kind():
    """An error unless agreement with the paper is what the text says, for every recipe."""
    faster = mapped_recipes().assign(faster=lambda rows: rows["ratio"] >= 2)
    agrees = faster.pivot(index=["rule", "sign", "map"], columns="case", values="faster")
    agrees = (agrees[1] & ~agrees[2]).rename("agrees").reset_index()
    cut = agrees["rule"].str.startswith(("leading", "above"))
    yes, no = agrees[cut & (agrees["sign"] == "magnitude")], agrees[agrees["sign"] == "signed"]
    ritz = agrees[agrees["rule"] == "ritz"]
    if not yes["agrees"].all() or no["agrees"].any() or ritz["agrees"].any():
        raise ValueError("recipes agree with the paper in another pattern: rewrite the text")
    return (
        f"All {len(yes)} recipes agree that take the largest magnitudes or those above a threshold; none of the "
        f"{len(no)} with signed eigenvalues does, and none of the {len(ritz)} that sample all nodes alike"
    )


@fact
def tuned_table():
    """Median steps of GD, frozen Adam and Adam at tuned rates, for each case; Adam must be the fastest of the three."""
    cases = []
    for number in (1, 2, 3, 4):
        steps = [tuned_steps(optimizer, number) for optimizer in ("gd", "frozen-adam", "adam")]
        if min(steps, key=lambda text: int(text.replace(",", ""))) != steps[2]:
            raise ValueError(f"Adam is not the fastest in Case {number}: {steps}")
        cases.append(f"Case {number}: {' / '.join(steps)}")
    return "; ".join(cases)


def is_own(source, entry):
    """Whether a check is about a claim or a hypothesis of this project."""
    return source.startswith(("Ledger", "Hypotheses of this project")) or any(
        "ledger" in entry[column] for column in ("what", "published")
    )


def verdicts_where(own):
    """The verdicts of the checks that are about claims of this project, or of those that are not."""
    names = [path.stem for path in sorted(FIGURES.glob("*.json"))]
    found = [(record(name), entry) for name in names for entry in checks_of(name)]
    return [entry["verdict"] for content, entry in found if is_own(content["source"], entry) == own]


@fact
def verdicts_own():
    own, other = verdicts_where(True), verdicts_where(False)
    return f"{len(own)} of the {len(own) + len(other)} are about claims and hypotheses of this project"


@fact
def verdicts_published():
    """An error unless most are reproduced."""
    verdicts = verdicts_where(False)
    reproduced = verdicts.count("reproduced")
    if 2 * reproduced <= len(verdicts):
        raise ValueError("not most of the published statements are reproduced: rewrite the text")
    return f"{reproduced} of the other {len(verdicts)} statements"


@fact
def verdict_counts():
    """How many checks of published figures have each verdict."""
    verdicts = verdicts_where(True) + verdicts_where(False)
    kinds = ("reproduced", "differs", "cannot be checked")
    if set(verdicts) - set(kinds):
        raise ValueError(f"unknown verdicts: {set(verdicts) - set(kinds)}")
    counts = [verdicts.count(kind) for kind in kinds]
    return (
        f"{counts[0]} of {len(verdicts)} statements are reproduced, {counts[1]} differ, {counts[2]} cannot be checked"
    )


def checks_of(name):
    """The checks of a published figure; other JSON files have none."""
    settings = record(name)
    checks = settings.get("checks", []) if isinstance(settings, dict) else []
    return checks if settings.get("fast") is False else []


@fact
def case_2_tuned():
    entries = [e for e in record(TUNED)["cases"] if e["problem"] == "case 2"]
    adam = next(e for e in entries if e["optimizer"] == "adam")
    return f"{adam['reached']} of {adam['draws']}"
