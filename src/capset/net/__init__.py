"""Addresses: what everything that speaks over a network must know of them, and HTTP to those that are public.

``HttpClient`` asks. What it needs has a module each: ``urls`` reads, ``resolving`` looks names up, ``addresses`` and
``allowing`` judge, ``connecting`` connects to what was judged, ``headers`` and ``decoding`` bound what goes and comes.
"""
