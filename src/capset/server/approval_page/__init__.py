"""The page on which people decide a request for an approval, until there is a console (spec 7, M20)."""
