"""As much of W&B's server as `wandb sync` asks for, on 127.0.0.1: it keeps what it is sent, and sends nothing on."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Received:
    """What arrived of each run, by W&B's id of it: name, group, config, and the rows of its history."""

    def __init__(self):
        self.address = ""
        self.runs = {}

    def answer(self, path, body):
        if path.endswith("/file_stream"):
            run = self.runs[path.split("/")[-2]]
            run["history"] += map(json.loads, body.get("files", {}).get("wandb-history.jsonl", {}).get("content", ()))
            return {}
        asked, given = body.get("query", ""), body.get("variables", {})
        if "upsertBucket" in asked:
            return {"upsertBucket": {"inserted": True, "bucket": self._begun(given)}}
        if "createRunFiles" in asked:
            files = [{"name": name, "uploadUrl": f"{self.address}/files/{name}"} for name in given["files"]]
            return {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": files}}
        return {}

    def _begun(self, given):
        run = self.runs.setdefault(given["name"], {"history": [], "config": {}})
        run |= {key: given[name] for key, name in (("name", "displayName"), ("group", "groupName")) if given[name]}
        run["config"] |= {key: value["value"] for key, value in json.loads(given["config"] or "{}").items()}
        project = {"id": "1", "name": given["project"], "entity": {"id": "1", "name": "someone"}}
        return {"id": "1", "name": given["name"], "displayName": run["name"], "config": "{}", "project": project}


@contextmanager
def serving():
    """A server and what it receives."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            told = self.headers.get("Content-Type", "").startswith("application/json") and self.command == "POST"
            answer = json.dumps({"data": received.answer(self.path, json.loads(body)) if told else {}}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_PUT = do_GET = do_POST

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # a client that hangs up in the middle
    received.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
