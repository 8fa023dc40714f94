"""Units of measurement: the few that sensors of one kind are seen to mix, and the way from one to the other."""

from __future__ import annotations

#: kind -> unit -> (a, b): a value v of the unit is a * v + b in the kind's first unit
_KINDS: dict[str, dict[str, tuple[float, float]]] = {
    "temperature": {"C": (1.0, 0.0), "F": (5.0 / 9.0, -160.0 / 9.0), "K": (1.0, -273.15)},
    "speed": {"m/s": (1.0, 0.0), "km/h": (1.0 / 3.6, 0.0), "knots": (1852.0 / 3600.0, 0.0), "mph": (0.44704, 0.0)},
    "pressure": {
        "hPa": (1.0, 0.0),
        "Pa": (0.01, 0.0),
        "kPa": (10.0, 0.0),
        "bar": (1000.0, 0.0),
        "mmHg": (1.333223874, 0.0),
        "inHg": (33.86388667, 0.0),
    },
    "length": {
        "m": (1.0, 0.0),
        "mm": (0.001, 0.0),
        "cm": (0.01, 0.0),
        "km": (1000.0, 0.0),
        "in": (0.0254, 0.0),
        "ft": (0.3048, 0.0),
    },
    "concentration": {"ug/m3": (1.0, 0.0), "mg/m3": (1e3, 0.0), "g/m3": (1e6, 0.0)},
    "flow": {"l/s": (1.0, 0.0), "m3/s": (1e3, 0.0), "m3/h": (1.0 / 3.6, 0.0), "l/min": (1.0 / 60.0, 0.0)},
    "power": {"W": (1.0, 0.0), "kW": (1e3, 0.0), "MW": (1e6, 0.0), "GW": (1e9, 0.0)},
    "energy": {"kWh": (1.0, 0.0), "Wh": (1e-3, 0.0), "MWh": (1e3, 0.0), "MJ": (1.0 / 3.6, 0.0)},
    "share": {"1": (1.0, 0.0), "%": (0.01, 0.0)},
}  # fmt: skip

_ALIASES = {
    "°c": "C", "degc": "C", "celsius": "C", "c": "C",
    "°f": "F", "degf": "F", "fahrenheit": "F", "f": "F",
    "kelvin": "K", "k": "K",
    "ms-1": "m/s", "m s-1": "m/s", "kph": "km/h", "kmh": "km/h", "kt": "knots", "kn": "knots", "knot": "knots",
    "mbar": "hPa", "mb": "hPa", "hpa": "hPa", "pa": "Pa", "kpa": "kPa", "mmhg": "mmHg", "inhg": "inHg",
    "µg/m³": "ug/m3", "μg/m³": "ug/m3", "µg/m3": "ug/m3", "μg/m3": "ug/m3", "mg/m³": "mg/m3", "g/m³": "g/m3",
    "m³/s": "m3/s", "m³/h": "m3/h", "percent": "%",
}  # fmt: skip

_OF = {unit: (kind, *ab) for kind, units in _KINDS.items() for unit, ab in units.items()}


def canonical(unit: str) -> str:
    """The one spelling of a unit; a unit that is not known stays as it is.

    Examples
    --------
    >>> canonical("°F"), canonical("mbar"), canonical("furlong")
    ('F', 'hPa', 'furlong')
    """
    text = unit.strip()
    return text if text in _OF else _ALIASES.get(text.lower(), text)


def converter(unit: str, to: str) -> tuple[float, float] | None:
    """(a, b) such that a value v of ``unit`` is a * v + b in ``to``; None where there is no way.

    Examples
    --------
    >>> a, b = converter("F", "C")
    >>> round(a * 64.4 + b, 9)
    18.0
    >>> converter("C", "m/s")
    """
    source, target = canonical(unit), canonical(to)
    if source == target:
        return 1.0, 0.0
    if source not in _OF or target not in _OF or _OF[source][0] != _OF[target][0]:
        return None
    _, a, b = _OF[source]
    _, c, d = _OF[target]
    return a / c, (b - d) / c
