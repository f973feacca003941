"""A test of whether more questions break than are fixed, which may be looked at after each question.

Of the questions that two runs have, those that passed once and failed once are *discordant*. If the second
run is not worse, a discordant question is broken with a chance of at most ½. The evidence against that is an
e-value: the mean, over the shares p from 0.51 to 0.99 with the weights (p - ½)(1 - p), of the likelihood
ratio (2p)^broken (2(1 - p))^fixed that the share is p rather than ½. Its mean is at most 1 at any time
without a loss, so by Ville's inequality it ever reaches 40 in at most 1/40 of such runs, however often one
looks. The weights favour the shares of the losses that people ask about, such as 17 broken to 2 fixed.

Sources: J. Ville, "Étude critique de la notion de collectif" (1939). A. Ramdas, P. Grünwald, V. Vovk,
G. Shafer, "Game-theoretic statistics and safe anytime-valid inference", Statistical Science 38 (2023); the
mixture is the method of H. Robbins, "Statistical methods related to the law of the iterated logarithm",
Annals of Mathematical Statistics 41 (1970). tests/settled_runs.py simulates it.
"""

from __future__ import annotations

import math
from functools import lru_cache

from spangrade.evaluator.grading.settled import Settlement

LEVEL = 0.025  # as that of one side of the fixed tests
ENOUGH = 1 / LEVEL

_SHARES = tuple(number / 100 for number in range(51, 100))
_WEIGHTS = tuple((share - 0.5) * (1 - share) for share in _SHARES)
_TOTAL = math.fsum(_WEIGHTS)
_LOGS = tuple(
    (math.log(weight / _TOTAL), math.log(2 * share), math.log(2 * (1 - share)))
    for share, weight in zip(_SHARES, _WEIGHTS, strict=True)
)


@lru_cache(maxsize=10_000)
def e_value(broken: int, fixed: int) -> float:
    """Return the evidence that a discordant question is rather broken than fixed; 1 is none."""
    logs = [weight + broken * lost + fixed * gained for weight, lost, gained in _LOGS]
    highest = max(logs)
    return math.exp(min(highest + math.log(math.fsum(math.exp(one - highest) for one in logs)), 700.0))


def settlement(broken: int, fixed: int, left: int) -> Settlement:
    """Return whether a loss is shown, or none can be shown even if all questions that are left break."""
    if e_value(broken, fixed) >= ENOUGH:
        return Settlement.WORSE
    return Settlement.OPEN if e_value(broken + left, fixed) >= ENOUGH else Settlement.NO_LOSS
