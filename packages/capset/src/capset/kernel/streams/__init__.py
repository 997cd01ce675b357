"""Streams of messages: channels, emission, processors, duplex streams and the dispatcher."""
