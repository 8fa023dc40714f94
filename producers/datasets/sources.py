"""Where the sets that do not ship come from: public files, each with its checksum where its bytes are known.

A file is fetched at one commit of a public repository, so that its bytes cannot change; its SHA-256 was taken
from those bytes. Where the bytes are not known (``sha256`` None) only the shape of what was read is checked, and
the loader says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from producers.datasets import convert
from streamgp.experiments.tables import Columns


@dataclass(frozen=True)
class Original:
    """One file of a public source."""

    url: str
    sha256: str | None


@dataclass(frozen=True)
class Recipe:
    """How a data file is made: its originals, the conversion, and the shape that must come out."""

    originals: tuple[Original, ...]
    build: Callable[[Sequence[Path]], Columns]
    rows: int
    columns: int
    note: str


def _raw(repository: str, commit: str, path: str, sha256: str) -> Original:
    return Original(f"https://raw.githubusercontent.com/{repository}/{commit}/{path}", sha256)


_FGP = partial(_raw, "trungngv/fgp", "a981e1bd17f12672a00a933c28f28beffe404d48")
_ARFF = partial(_raw, "renatopp/arff-datasets", "c59f172882592bb58982cc54d2d3c8a2b57e9b73")
_COGP = partial(_raw, "trungngv/cogp", "3b07f621ff11838e89700cfb58d26ca39b119a35")
_PRSA = partial(
    _raw, "Peiris94-dev/Beijing-Multi-Site-Air-Quality-Analysis", "0aa46c055fcca7da49ebac9329435ffe674b74c3"
)
_CAL_HOUSING = (
    "longitude", "latitude", "housing_median_age", "total_rooms", "total_bedrooms", "population", "households",
    "median_income", "median_house_value",
)  # fmt: skip
_ABALONE = (
    "sex", "length", "diameter", "height", "whole_weight", "shucked_weight", "viscera_weight", "shell_weight",
    "rings",
)  # fmt: skip
_CONCRETE = (
    "cement", "slag", "fly_ash", "water", "superplasticizer", "coarse_agg", "fine_agg", "age", "strength",
)  # fmt: skip
_SPACE_GA = {
    "POP": "pop", "EDUCATION": "education", "HOUSES": "houses", "INCOME": "income", "XCOORD": "xcoord",
    "YCOORD": "ycoord", "target": "ln_votes_pop",
}  # fmt: skip
_BEIJING = {
    "Aotizhongxin": "a94fbcfc71708b6ffdc033360163d91efb7f675e496f6b5860929aa96b96351b",
    "Changping": "a2e21402a6d95fb7043f87959e6e3dcbecb957aac356a6f8028a85b047c772e7",
    "Dingling": "3d8dff81f18a80d9f455876a785642bffe1e9b9924ec1e6b7ce8cca790432eeb",
    "Dongsi": "9c0020214425e5ee2a64d42f97a1f632e1d8f6b53ad50edd85a686cc7999f27e",
    "Guanyuan": "59390fee3b032597b387491f5230e7edb90a8558e30217ebd6d9befbe669fbf9",
    "Gucheng": "10ae48801ea55869fee56a48b885fb1127859c130551888d71673f34216ba951",
    "Huairou": "812dcbe848b3ba2c2d25731064797bff803c46eb0c602156a1fa044df136dc26",
    "Nongzhanguan": "572cf87b65ef543cd55d3a711b28474def224a46b0ec3fc8add8aaf13b67a487",
    "Shunyi": "520b59e4ead3b0cfe7f1ed673e30275de8441e999db6f413d5172d2277b8c15a",
    "Tiantan": "0743e34799cf1ee36195b73321b91baa5625276532e7263c588f68cdef3b4daa",
    "Wanliu": "0b1a6d754a07f0def2f55434ddfa3870dcd0063b7f766a6f66b6c11bb05a377a",
    "Wanshouxigong": "ab1d6a356d6997a45f6d657ad47de1e05a4a08d4a7015b38a329a90665ab74d0",
}

#: data file -> how to make it
RECIPES: dict[str, Recipe] = {
    "kin40k.csv.gz": Recipe(
        (
            _FGP(
                "data/kin40k/kin40k_train_data.asc",
                "586beb1ebe6ed0bd8988d86494183b438814ca3ee56b7616b917ff0a8e3cca55",
            ),
            _FGP(
                "data/kin40k/kin40k_train_labels.asc",
                "0a5851bda3dabfb2009aeb0ff7e781c85221db0dad91e6cdc7948bd97173b005",
            ),
            _FGP(
                "data/kin40k/kin40k_test_data.asc",
                "75ff1d28e23e5be45fc70094dcf2bba4e93af585fa75dd6790c7f69710224ce0",
            ),
            _FGP(
                "data/kin40k/kin40k_test_labels.asc",
                "3a6568c4824f9cc83e3e9df900ef146aea11e383d466daabb9eea50949cbffe0",
            ),
        ),
        convert.from_kin40k,
        rows=40_000,
        columns=10,
        note="Schwaighofer and Tresp; that repository allows personal, research or non-commercial use",
    ),
    "abalone.csv.gz": Recipe(
        (_ARFF("regression/abalone.arff", "3f955702660d3a6c022baf88b69f314534a625ac3fdebb761878ddff5960a560"),),
        partial(convert.from_arff, _ABALONE),
        rows=4_177,
        columns=9,
        note="Nash et al. 1994, UCI 1",
    ),
    "kin8nm.csv.gz": Recipe(
        (_ARFF("regression/kin8nm.arff", "64a4d839e3ce2fd57f57a21d612392170a57f9612fdd56a8fc35b4e7a5d59881"),),
        partial(convert.from_arff, (*(f"theta{j}" for j in range(1, 9)), "y")),
        rows=8_192,
        columns=9,
        note="DELVE, kin family (Ghahramani)",
    ),
    "california_housing.csv.gz": Recipe(
        (_ARFF("regression/cal.housing.arff", "99ac39a6158b5eddec1a36be650beb5f11ff2e5237e925dfa4cb8d48cc1c7398"),),
        partial(convert.from_arff, _CAL_HOUSING),
        rows=20_640,
        columns=9,
        note="Pace and Barry 1997, StatLib",
    ),
    "casp.csv.gz": Recipe(
        (
            _raw(
                "Srikarmk/Aurora-GP",
                "84643a770c4595aeb79d82ff6313e3c083c61a73",
                "data/CASP.csv",
                "4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40",
            ),
        ),
        partial(convert.from_csv, {name: name for name in ("RMSD", *(f"F{j}" for j in range(1, 10)))}),
        rows=45_730,
        columns=10,
        note="Rana 2013, UCI 265",
    ),
    "concrete.csv.gz": Recipe(
        (
            _raw(
                "cvxgrp/joint-lrsm",
                "bef81cd9a4662b46fea6400c37042677743c1a0a",
                "data/Concrete_Data.csv",
                "773bf6848ab8da632158ed754c6a52c94fb001d3b089bc53f155b7a2349cd738",
            ),
        ),
        partial(convert.from_csv, {f"#{j}": name for j, name in enumerate(_CONCRETE)}),
        rows=1_030,
        columns=9,
        note="Yeh 1998, UCI 165; this copy has inputs to one decimal and strength to two",
    ),
    "mg.csv.gz": Recipe(
        (
            _raw(
                "luyaoqi/Complex-data-statistical-methods",
                "1792339e9f8750d7179ccfc97fc1832daa928226",
                "data/mg.csv",
                "2fca910dd54c09d9e876927aaa69a3fad8827adb258da9315fd8a4989f2ba81b",
            ),
        ),
        partial(convert.from_csv, {name: name for name in (*(f"x{j}" for j in range(1, 7)), "y")}),
        rows=1_385,
        columns=7,
        note="Flake and Lawrence 2002, LIBSVM mg",
    ),
    "space_ga.csv.gz": Recipe(
        (
            _raw(
                "JusciAvelino/imbalancedRegression",
                "6b8a5ccebd2621f1e9ef622f873e5b41a76c3a39",
                "data/space_ga.csv",
                "d703423c8462bfac52fc8408d45376095b7ede096172462c1be43bd35642bbfa",
            ),
        ),
        partial(convert.from_csv, _SPACE_GA),
        rows=3_107,
        columns=7,
        note="Pace and Barry 1997, StatLib",
    ),
    "sarcos_test.csv.gz": Recipe(
        (
            Original(
                "http://www.gaussianprocess.org/gpml/data/sarcos_inv_test.mat",
                "161a59b5c3b4f4b404584323f181607b2acbe620eb134dc720760dc3f38f5cec",
            ),
        ),
        convert.from_sarcos,
        rows=4_449,
        columns=28,
        note="Vijayakumar and Schaal 2000; the book's site",
    ),
    "sarcos_train.csv.gz": Recipe(
        (Original("http://www.gaussianprocess.org/gpml/data/sarcos_inv.mat", None),),
        convert.from_sarcos,
        rows=44_484,
        columns=28,
        note="Vijayakumar and Schaal 2000; the book's site",
    ),
    "beijing_air_quality.parquet": Recipe(
        tuple(_PRSA(f"PRSA_Data_{station}_20130301-20170228.csv", sha256) for station, sha256 in _BEIJING.items()),
        convert.from_beijing,
        rows=420_768,
        columns=14,
        note="Zhang et al. 2017, UCI 501",
    ),
    "elecdemand.csv.gz": Recipe(
        (
            _raw(
                "vincentarelbundock/Rdatasets",
                "1dcc2bf5f955cc1224a3e1307256e1fe86b68dae",
                "csv/fpp2/elecdemand.csv",
                "fd707850ff7efc39d5bdea163347a0a509fb81ffca3a18b154e29a70d1e992b3",
            ),
        ),
        convert.from_elecdemand,
        rows=17_520,
        columns=4,
        note="AEMO and BoM; Hyndman and Athanasopoulos, fpp2",
    ),
    "solent_weather.csv.gz": Recipe(
        (
            _COGP("data/weather/bra.mat", "65815505fdaff6ea0098ab2016809573d02db22f3d5dcd51f1a87a66657781be"),
            _COGP("data/weather/cam.mat", "488535b48ad157ce57dffb18288c6183978d6a1fac7507680e758b1627791ea7"),
            _COGP("data/weather/chi.mat", "df3b7507dbadd772b6c4aeb478b4ca45ff7421de10de6e526097751559314d37"),
            _COGP("data/weather/sot.mat", "18e6581dd1d40038205bd9a71b401230feb16661852a6897750d30dcf75a0c6d"),
        ),
        convert.from_solent,
        rows=17_280,
        columns=6,
        note="the four sites' pages; that repository allows personal, research or non-commercial use",
    ),
}
