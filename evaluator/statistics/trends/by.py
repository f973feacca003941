"""What `spangrade trend` groups sessions by."""

from __future__ import annotations

from enum import StrEnum


class By(StrEnum):
    """What sessions are grouped by."""

    DAY = "day"
    VERSION = "version"
    PROMPT = "prompt"
    MODEL = "model"
