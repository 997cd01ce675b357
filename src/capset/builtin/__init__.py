"""The capabilities that come with capset, one module or folder each, loaded through entry points.

They import what a third party may import, ``capset`` and ``capset.ext``, and nothing else of the house
(spec 5, P1, P17).
"""
