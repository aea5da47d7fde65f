"""The queue dashboard (rq-dashboard) on loopback, in a process of its own: the door to it and to its web framework.

It shows jobs and lets people requeue or delete them: it has no login, so it never listens to the network. Its counting cleans RQ's
registries, which is harmless here: a requeued job is one more nudge.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from rq.serializers import JSONSerializer
from rq_dashboard.cli import make_flask_app
from rq_dashboard.web import config as dashboard_config
from rq_dashboard.web import setup_rq_connection
from werkzeug.serving import make_server

from indexer.stopping import Stopping
from store.errors import PortTaken

HOST = "127.0.0.1"


def serve_dashboard(redis_url: str, port: int, ready: Callable[[int], None]) -> int:
    """Serves until told to stop. Raises PortTaken."""
    stopping = Stopping()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = make_flask_app(None, None, None, "")
    app.config.update(DEPRECATED_OPTIONS=[], RQ_DASHBOARD_REDIS_URL=redis_url, RQ_DASHBOARD_DISABLE_DELETE=False)
    dashboard_config.serializer = JSONSerializer
    setup_rq_connection(app)
    try:
        server = make_server(HOST, port, app, threaded=True)
    except (OSError, SystemExit) as error:
        raise PortTaken(port=port, host=HOST, setting="evercurrent.dashboard.port") from error
    thread = threading.Thread(target=server.serve_forever, name="dashboard", daemon=True)
    thread.start()
    ready(server.server_port)
    while not stopping.wait(60):
        pass
    server.shutdown()
    thread.join()
    return 0
