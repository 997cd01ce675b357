# Read this XML catalogue, raise prices of books by 10%, add a book, and print the new XML.
import xml.etree.ElementTree as ET

source = """<?xml version="1.0"?>
<catalog>
  <book id="b1" lang="en"><title>XML &amp; You</title><price currency="EUR">20.00</price></book>
  <book id="b2"><title>Größer</title><price currency="USD">5.50</price></book>
  <magazine id="m1"><title>Weekly</title><price>3</price></magazine>
</catalog>"""

root = ET.fromstring(source)
for book in root.findall("book"):
    price = book.find("price")
    price.text = f"{float(price.text) * 1.1:.2f}"
    print(book.get("id"), book.findtext("title"), price.text, book.get("lang", "?"))

new = ET.SubElement(root, "book", id="b3")
ET.SubElement(new, "title").text = 'Quotes "and" <tags>'
ET.SubElement(new, "price", {"currency": "GBP"}).text = "7.25"
ET.indent(root)
print(ET.tostring(root, encoding="unicode"))
print([e.tag for e in root.iter()][:5], len(root), root.find("./book[@id='b2']/title").text)
try:
    ET.fromstring("<a><b></a>")
except ET.ParseError as e:
    print("ParseError", e.position)
