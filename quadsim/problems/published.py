"""How the cases of this package relate to the published figure: lines that `case=2` and `cases` print.

The numbers are those of figures/zhang-four-cases.json, figures/recipes.csv and figures/four-cases-fairly.csv, which an
installed package does not have; a test recomputes them from these files.
"""

from __future__ import annotations

from collections.abc import Collection

CASE_2 = (
    "Published: GD about as fast as Adam (β2 = 1) on Case 2. Here Adam takes 6.6 times as long (50 draws, best "
    "closed-form rates); 6 of 40 ways to draw the eigenvalues agree in Cases 1 and 2, and the paper's own is not public"
)
CASES = (
    "Published: GD far behind Adam (β2 = 1) on Cases 1 and 3, about as fast on Cases 2 and 4. Here Cases 1, 3 and 4 "
    "agree; on Case 2 Adam takes 6.6 times as long, and 6 of 40 ways to draw the eigenvalues agree in Cases 1 and 2"
)
FAIRLY = (
    "People use neither GD without momentum nor Adam with β2 = 1. With every method tuned alike on other draws, after "
    "1,000 steps (decades of loss, medians of 50 draws): Adam (0.9, 0.999) ahead of GD by 25.5, 1.5, 25.9, 5.1 on "
    "Cases 1 to 4, the best Adam ahead of heavy ball by 7.2, −15.6, 8.5, −12.0"
)


def notes(problems: Collection[str]) -> list[str]:
    """The lines on problems by their names; a case with other settings has another name, and no line."""
    if "case 2" not in problems:
        return []
    return [CASES, FAIRLY] if len(problems) > 1 else [CASE_2]
