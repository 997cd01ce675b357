"""Configuration files: an agent, its actions and their governance, as YAML, JSON or TOML (spec 4, G27, G28)."""

from __future__ import annotations

from capset_connect.config_file.configuration import Action, Configuration, InvalidConfiguration, Problem
from capset_connect.config_file.reader import read_configuration
from capset_connect.config_file.schema import configuration_schema

__all__ = [
    "Action",
    "Configuration",
    "InvalidConfiguration",
    "Problem",
    "configuration_schema",
    "read_configuration",
]
