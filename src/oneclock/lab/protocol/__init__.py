"""The paper's own protocol: rules at T_ES on the nearest swept betas, R0 calibrated, noise in T_ES, its tables."""

from oneclock.lab.protocol.analysis import ProtocolAnalysis, analyse_protocol
from oneclock.lab.protocol.horizons import read_protocol

__all__ = ["ProtocolAnalysis", "analyse_protocol", "read_protocol"]
