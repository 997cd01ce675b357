"""Credentials that users lend to the server: encrypted, renewed, and used only for the servers they are for."""
