"""HTTP below the API: middleware, bodies, responses, caching headers, and the server process."""
