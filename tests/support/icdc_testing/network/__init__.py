"""Proxies and servers on loopback that record, disturb, hang or lie; HTTP messages and TLS."""
