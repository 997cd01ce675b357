# Show the bytes of these texts in several encodings.
for text in ["é", "€", "日", "abc"]:
    print(text, text.encode("utf-8").hex(), text.encode("utf-16-le").hex(), len(text.encode("utf-32-le")))
print("é".encode("latin-1"), bytes([0xE9]).decode("latin-1"), b"caf\xc3\xa9".decode())
