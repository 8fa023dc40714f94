"""What the cloud concludes from many. Knows gp."""

from streamgp.fusion.attacks import KINDS, Answer, Attack, make_attack
from streamgp.fusion.averages import geometric_median, krum, mean_of_experts, median_of_experts
from streamgp.fusion.choose import ChoiceConstants, choose
from streamgp.fusion.committees import bcm, grbcm, rbcm
from streamgp.fusion.fused import Fused, Usable, usable
from streamgp.fusion.products import covariance_intersection, gpoe, min_variance, product_of_experts
from streamgp.fusion.trimmed import Cuts, cut_sides, n_trim_for, trimmed_poe

__all__ = [
    "KINDS",
    "Answer",
    "Attack",
    "ChoiceConstants",
    "Cuts",
    "Fused",
    "Usable",
    "bcm",
    "choose",
    "covariance_intersection",
    "cut_sides",
    "geometric_median",
    "gpoe",
    "grbcm",
    "krum",
    "make_attack",
    "mean_of_experts",
    "median_of_experts",
    "min_variance",
    "n_trim_for",
    "product_of_experts",
    "rbcm",
    "trimmed_poe",
    "usable",
]
