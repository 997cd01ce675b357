# Load a config and raise a ConfigError from the KeyError below it; let it end the program with a traceback.
import sys


class ConfigError(RuntimeError):
    """The configuration cannot be used."""


def setting(config, name):
    try:
        return config[name]
    except KeyError as error:
        raise ConfigError(f"missing setting {name!r}") from error


config = {"host": "localhost", "port": 5432}
print("host is", setting(config, "host"))
try:
    setting(config, "user")
except ConfigError as error:
    print("caught:", error, "| cause:", repr(error.__cause__), "| suppressed:", error.__suppress_context__)

try:
    try:
        int("x")
    except ValueError:
        config["nope"]
except KeyError as error:
    print("context:", error.__context__)

print("before the crash", file=sys.stderr)
setting(config, "password")
print("never printed")
