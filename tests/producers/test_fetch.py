"""Downloads: from a server on loopback, in the formats of the public sources; and every way to go wrong."""

from __future__ import annotations

import hashlib
import http.server
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from producers import datasets
from producers.datasets import convert, fetch, sources
from producers.datasets.sources import RECIPES, Original, Recipe
from streamgp.errors import DatasetError
from streamgp.experiments.tables import LAYOUTS, Columns, files_of, read_columns


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """(address, folder it serves)."""
    folder = tmp_path / "public"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            return

    http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=http_server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{http_server.server_address[1]}", folder
    http_server.shutdown()
    http_server.server_close()
    thread.join()


def _put(server: tuple[str, Path], name: str, content: bytes) -> Original:
    (server[1] / name).write_bytes(content)
    return Original(f"{server[0]}/{name}", hashlib.sha256(content).hexdigest())


def _mat(**arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    scipy.io.savemat(out, arrays)
    return out.getvalue()


ARFF = b"""@relation t
@attribute 'Sex' { M, F, I}
@attribute 'Length' real
@attribute 'Rings' integer
@data
M,0.455,15
I,0.33,7
"""
PRSA = b"No,year,month,day,hour,PM2.5,PM10,SO2,NO2,CO,O3,TEMP,PRES,DEWP,RAIN,wd,WSPM,station\n"


def test_a_download_is_checked_converted_and_found_again(
    server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMGP_DATA", "")
    monkeypatch.setenv("STREAMGP_CACHE", str(tmp_path / "cache"))
    content = b"y,x1,x2,x3,x4,x5,x6\n1,2,3,4,5,6,7\n8,9,10,11,12,13,14\n"
    recipe = replace(RECIPES["mg.csv.gz"], originals=(_put(server, "mg.csv", content),), rows=2)
    monkeypatch.setitem(sources.RECIPES, "mg.csv.gz", recipe)
    X, y, names = datasets.table("mg")
    assert names == tuple(f"x{j}" for j in range(1, 7))
    assert X.tolist() == [[2, 3, 4, 5, 6, 7], [9, 10, 11, 12, 13, 14]]
    assert y.tolist() == [1, 8]
    (server[1] / "mg.csv").unlink()
    assert [o.y for o in datasets.observations("mg")] == [1.0, 8.0]
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["mg.csv.gz"]


@pytest.fixture
def converted(server: tuple[str, Path], tmp_path: Path) -> Callable[..., Columns]:
    """Serve contents, fetch them with a conversion, read the file that came out."""

    def run(file: str, build: Callable[[Sequence[Path]], Columns], *contents: bytes, shape: tuple[int, int]) -> Columns:
        originals = tuple(_put(server, f"{file}.{i}", content) for i, content in enumerate(contents))
        recipe = Recipe(originals, build, rows=shape[0], columns=shape[1], note="test")
        return read_columns(fetch.fetch(file, recipe, folder=tmp_path / "cache"))

    return run


def test_beijing_original(converted: Callable[..., Columns]) -> None:
    first = PRSA + b'1,2013,3,1,23,NA,9,3,17,300,89,-0.5,1024.5,-21.4,0,"NNW",5.7,"Dongsi"\n'
    second = PRSA + b'1,2016,2,29,0,4,9,3,17,NA,89,-0.5,1024.5,-21.4,0,NA,5.7,"Wanliu"\n'
    got = converted("beijing.parquet", convert.from_beijing, first, second, shape=(2, 14))
    assert got["station"].tolist() == ["Dongsi", "Wanliu"]
    assert got["time"].astype(str).tolist() == ["2013-03-01T23:00:00.000", "2016-02-29T00:00:00.000"]
    assert np.isnan([got["PM2.5"][0], got["CO"][1]]).all()
    assert (got["PM2.5"][1], got["CO"][0], got["wd"].tolist()) == (4.0, 300.0, ["NNW", None])


def test_arff_and_matrix_originals(converted: Callable[..., Columns]) -> None:
    build = partial(convert.from_arff, ("sex", "length", "rings"))
    got = converted("abalone.csv.gz", build, ARFF, shape=(2, 3))
    assert (got["sex"].tolist(), got["rings"].tolist()) == (["M", "I"], [15, 7])
    blocks = (b" 1.5e+00 2e0\n 3 4\n", b" 5\n 6\n", b"7 8\n9 10\n", b"11\n12\n")
    got = converted("kin.csv.gz", convert.from_kin40k, *blocks, shape=(4, 4))
    assert (got["x2"].tolist(), got["y"].tolist()) == ([2, 4, 8, 10], [5, 6, 11, 12])
    assert got["split"].tolist() == ["train", "train", "test", "test"]
    matrix = _mat(inv=np.arange(56.0).reshape(2, 28))
    assert converted("s.csv.gz", convert.from_sarcos, matrix, shape=(2, 28))["tau1"].tolist() == [21, 49]


def test_csv_and_weather_originals(converted: Callable[..., Columns]) -> None:
    build = partial(convert.from_csv, {"#0": "cement", "#1": "strength"})
    content = b'\xef\xbb\xbfCement (kg),"Strength (MPa) "\n540.0 ,79.99 \n332.5,40.27\n'
    assert converted("c.csv.gz", build, content, shape=(2, 2))["strength"].tolist() == [79.99, 40.27]
    content = b"rownames,Demand,WorkDay,Temperature\n1,3.9,0,18.2\n2,3.7,1,17.9\n"
    got = converted("e.csv.gz", convert.from_elecdemand, content, shape=(2, 4))
    assert got["time"].astype(str).tolist() == ["2014-01-01T00:00:00.000", "2014-01-01T00:30:00.000"]
    weather = [_mat(y=np.array([[1.0, 2, 3, 4], [-1, -1, -1, -1]])) for _ in range(4)]
    got = converted("w.csv.gz", convert.from_solent, *weather, shape=(8, 6))
    assert got["station"].tolist()[::2] == ["bramblemet", "cambermet", "chimet", "sotonmet"]
    assert got["wspd"][0] == 1.0
    assert np.isnan(got["wspd"][1])


def test_other_bytes_are_refused_and_nothing_is_left(server: tuple[str, Path], tmp_path: Path) -> None:
    good = _put(server, "a.csv", b"y\n1\n")
    recipe = Recipe((good,), partial(convert.from_csv, {"y": "y"}), rows=1, columns=1, note="test")
    for wrong, word in (
        (replace(recipe, originals=(replace(good, sha256="0" * 64),)), "sha256"),
        (replace(recipe, rows=2), "1 x 1 instead of 2 x 1"),
        (replace(recipe, build=partial(convert.from_csv, {"z": "y"})), "not what it was"),
        (replace(recipe, originals=(Original(f"{server[0]}/none.csv", None),)), "404"),
    ):
        with pytest.raises(DatasetError, match=word):
            fetch.fetch("a.csv.gz", wrong, folder=tmp_path / "cache")
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").iterdir())


def test_without_a_checksum_it_says_so(
    server: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    original = replace(_put(server, "a.csv", b"y\n1\n"), sha256=None)
    recipe = Recipe((original,), partial(convert.from_csv, {"y": "y"}), rows=1, columns=1, note="by X")
    fetch.fetch("a.csv.gz", recipe, folder=tmp_path)
    told = capsys.readouterr()
    assert "by X" in told.err
    assert "only its shape is checked" in told.err
    assert told.out == ""


def test_no_network_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMGP_DATA", "")
    monkeypatch.setenv("STREAMGP_CACHE", str(tmp_path))
    dead = Original("http://127.0.0.1:9/nothing", None)  # the discard port: nobody listens there
    monkeypatch.setitem(sources.RECIPES, "mg.csv.gz", replace(RECIPES["mg.csv.gz"], originals=(dead,)))
    with pytest.raises(DatasetError, match=r"cannot download .*STREAMGP_DATA"):
        datasets.table("mg")


def test_every_set_that_does_not_ship_has_a_recipe_and_a_checksum() -> None:
    needed = {files[0] for name in LAYOUTS for files in files_of(name)}
    needed |= {series.file for series in datasets.registry.SERIES.values()}
    shipped = {"irish_wind.csv.gz", "de_pm10.csv.gz"}
    assert needed - shipped == set(RECIPES)
    unknown = {original.url for recipe in RECIPES.values() for original in recipe.originals if original.sha256 is None}
    assert unknown == {"http://www.gaussianprocess.org/gpml/data/sarcos_inv.mat"}
