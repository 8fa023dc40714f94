"""The hostile twin of an agent: its honest answers pass through an attack on their way to the wire."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import final

import msgspec
import numpy as np
from msgspec import UNSET

from streamgp.errors import EncodeError
from streamgp.fusion.liar import Answer, Attack
from streamgp.gp.gaussian import Array
from streamgp.wire.codec import encode
from streamgp.wire.records import Prediction, Query, Scale

#: queries that a liar keeps waiting, or has overheard answers to, at the most
REMEMBERED = 4096


@final
class Liar:
    """Sends other answers than the agent behind it would.

    Parameters
    ----------
    attack
        Works on standardised values, so that one magnitude suits every station's units.
    from_ms
        Event time of the first query that it lies to; until then it is honest.
    accomplices
        Agents whose answers it does not wait to overhear.
    hold_s
        An attack that needs the others' answers waits so long for them.
    """

    def __init__(
        self,
        attack: Attack,
        *,
        from_ms: int | None = None,
        accomplices: tuple[str, ...] = (),
        hold_s: float = 2.0,
    ) -> None:
        self.attack = attack
        self._from_ms = from_ms
        self._accomplices = frozenset(accomplices)
        self._hold_s = hold_s
        self._held: OrderedDict[str, tuple[Query, Prediction, frozenset[str], float]] = OrderedDict()
        self._overheard: OrderedDict[str, dict[str, Prediction]] = OrderedDict()

    @property
    def listens(self) -> bool:
        """Whether it wants to read the predictions of others."""
        return self.attack.needs_others

    def take(
        self, queries: list[Query], answers: list[Prediction], *, peers: tuple[str, ...], now_s: float
    ) -> list[tuple[str, bytes]]:
        """What to send now (query id, bytes) instead of these honest answers."""
        told = []
        for query, answer in zip(queries, answers, strict=True):
            if answer.abstained is not UNSET or (self._from_ms is not None and query.time_ms < self._from_ms):
                told.append((answer.query_id, encode(answer)))
            elif self.listens:
                wanted = frozenset(peers) - self._accomplices
                self._held[query.id] = (query, answer, wanted, now_s)
                told += self.due(now_s)
            else:
                told += self._strike(query, answer, [])
        return told

    def overhear(self, prediction: Prediction) -> None:
        """Another agent's answer."""
        if prediction.agent in self._accomplices or prediction.abstained is not UNSET:
            return
        self._overheard.setdefault(prediction.query_id, {})[prediction.agent] = prediction
        if len(self._overheard) > REMEMBERED:
            self._overheard.popitem(last=False)

    def due(self, now_s: float) -> list[tuple[str, bytes]]:
        """Lies that have heard enough, or waited long enough."""
        ready = [
            query_id
            for query_id, (_, _, wanted, since_s) in self._held.items()
            if wanted <= self._overheard.get(query_id, {}).keys() or now_s - since_s >= self._hold_s
        ]
        told = []
        for query_id in ready:
            query, answer, _, _ = self._held.pop(query_id)
            heard = self._overheard.pop(query_id, {})
            told += self._strike(query, answer, [heard[name] for name in sorted(heard)])
        return told

    def wake_s(self, now_s: float) -> float | None:
        """Seconds until the oldest held lie has waited long enough."""
        if not self._held:
            return None
        return max(0.0, next(iter(self._held.values()))[3] + self._hold_s - now_s)

    def _strike(self, query: Query, answer: Prediction, others: list[Prediction]) -> list[tuple[str, bytes]]:
        scale = query.scale or Scale(0.0, 1.0)
        honest = _standardised(answer, scale)
        lies = self.attack.strike(
            query.id,
            honest.mean,
            honest.variance,
            honest.noise_variance,
            learned=answer.learned,
            others=[_standardised(o, scale) for o in others],
        )
        return [(lie.query_id, _bytes(_physical(lie, answer, scale))) for lie in lies]


def _standardised(p: Prediction, scale: Scale) -> Answer:
    s2 = scale.std**2
    mean, variance, noise = (np.asarray(a, dtype=np.float64) for a in (p.mean, p.variance, p.noise_variance))
    return Answer(p.query_id, (mean - scale.mean) / scale.std, variance / s2, noise / s2)


def _physical(lie: Answer, honest: Prediction, scale: Scale) -> Prediction:
    s2 = scale.std**2
    return msgspec.structs.replace(
        honest,
        query_id=lie.query_id,
        mean=_row(lie.mean * scale.std + scale.mean),
        variance=_row(lie.variance * s2),
        noise_variance=_row(lie.noise_variance * s2),
    )


def _row(values: Array) -> tuple[float, ...]:
    return tuple(values.tolist())


def _bytes(prediction: Prediction) -> bytes:
    """The record on the wire; numbers that strict JSON cannot hold go out as Python would write them."""
    try:
        return encode(prediction)
    except EncodeError:
        fields = {name: getattr(prediction, name) for name in prediction.__struct_fields__}
        return json.dumps({name: value for name, value in fields.items() if value is not UNSET}).encode()
