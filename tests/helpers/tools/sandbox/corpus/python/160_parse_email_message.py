# Parse this raw email: headers, addresses, parts, attachment; then build a reply.
from email import message_from_string, policy
from email.message import EmailMessage
from email.utils import getaddresses, parsedate_to_datetime

RAW = """\
From: "Ann Example" <ann@example.org>
To: bob@test.com, Carol <carol@test.com>
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe_und_Zahlen?=
Date: Tue, 05 Mar 2024 10:30:00 +0100
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="sep"

--sep
Content-Type: text/plain; charset="utf-8"
Content-Transfer-Encoding: quoted-printable

Hello Bob,=20
the price is 5=E2=82=AC.
--sep
Content-Type: text/csv; name="data.csv"
Content-Disposition: attachment; filename="data.csv"
Content-Transfer-Encoding: base64

YSxiCjEsMgo=
--sep--
"""

message = message_from_string(RAW, policy=policy.default)
print(message["subject"], "|", message["from"].addresses[0].display_name, "|", message["from"].addresses[0].domain)
print(getaddresses([message["to"]]), parsedate_to_datetime(str(message["date"])).isoformat())
for part in message.walk():
    print(part.get_content_type(), part.get_filename(), part.is_multipart())
print(message.get_body().get_content().strip().splitlines())
print([a.get_content().splitlines() for a in message.iter_attachments()])

reply = EmailMessage()
reply["To"] = message["from"]
reply["Subject"] = "Re: " + message["subject"]
reply.set_content("Thanks!\n\n" + "".join(f"> {line}\n" for line in message.get_body().get_content().splitlines()))
print(sorted(reply.keys()), reply.get_content_charset())
print(reply.get_content())
