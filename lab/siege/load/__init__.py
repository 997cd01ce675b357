"""What servers carry: many followers and sessions, several servers on one database, several writers of one chain."""
