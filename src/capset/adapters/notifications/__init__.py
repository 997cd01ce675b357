"""Notifications: what waits for an approval, told where people are, by signed webhooks, Slack and e-mail (spec 9)."""

from __future__ import annotations

from capset.adapters.notifications.email import Email
from capset.adapters.notifications.slack import Slack
from capset.adapters.notifications.webhooks import Webhook
from capset.adapters.notifications.worker import DeliveryWorker

__all__ = ["DeliveryWorker", "Email", "Slack", "Webhook"]
