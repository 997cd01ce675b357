"""The code of the child process: the interpreters and their support. It loads nothing else of capset."""
