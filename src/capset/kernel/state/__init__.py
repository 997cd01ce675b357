"""The data of a session: values, documents and files, and how they are encoded."""
