"""libvirt's own client library, by its Python binding, as a warm peer: it starts ssh for every session."""

import json
import sys
import time

import libvirt

settings = json.loads(sys.argv[1])
ELEMENT = libvirt.VIR_DOMAIN_METADATA_ELEMENT
CONFIG = libvirt.VIR_DOMAIN_AFFECT_CONFIG
LEASE = libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE


def connect(order):
    authority = "%s@%s:%d" % (settings["user"], order["address"], order["port"])
    return libvirt.open("qemu+ssh://%s/system?command=%s" % (authority, settings["sshCommand"]))


def milliseconds_since(start):
    return (time.perf_counter() - start) * 1000


def session(order):
    start = time.perf_counter()
    connection = connect(order)
    domain = connection.lookupByName(order["vm"])
    state = domain.state()[0]
    metadata = domain.metadata(ELEMENT, settings["metadataUri"], CONFIG)
    interfaces = domain.interfaceAddresses(LEASE)
    connection.close()
    addresses = [entry["addr"] for each in interfaces.values() for entry in each["addrs"] or []]
    return {"ms": milliseconds_since(start), "state": state, "metadata": metadata, "addresses": addresses}


def list_domains(order):
    connection = connect(order)
    start = time.perf_counter()
    count = 0
    for domain in connection.listAllDomains():
        domain.state()
        try:
            metadata = domain.metadata(ELEMENT, settings["metadataUri"], CONFIG)
        except libvirt.libvirtError:
            continue
        count += 'fleet="%s"' % settings["fleet"] in metadata
    ms = milliseconds_since(start)
    connection.close()
    return {"ms": ms, "count": count}


libvirt.registerErrorHandler(lambda _context, _error: None, None)
for line in sys.stdin:
    order = json.loads(line)
    try:
        answer = {"session": session, "list": list_domains}[order["op"]](order)
    except Exception as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
