"""What runs in the child process: the interpreters, and what they need. It loads nothing else of capset."""
