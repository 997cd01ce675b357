"""The code of the child process: the interpreters and their support. It imports nothing else of capset."""
