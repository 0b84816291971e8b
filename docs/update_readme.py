"""Rewrite the facts that README.md quotes from the committed files: python docs/update_readme.py"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
import facts

README = facts.ROOT / "README.md"

if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    README.write_text(facts.requote(text), encoding="utf-8")
    print(f"{len(facts.quoted(text))} facts in {README.name}")
