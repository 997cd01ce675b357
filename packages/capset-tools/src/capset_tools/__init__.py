"""The capabilities that come with capset, one module or folder each, loaded through entry points.

They import only what a third party may import, ``capset`` and ``capset.ext`` (spec 5, P1, P17).
"""
