# Who is on both lists, who is on only one, and is one list part of the other?
course_a = {"ann", "bob", "cid", "dee"}
course_b = {"bob", "dee", "eve"}
print("both:    ", sorted(course_a & course_b))
print("either:  ", sorted(course_a | course_b))
print("only a:  ", sorted(course_a - course_b))
print("one only:", sorted(course_a ^ course_b))
print({"bob"} <= course_b, course_a >= {"ann", "zed"}, course_a.isdisjoint({"x"}), {"bob"} < {"bob"})
course_a.discard("zed")
course_a.update(["fay"], ("gus",))
try:
    course_a.remove("zed")
except KeyError as e:
    print("KeyError", e)
seen = set()
dupes = [x for x in [3, 1, 3, 2, 1, 3] if x in seen or seen.add(x)]
print(len(course_a), dupes, list(dict.fromkeys([3, 1, 3, 2, 1])), frozenset({1, 2}) == {2, 1}, len({1, 1.0, True, "1"}))
