"""What the guest makes of a seed, asked of the guest's own code: cloud-init and PyYAML.

One JSON request a line on stdin, one JSON answer a line on stdout, so that one process serves a whole test file.
Nothing is executed and nothing is fetched: scripts, boothooks and part-handlers are recorded, includes are listed.
"""
import atexit
import base64
import datetime
import json
import logging
import os
import shutil
import sys
import tempfile

from cloudinit import handlers, safeyaml, sources, ssh_util, user_data, util
from cloudinit.handlers.cloud_config import CloudConfigPartHandler
from cloudinit.handlers.jinja_template import JinjaTemplatePartHandler
from cloudinit.net import network_state
from cloudinit.settings import PER_INSTANCE

WORK = tempfile.mkdtemp(prefix="kvmfn-oracle-")
atexit.register(shutil.rmtree, WORK, ignore_errors=True)
INSTANCE_DATA = os.path.join(WORK, "instance-data.json")
with open(INSTANCE_DATA, "w", encoding="utf-8") as out:
    json.dump({"v1": {"instance_id": "i-oracle", "distro": "debian", "local_hostname": "vm1"}}, out)


def tagged(value):
    """A value with its Python type, so that 'yes' and True, 7 and '7' and 7.0 stay apart in JSON."""
    if value is None:
        return None
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return {"int": hex(value)}
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, (datetime.date, datetime.datetime)):
        return {type(value).__name__: value.isoformat()}
    if isinstance(value, dict):
        return {"dict": [[tagged(key), tagged(item)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [tagged(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return {"set": sorted((tagged(item) for item in value), key=json.dumps)}
    raise TypeError("no tag for " + type(value).__name__)


class Paths:
    """The few paths the handlers ask for."""

    def get_ipath(self, name=None):
        return os.path.join(WORK, name or "")

    def get_ipath_cur(self, name=None):
        return os.path.join(WORK, name or "")

    def get_cpath(self, name=None):
        return os.path.join(WORK, name or "")

    def get_runpath(self, name=None):
        return INSTANCE_DATA if name == "instance_data_sensitive" else os.path.join(WORK, name or "")


class Recorder(handlers.Handler):
    """Stands for every handler that would write or run something."""

    def __init__(self, types, parts):
        handlers.Handler.__init__(self, PER_INSTANCE, version=2)
        self.types, self.parts = types, parts

    def list_types(self):
        return self.types

    def handle_part(self, data, ctype, filename, payload, frequency):
        if ctype not in handlers.CONTENT_SIGNALS:
            self.parts.append({"type": ctype, "payload": encoded(payload)})


class Warnings(logging.Handler):
    def __init__(self):
        logging.Handler.__init__(self, logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def encoded(payload):
    raw = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else payload
    return base64.b64encode(raw).decode()


def consume(blob):
    """The cloud-config cloud-init ends with, the other parts it would act on, and what it warned about."""
    parts, kept, warnings = [], {}, Warnings()

    def keep(handler):
        kept["config"] = handler.cloud_buf

    def record_include(url, **_kwargs):
        parts.append({"type": "text/x-include-url", "payload": encoded(url)})
        raise IOError("not fetched")

    def record_part_handler(_pdata, ctype, _filename, payload):
        parts.append({"type": ctype, "payload": encoded(payload)})

    paths = Paths()
    cloud_config = CloudConfigPartHandler(paths)
    cloud_config._write_cloud_config = lambda: keep(cloud_config)
    recorder = Recorder(
        ["text/x-shellscript", "text/cloud-boothook"]
        + ["text/x-shellscript-per-" + when for when in ("boot", "instance", "once")],
        parts,
    )
    jinja = JinjaTemplatePartHandler(paths, sub_handlers=[cloud_config, recorder])
    registry = {}
    for handler in (cloud_config, recorder, jinja):
        for content_type in handler.list_types():
            registry[content_type] = handler

    user_data._handle_error = lambda message, _source=None: None
    user_data.read_file_or_url = record_include
    handlers.walker_handle_handler = record_part_handler
    root = logging.getLogger()
    root.addHandler(warnings)
    try:
        message = user_data.UserDataProcessor(paths).process(blob)
        for handler in (cloud_config, recorder, jinja):
            handlers.call_begin(handler, None, PER_INSTANCE)
        handlers.walk(
            message,
            handlers.walker_callback,
            data={
                "handlers": registry,
                "handlerdir": WORK,
                "data": None,
                "frequency": PER_INSTANCE,
                "handlercount": 0,
                "excluded": [],
            },
        )
        for handler in (cloud_config, recorder, jinja):
            handlers.call_end(handler, None, PER_INSTANCE)
    finally:
        root.removeHandler(warnings)
    return kept.get("config"), parts, warnings.lines


def op_yaml(request):
    """PyYAML alone, with cloud-init's loader."""
    value = safeyaml.load(util.decode_binary(base64.b64decode(request["data"])))
    return {"value": tagged(value)}


def op_seed(request):
    """user-data and vendor-data as a guest reads them, and the two merged as cloud-init merges them."""
    config, parts, warnings = consume(base64.b64decode(request["userData"]))
    vendor = None
    if request.get("vendorData"):
        vendor, _parts, more = consume(base64.b64decode(request["vendorData"]))
        warnings = warnings + more
    effective = util.mergemanydict([config or {}, vendor or {}])
    return {"config": tagged(config), "effective": tagged(effective), "parts": parts, "warnings": warnings}


def op_runcmd(request):
    """The script that cloud-init writes of runcmd, and runs at the end of the boot."""
    config, _parts, _warnings = consume(base64.b64decode(request["userData"]))
    return {"script": util.shellify(config["runcmd"])}


def op_classify(request):
    return {"type": handlers.type_from_starts_with(base64.b64decode(request["data"]))}


def op_public_keys(request):
    """The keys a NoCloud meta-data carries, each as cloud-init's authorized_keys parser takes it apart."""
    meta_data = util.load_yaml(base64.b64decode(request["data"]))
    lines = sources.normalize_pubkey_data(meta_data.get("public-keys"))
    parsed = [ssh_util.AuthKeyLineParser().parse(line) for line in lines]
    return {
        "metaData": tagged(meta_data),
        "keys": [[key.options, key.keytype, key.base64, key.comment, bool(key.valid())] for key in parsed],
    }


def op_network(request):
    """A network-config as NoCloud reads it, and whether cloud-init's network state takes it."""
    config = util.load_yaml(base64.b64decode(request["data"]), allowed=(dict, str))
    state = network_state.parse_net_config_data(config)
    return {"value": tagged(config), "interfaces": sorted(i["name"] for i in state.iter_interfaces())}


OPS = {name[3:]: function for name, function in list(globals().items()) if name.startswith("op_")}


def main():
    logging.getLogger().setLevel(logging.WARNING)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = OPS[request["op"]](request)
        except Exception as error:  # the answer to a refused input is the refusal
            answer = {"error": type(error).__name__ + ": " + str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


main()
