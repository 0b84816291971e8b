"""How the cases of this package relate to the published figure: lines that `case=2` and `cases` print.

The numbers are those of figures/zhang-four-cases.json and figures/recipes.csv, which an installed package does not
have; a test recomputes them from these files.
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


def notes(problems: Collection[str]) -> list[str]:
    """The lines on problems by their names; a case with other settings has another name, and no line."""
    if "case 2" not in problems:
        return []
    return [CASES if len(problems) > 1 else CASE_2]
