"""Network addresses, needed by everything that uses a network, and HTTP to public ones.

``HttpClient`` makes requests. Each of its parts is a module: ``urls`` parses, ``addresses`` looks names up and judges
addresses, ``connections`` connects to those that passed, or through what ``proxies`` names, and ``response`` limits
what is received.
"""
