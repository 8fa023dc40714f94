"""``python -m tests.chaos``: seed after seed."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from tests.brokers import OwnBroker
from tests.chaos.run import Chaos, Run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    for name in ("stations", "observations", "kills", "outages", "pauses"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Chaos, name))
    for name in ("gap_s", "outage_s", "patience_s"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(Chaos, name))
    given = vars(parser.parse_args())
    seeds = range(given["first_seed"], given.pop("first_seed") + given.pop("seeds"))
    failed = [seed for seed in seeds if not passes(Chaos(seed=seed, **given))]
    sys.exit(f"failed: seeds {failed}" if failed else 0)


def passes(chaos: Chaos) -> bool:
    """One seed, and what came of it; logs and states of one that failed are left where they are."""
    folder = Path(tempfile.mkdtemp(prefix=f"chaos-{chaos.seed}-"))
    broker = OwnBroker(folder / "broker")
    try:
        told = Run(chaos, folder, broker).all()
    except Exception:
        traceback.print_exc()
        print(f"seed {chaos.seed} failed; logs and states are in {folder}", flush=True)
        return False
    finally:
        broker.stop(keep=False)
    shutil.rmtree(folder)
    print(told, flush=True)
    return True


if __name__ == "__main__":
    main()
