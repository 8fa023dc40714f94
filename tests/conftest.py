"""Shared by all tests: assertions in the conformance suite explain themselves as those of test modules do."""

import pytest

pytest.register_assert_rewrite("tests.wire.conformance.suite")
