# Run child Python processes: capture output and errors, pass input, check exit codes.
import subprocess
import sys

done = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True)
print(done.returncode, done.stdout.strip(), repr(done.stderr))

code = "import sys; data = sys.stdin.read(); print(data.upper(), end=''); print(len(data), file=sys.stderr); sys.exit(4)"
done = subprocess.run([sys.executable, "-c", code], input="hello\n", capture_output=True, text=True)
print(done.returncode, done.stdout.strip(), done.stderr.strip())

try:
    subprocess.run([sys.executable, "-c", "raise SystemExit('bad')"], check=True, stderr=subprocess.PIPE, text=True)
except subprocess.CalledProcessError as e:
    print("failed with", e.returncode, e.stderr.strip())
print(subprocess.check_output("echo one; echo two | tr a-z A-Z", shell=True, text=True).split())
