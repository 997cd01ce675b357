# Write a small command-line converter with argparse; run it with several argument lists.
import argparse

parser = argparse.ArgumentParser(prog="convert", description="Convert temperatures.")
parser.add_argument("values", nargs="+", type=float, help="temperatures")
parser.add_argument("-t", "--to", choices=["c", "f", "k"], default="f")
parser.add_argument("-p", "--precision", type=int, default=1, metavar="N")
parser.add_argument("-v", "--verbose", action="store_true")
parser.add_argument("--label", action="append", default=[])


def convert(celsius, unit):
    return {"c": celsius, "f": celsius * 9 / 5 + 32, "k": celsius + 273.15}[unit]


def main(argv):
    args = parser.parse_args(argv)
    if args.verbose:
        print("options:", sorted(vars(args).items()))
    print(" ".join(f"{convert(v, args.to):.{args.precision}f}" for v in args.values), *args.label)


main(["0", "36.6", "100"])
main(["-t", "k", "-p", "2", "-v", "21.5", "--label", "lab", "--label", "two"])
main(["--to=c", "--precision=3", "1e2", "--", "-5"])
try:
    main(["-p", "x", "1"])
except SystemExit as e:
    print("exit code", e.code)
