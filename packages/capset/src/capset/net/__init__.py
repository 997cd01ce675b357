"""Checks of network addresses, for everything that uses a network, and an HTTP client for public ones.

``HttpClient`` in ``client`` makes the requests. ``urls`` parses URLs, ``addresses`` resolves names and classifies
addresses, ``connections`` connects to permitted addresses or through one of the ``proxies``, and ``response`` limits
how much is received.
"""
