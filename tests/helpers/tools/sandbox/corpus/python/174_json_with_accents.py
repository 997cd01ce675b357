# Write this as JSON, once with escapes and once as it is, and read some back.
import json

data = {"naïf": "été", "prix": "5 €", "liste": ["日本", "ñ"]}
print(json.dumps(data))
print(json.dumps(data, ensure_ascii=False, sort_keys=True))
print(json.loads('{"a": "\\u00e9\\ud83d\\ude00"}')["a"])
