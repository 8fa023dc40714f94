"""What the cloud concludes from many. Knows gp."""

from streamgp.fusion.asked import Asked, Correction, Influence
from streamgp.fusion.attacks import KINDS, Answer, Attack, make_attack
from streamgp.fusion.averages import geometric_median, krum, mean_of_experts, median_of_experts
from streamgp.fusion.calibrated import Calibration, calibrated_poe
from streamgp.fusion.choose import ChoiceConstants, choose
from streamgp.fusion.committees import bcm, grbcm, rbcm
from streamgp.fusion.fused import Fused, Usable, usable
from streamgp.fusion.network import NetworkLayer
from streamgp.fusion.network_settings import NetworkSettings
from streamgp.fusion.products import covariance_intersection, gpoe, min_variance, product_of_experts
from streamgp.fusion.suspects import is_degraded, outlying
from streamgp.fusion.trimmed import Cuts, cut_sides, n_trim_for, trimmed_poe
from streamgp.fusion.trust import TrustLedger
from streamgp.fusion.trust_report import AgentTrust, follow_beta

__all__ = [
    "KINDS",
    "AgentTrust",
    "Answer",
    "Asked",
    "Attack",
    "Calibration",
    "ChoiceConstants",
    "Correction",
    "Cuts",
    "Fused",
    "Influence",
    "NetworkLayer",
    "NetworkSettings",
    "TrustLedger",
    "Usable",
    "bcm",
    "calibrated_poe",
    "choose",
    "covariance_intersection",
    "cut_sides",
    "follow_beta",
    "geometric_median",
    "gpoe",
    "grbcm",
    "is_degraded",
    "krum",
    "make_attack",
    "mean_of_experts",
    "median_of_experts",
    "min_variance",
    "n_trim_for",
    "outlying",
    "product_of_experts",
    "rbcm",
    "trimmed_poe",
    "usable",
]
