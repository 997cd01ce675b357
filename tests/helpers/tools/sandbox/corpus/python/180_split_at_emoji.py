# Split this message at its emoji, and say how many characters and bytes each part has.
message = "Hé 😀 ça va 🎉 tschüß"
parts = [part.strip() for part in message.replace("🎉", "😀").split("😀")]
for part in parts:
    print(repr(part), len(part), len(part.encode()))
print(message.count("s"), message.find("ça"), message.startswith("Hé"), "ß" in message, ascii("é€😀"))
