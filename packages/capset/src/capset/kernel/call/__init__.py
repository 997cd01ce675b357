"""One call, from its arguments to its result: the session, the pipeline and what handlers see."""
