# Sort these IP addresses, tell which networks they are in, and split a subnet.
import ipaddress

addresses = ["10.1.2.3", "192.168.1.77", "8.8.8.8", "10.1.2.20", "2001:db8::1", "127.0.0.1", "172.31.255.1", "300.1.1.1", "::1"]
networks = {name: ipaddress.ip_network(net) for name, net in {"office": "10.1.2.0/28", "vpn": "192.168.0.0/16", "lab": "2001:db8::/32"}.items()}

valid = []
for text in addresses:
    try:
        valid.append(ipaddress.ip_address(text))
    except ValueError as e:
        print(e)
for a in sorted(valid, key=lambda a: (a.version, int(a))):
    home = next((n for n, net in networks.items() if a.version == net.version and a in net), "-")
    print(f"{str(a):<14} {home:<7} private={a.is_private} loopback={a.is_loopback} {int(a):x}")

net = ipaddress.ip_network("10.0.0.0/22")
print(net.num_addresses, net.netmask, net.broadcast_address, [str(s) for s in net.subnets(new_prefix=24)])
print([str(h) for h in ipaddress.ip_network("10.9.9.8/30").hosts()], ipaddress.ip_interface("10.0.3.7/22").network)
print([str(n) for n in ipaddress.collapse_addresses(map(ipaddress.ip_network, ["10.0.0.0/25", "10.0.0.128/25", "10.0.1.0/24"]))])
print(ipaddress.ip_address("10.0.0.255") + 1, ipaddress.ip_address("2001:db8::1").exploded, networks["office"].overlaps(ipaddress.ip_network("10.1.0.0/16")))
