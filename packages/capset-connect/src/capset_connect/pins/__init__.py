"""Tools of third parties as they were approved: pins, offers, the lock file, and the guard of calls."""
