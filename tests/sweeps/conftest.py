"""A finished store that the tests of kills and clusters compare theirs with."""

import pytest
from sweep_processes import SLOW, run


@pytest.fixture(scope="session")
def slow_reference(filled_once):
    """The store of an undisturbed sweep of SLOW."""
    return filled_once("slow-reference.db", lambda store: run(store, SLOW))
