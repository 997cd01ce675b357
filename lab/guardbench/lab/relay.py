"""A server of the lab as a process: its standard streams are those of a connection to the lab, at a port."""

from __future__ import annotations

import os
import socket
import sys
import threading


def _send(connection: socket.socket) -> None:
    while data := os.read(0, 65_536):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def main() -> None:
    """Pass bytes on, both ways, until the lab ends the connection."""
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
        threading.Thread(target=_send, args=[connection], daemon=True).start()
        while data := connection.recv(65_536):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
