"""The checks of the tools need no deepjit."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def deepjit_present():
    pass
