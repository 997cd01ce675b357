"""Notifications about requests for approval, by signed webhooks, Slack and e-mail (spec 9)."""

from __future__ import annotations

from capset_connect.notifications.email import Email
from capset_connect.notifications.slack import Slack
from capset_connect.notifications.webhooks import Webhook
from capset_connect.notifications.worker import DeliveryWorker

__all__ = ["DeliveryWorker", "Email", "Slack", "Webhook"]
