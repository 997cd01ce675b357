# Write a function that parses durations like "1h 30m" and unit tests for it, and run them.
import io
import re
import unittest


def seconds(text: str) -> int:
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    parts = re.findall(r"(\d+)\s*([dhms])", text)
    if not parts:
        raise ValueError(f"not a duration: {text!r}")
    return sum(int(n) * units[u] for n, u in parts)


class SecondsTest(unittest.TestCase):
    def test_single(self):
        self.assertEqual(seconds("45s"), 45)

    def test_several(self):
        for text, expected in {"1h 30m": 5400, "2d1s": 172801, "10 m": 600}.items():
            with self.subTest(text=text):
                self.assertEqual(seconds(text), expected)

    def test_invalid(self):
        with self.assertRaises(ValueError) as caught:
            seconds("soon")
        self.assertIn("soon", str(caught.exception))

    @unittest.skip("weeks are not there yet")
    def test_weeks(self):
        self.assertEqual(seconds("1w"), 604800)

    def test_wrong_on_purpose(self):
        self.assertEqual(seconds("1h"), 60)


suite = unittest.defaultTestLoader.loadTestsFromTestCase(SecondsTest)
result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
print(f"tests={suite.countTestCases()} failures={len(result.failures)} errors={len(result.errors)} skipped={len(result.skipped)}")
for test, trace in result.failures:
    print(test._testMethodName, "|", trace.strip().splitlines()[-1])
print("successful:", result.wasSuccessful())
