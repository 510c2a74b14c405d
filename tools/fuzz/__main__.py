"""Attack the package with random files, kills, inputs, threads, limits and tolerances, and count what goes wrong.

    python -m tools.fuzz                      five minutes, all campaigns
    python -m tools.fuzz files --minutes 30   one campaign, longer
    python -m tools.fuzz --counts full        the numbers of cases that docs/promises.md names, however long they take
    python -m tools.fuzz --counts 50          at most so many cases of each, however long they take
    python -m tools.fuzz --seed 7             other cases

A case fails where the package does something else than to give the right result, to warn, or to refuse with a message
of its own. The same seed makes the same cases, one after the other; time only decides how many of them there are.
"""

from __future__ import annotations

import argparse
import sys
import time

from tools.fuzz.campaigns import CAMPAIGNS, run


def _counts(text: str) -> dict[str, int]:
    """Cases of each campaign, from "full" or a number."""
    if text == "full":
        return {name: campaign.full for name, campaign in CAMPAIGNS.items()}
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be 'full' or a positive number, not {text!r}")
    return dict.fromkeys(CAMPAIGNS, int(text))


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaigns", nargs="*", help="all of them where none is named")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=5.0)
    length.add_argument("--counts", type=_counts)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.campaigns = given.campaigns or list(CAMPAIGNS)
    if not set(given.campaigns) <= set(CAMPAIGNS):
        parser.error(f"campaigns are {', '.join(CAMPAIGNS)}")
    return given


def main() -> int:
    """Run the campaigns, and print what was counted and what failed."""
    given = _parsed()
    total = sum(CAMPAIGNS[name].share for name in given.campaigns)
    failed = 0
    for name in given.campaigns:
        start = time.process_time()
        if given.counts is not None:
            cases = run(name, given.seed, most=given.counts[name])
        else:
            cases = run(name, given.seed, 60 * given.minutes * CAMPAIGNS[name].share / total)
        spent = time.process_time() - start
        kinds = sorted({kind for kind, _ in cases})
        counts = ", ".join(f"{sum(kind == each for each, _ in cases)} {kind}" for kind in kinds)
        wrong = [f"{kind}: {what}" for kind, what in cases if what is not None]
        print(f"{name}: {len(cases)} cases, {len(wrong)} failures, {spent:.0f} s of processor time ({counts})")
        print("".join(f"    {each}\n" for each in wrong), end="", flush=True)
        failed += len(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
