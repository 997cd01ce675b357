# Turn this nested JSON of departments into a flat list of employees, sorted by salary.
import json

raw = """
{"company": "Acme", "departments": [
  {"name": "R&D", "employees": [{"name": "Zoë", "salary": 72000, "skills": ["c", "python"]},
                                {"name": "Max", "salary": 64000.5, "skills": []}]},
  {"name": "Sales", "employees": [{"name": "Lia", "salary": 58000, "skills": ["negotiation"]}]},
  {"name": "Empty", "employees": []}
], "active": true, "parent": null}
"""
data = json.loads(raw)
flat = [
    {"name": e["name"], "department": d["name"], "salary": e["salary"], "n_skills": len(e["skills"])}
    for d in data["departments"]
    for e in d["employees"]
]
flat.sort(key=lambda e: e["salary"], reverse=True)
print(json.dumps(flat, indent=2, ensure_ascii=False))
print(json.dumps({"payroll": sum(e["salary"] for e in flat), "active": data["active"], "parent": data["parent"]}))
print(json.dumps(flat[0], sort_keys=True, separators=(",", ":")))
