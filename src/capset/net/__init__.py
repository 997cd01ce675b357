"""Network addresses, needed by everything that uses a network, and HTTP to public ones.

``HttpClient`` makes requests. Each of its parts is a module: ``urls`` parses, ``addresses`` looks names up and judges
addresses with ``allowed_hosts``, ``connections`` connects to those that passed, and ``headers``, ``response`` and
``content_coding`` limit what is sent and received.
"""
