"""``web_fetch``: a page from the web, as it is, as Markdown or as plain text."""
