"""Kernels as text: back to the bit, and nothing but a known kernel is ever made."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

from streamgp.errors import CheckpointError
from streamgp.gp.kernel_text import kernel_from_text, kernel_to_text
from streamgp.gp.kernels import ActiveDims, SpectralMixture

KERNELS = [
    sk.ConstantKernel(1 / 3, (1e-9, 1e9)) * sk.Matern([0.1, 2.0**-40], length_scale_bounds=(1e-9, 1e9), nu=2.5),
    sk.RBF(np.array([1.0, np.pi]), length_scale_bounds="fixed") + sk.WhiteKernel(1e-300),
    sk.ExpSineSquared(1.0, 24.0) ** 2 + sk.DotProduct(0.5) + sk.RationalQuadratic(0.7, 1.3),
    sk.CompoundKernel([sk.RBF(1.0), sk.RBF(2.0)]),
    ActiveDims(sk.RBF([1.0, 2.0]), (0, 2)),
    SpectralMixture([1.0, 0.5], [0.1, 0.3], [1.0, 2.0]),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_there_and_back(kernel: sk.Kernel) -> None:
    twin = kernel_from_text(kernel_to_text(kernel))
    assert twin == kernel
    assert twin.theta.tobytes() == kernel.theta.tobytes()
    assert twin.bounds.tobytes() == kernel.bounds.tobytes()
    assert repr(twin) == repr(kernel)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"kernel": "os.system", "arguments": {}}',
        '{"kernel": "sklearn.gaussian_process.kernels.RBF"}',
        '{"kernel": "sklearn.gaussian_process.kernels.RBF", "arguments": {"length": 1.0}}',
        '{"kernel": "sklearn.gaussian_process.kernels.RBF", "arguments": {"length_scale": {"a": 1, "b": 2}}}',
        '{"array": [1.0]}',
    ],
)
def test_what_is_no_kernel_is_refused(text: str) -> None:
    with pytest.raises(CheckpointError, match="kernel"):
        kernel_from_text(text)


def test_an_argument_that_cannot_be_written_is_named() -> None:
    with pytest.raises(CheckpointError, match="object"):
        kernel_to_text(sk.RBF(object()))


def test_the_text_is_plain_json_and_names_the_class() -> None:
    told = json.loads(kernel_to_text(sk.RBF(2.0)))
    assert told["kernel"] == "sklearn.gaussian_process.kernels.RBF"
    assert told["arguments"]["length_scale"] == 2.0
