"""The console: pages for people, which use the REST API for everything that they show and do (spec 9)."""
