"""What every log must do, written once; a module that has a ``log`` and a ``prefix`` fixture runs it by import."""

from tests.wire.conformance.common import topic as topic
from tests.wire.conformance.order import *  # noqa: F403  the tests themselves are imported
from tests.wire.conformance.positions import *  # noqa: F403  the tests themselves are imported
from tests.wire.conformance.retention import *  # noqa: F403  the tests themselves are imported
from tests.wire.conformance.sharing import *  # noqa: F403  the tests themselves are imported
from tests.wire.conformance.transactions import *  # noqa: F403  the tests themselves are imported
from tests.wire.conformance.waiting import *  # noqa: F403  the tests themselves are imported
from tests.wire.conformance.writing import *  # noqa: F403  the tests themselves are imported
