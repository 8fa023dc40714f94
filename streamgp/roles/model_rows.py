"""A station's model rows as the rows of a training, so that its agent can forecast with what was trained."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from typing_extensions import Self

from streamgp.errors import CheckpointError, DecodeError
from streamgp.gp.gaussian import Array, Gaussian
from streamgp.models.contract import State
from streamgp.models.features import FeatureSettings
from streamgp.models.station import StationModel
from streamgp.roles.agent import scalar
from streamgp.roles.door import Door, Refused
from streamgp.wire.codec import decode
from streamgp.wire.log import Message
from streamgp.wire.records import Observation

log = logging.getLogger("streamgp.training-client")


@final
class ModelRows:
    """The rows that a station's agent would learn: features and scale as its own, checked at the same door.

    There are none before the warm-up is over, since the scale is not fixed until then.
    """

    def __init__(
        self,
        station: str,
        features: FeatureSettings,
        *,
        door: Door,
        warm_up: int,
        step_ms: int | None = None,
        max_rows: int = 10_000,
    ) -> None:
        self._station, self._door = station, door
        self._kept = _Kept(max_rows)
        self._model = StationModel(features, make=self._fresh, load=self._loaded, warm_up=warm_up, step_ms=step_ms)

    def _fresh(self, fit: bool) -> _Kept:
        self._kept = _Kept(self._kept.most)
        return self._kept

    def _loaded(self, state: State) -> _Kept:
        kept, most = _Kept.from_state(state), self._kept.most  # as many as the settings say now
        kept.most, kept.X, kept.y = most, kept.X[-most:], kept.y[-most:]
        self._kept = kept
        return self._kept

    def feed(self, messages: list[Message]) -> None:
        """Take in observations; those of other stations, what the door refuses and what comes late are left out."""
        for message in messages:
            if message.key != self._station:
                continue
            try:
                verdict = self._door.check(decode(message.value, Observation), int(message.timestamp_ms))
                if isinstance(verdict, Refused):
                    continue
                seen = verdict.observation
                self._model.observe(seen.time_ms, seen.x, scalar(seen))
            except (DecodeError, ValueError) as error:
                log.debug("no row at offset %d: %s", message.offset, error)

    def rows(self) -> tuple[Array, Array]:
        """X (n, d) and Y (n, 1), standardised; the newest ``max_rows``."""
        if not self._model.warm:
            return np.zeros((0, self._model.width)), np.zeros((0, 1))
        return self._kept.X.copy(), self._kept.y[:, None].copy()

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here."""
        return {"door": self._door.state(), "model": self._model.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; raises a CheckpointError if it is damaged or of other features."""
        self._door = Door.from_state(state["door"], self._door.settings)
        self._model.restore(state["model"])


@final
class _Kept:
    """A local model that remembers its rows and believes nothing."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.X, self.y = np.zeros((0, 0)), np.zeros(0)
        self.learned = 0

    def learn(self, Z: Array, y: Array) -> None:
        self.X = np.vstack([self.X, Z])[-self.most :] if len(self.X) else Z[-self.most :].copy()
        self.y = np.append(self.y, y)[-self.most :]
        self.learned += len(y)

    def predict(self, Z: Array) -> Gaussian:
        return Gaussian(np.zeros(len(Z)), np.ones(len(Z)), np.zeros(len(Z)))

    def state(self) -> State:
        return {"most": self.most, "learned": self.learned, "X": self.X, "y": self.y}

    @classmethod
    def from_state(cls, state: State) -> Self:
        try:
            new = cls(int(state["most"]))
            new.X, new.y, new.learned = np.array(state["X"]), np.array(state["y"]), int(state["learned"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"rows of a training: damaged state ({error})") from error
        return new
