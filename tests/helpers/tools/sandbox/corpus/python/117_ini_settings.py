# Read this INI file with defaults and interpolation, change a value, and write it again.
import configparser
import sys

TEXT = """
[DEFAULT]
root = srv
debug = no

[paths]
data = %(root)s/data
logs = %(data)s/../logs

[server]
host: example.org
port = 8080
debug = yes
; a comment
allowed =
    alice
    bob
"""

with open("app.ini", "w") as f:
    f.write(TEXT)
config = configparser.ConfigParser()
print(config.read(["missing.ini", "app.ini"]))
print(config.sections(), config["paths"]["logs"], config["server"].getint("port") + 1)
print(config.getboolean("paths", "debug"), config.getboolean("server", "debug"), config["server"]["allowed"].split())
print(config.get("server", "timeout", fallback="30"), "HOST" in config["server"], config.has_option("paths", "nope"))
config["server"]["port"] = "9090"
config["new"] = {"ratio": "50%%", "Name": "X"}
config.remove_option("server", "allowed")
config.write(sys.stdout)
print(config["new"]["ratio"], dict(config.items("new")))
for section, option in [("nope", "x"), ("server", "nope")]:
    try:
        config.get(section, option)
    except configparser.Error as e:
        print(type(e).__name__, e)
