"""The HTTP service and its page. Needs the extra `serve`; nothing outside this room and its command imports it.

settings    how it listens, how long it waits, what it refuses
schema      what a request may say and what an answer looks like
batcher     texts of many requests go through a model together
models      a model under its name, with the labels that joined it while it served
journal     those labels on disk, before anybody is told that they were added
finder      labels by their words
examples    the training texts nearest to a text, for each label
counters    figures for Prometheus
logs        a JSON object a line, never a text
guard       what every request passes: host, origin, token, size, time
app         the paths
protocol    connections that take too long to ask
run         from start to stop
"""
