"""The console: pages for people, which ask the REST API for all that they show and do (spec 9)."""
