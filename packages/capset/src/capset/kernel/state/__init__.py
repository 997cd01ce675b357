"""The data of a session: values, documents and files, and their codecs."""
