"""The HTTP service and its page. Needs the extra `serve`; only its command imports it.

Start reading at `app.py` (the paths), then `service.py` (what they do) and `batcher.py` (how requests share a model).

    settings.py    where it listens, how long it waits, what it refuses
    schema.py      JSON of requests and answers
    app.py, guard.py              the paths; checks of host, origin, token, size and time
    service.py, batcher.py        models, metrics, readiness; the thread that predicts the texts of many requests
    queue.py, pace.py, share.py   who waits, who is refused; how long a model takes; places by client address
    guarded_calls.py              calls that may raise anything, in threads
    models.py, journal.py         a loaded model and its added labels; those labels on disk
    shared_labels.py              the same in a database, where several processes add them
    finder.py, similar_examples.py    labels by their words; the most similar training texts of a label
    counters.py, logs.py          metrics for Prometheus; one JSON object per line, never a text
    protocol.py, connections.py   a connection and its time limits; how many each client address may have
    strict.py, refusal.py         refuses HTTP with two meanings; the error that refuses a request
    server.py, assets/            from start to stop; the page
    content.py, worker_processes.py   what is served; several processes on one socket
    totals.py                     their metrics, added up

May import data, metrics, linear, seams, model, store and what they import.
"""
