"""The models, what carries texts to them, and how the service fares."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

from longtail import __version__
from longtail.errors import DataError, LongtailError
from longtail.memory import resident_bytes
from longtail.serve import schema
from longtail.serve.batcher import Batcher, Busy, Stopped, TooLate
from longtail.serve.counters import Counters
from longtail.serve.examples import TrainingRows
from longtail.serve.journal import Entry
from longtail.serve.logs import Log
from longtail.serve.models import Served, Taken
from longtail.serve.refusal import Refused
from longtail.serve.settings import Settings

MOST_PLACES = 50_000  # texts x k of a request
MOST_ADDING = 16  # requests that add labels and wait for one another


class Service:
    """Lives on one event loop, from `life` on; models and threads may be asked from it alone."""

    def __init__(
        self, settings: Settings, models: Mapping[str, Served], rows: TrainingRows | None = None, log: Log | None = None
    ) -> None:
        self.settings, self.models, self.rows, self.log = settings, models, rows, log or Log()
        self.state: Literal["starting", "ready", "stopping"] = "starting"
        self.failure: Exception | None = None  # of the warm-up
        self.on_failure: Callable[[], None] = lambda: None
        self.under_way = 0  # requests; the guard counts them
        self.counters = Counters()
        self.counters.start.set(round(time.time(), 3))
        self.batcher = Batcher(
            self._predict, batch=settings.batch, queue=settings.queue, wait=settings.wait, watch=self._watch
        )
        self._adding = 0

    @asynccontextmanager
    async def life(self, app: Any) -> AsyncIterator[None]:
        """While the server runs: the batcher works, and the models are warmed up before anybody is let in."""
        self.batcher.start()
        warming = asyncio.create_task(self._warm_up())
        try:
            yield
        finally:
            warming.cancel()
            await self.batcher.stop()

    async def _warm_up(self) -> None:
        begin = time.perf_counter()
        try:
            for model in self.models.values():
                await asyncio.to_thread(model.warm_up)
        except Exception as error:  # whatever the model raised: the runner says it and stops
            self.failure = error
            self.on_failure()
            return
        if self.state == "starting":
            self.state = "ready"
        self.log.say("ready", seconds=round(time.perf_counter() - begin, 3), models=list(self.models))

    def _predict(self, key: tuple[str, int], texts: list[str]) -> list[Any]:
        name, k = key
        return self.models[name].predict(texts, k)

    def _watch(self, key: tuple[str, int], texts: int, seconds: float) -> None:
        self.counters.texts.add(texts, model=key[0])
        self.counters.batches.observe(texts, model=key[0])
        self.counters.computing.observe(seconds, model=key[0])

    def model(self, name: str | None) -> Served:
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise Refused(404, f"no model is called that; there are: {', '.join(self.models)}", "model")
        return self.models[name]

    async def predict(self, asked: schema.Ask, facts: dict[str, Any]) -> dict[str, Any]:
        model = self.model(asked.model)
        if (asked.text is None) == (asked.texts is None):
            raise Refused(422, "give text (one) or texts (a list), and not both", "values")
        texts = asked.texts if asked.text is None else [asked.text]
        assert texts is not None
        if len(texts) * asked.k > MOST_PLACES:
            raise Refused(422, f"{len(texts)} texts x k {asked.k} are more than {MOST_PLACES} labels", "values")
        facts.update(model=model.name, texts=len(texts), k=asked.k)
        answers = await self._in_time(self.batcher.ask((model.name, asked.k), texts, facts["deadline"]))
        if asked.threshold > 0:
            answers = [[label for label in labels if label["score"] >= asked.threshold] for labels in answers]
        return {"model": model.name, "answers": [{"labels": labels} for labels in answers]}

    async def add(self, given: schema.NewLabels, facts: dict[str, Any]) -> dict[str, Any]:
        model = self.model(given.model)
        entries = [Entry(label.id or label.text, label.text) for label in given.labels]
        if self._adding >= MOST_ADDING:
            raise Refused(429, "other labels are being added; ask again", "adding", {"Retry-After": "1"})
        facts.update(model=model.name, labels=len(entries))
        self._adding += 1
        try:
            # Not cut short: a thread cannot be, and what it began will be on the disk.
            new, known = await asyncio.to_thread(model.add, entries)
        except Taken as error:
            raise Refused(409, str(error), "taken") from None
        except DataError as error:
            raise Refused(422, str(error), "values") from None
        except LongtailError as error:
            self.log.say("journal", level="error", model=model.name, message=str(error))
            raise Refused(503, "the labels could not be written to disk; none was added", "disk") from None
        finally:
            self._adding -= 1
        self.counters.added.add(len(new), model=model.name)
        return {"model": model.name, "added": new, "known": known, "labels": len(model.now.model.labels)}

    async def find(self, name: str | None, query: str, limit: int, offset: int) -> dict[str, Any]:
        model = self.model(name)
        version = model.now
        total, rows = await asyncio.to_thread(version.finder.find, query, limit, offset)
        return {"model": model.name, "total": total, "labels": [version.label(row) for row in rows]}

    async def nearest(self, asked: schema.AskExamples, facts: dict[str, Any]) -> dict[str, Any]:
        if self.rows is None:
            raise Refused(404, "the service was started without training rows: longtail serve --examples DATA", "rows")
        facts.update(labels=len(asked.labels))
        found = await asyncio.to_thread(self.rows.nearest, asked.text, asked.labels, asked.most)
        return {"examples": {label: [one._asdict() for one in near] for label, near in found.items()}}

    def facts(self) -> dict[str, Any]:
        rows = None if self.rows is None else self.rows.name
        return {"version": __version__, "models": [model.facts() for model in self.models.values()], "examples": rows}

    def figures(self) -> str:
        self.counters.waiting.set(self.batcher.waiting)
        self.counters.under_way.set(self.under_way)
        self.counters.ready.set(float(self.state == "ready"))
        self.counters.memory.set(resident_bytes())
        for model in self.models.values():
            self.counters.labels.set(len(model.now.model.labels), model=model.name)
        return self.counters.text()

    async def _in_time(self, work: Any) -> list[Any]:
        try:
            answers: list[Any] = await work
            return answers
        except Busy as busy:
            raise Refused(
                429, "the queue is full; ask again later", "queue", {"Retry-After": str(busy.retry_after)}
            ) from None
        except TooLate:
            raise Refused(
                503, f"not done within {self.settings.timeout:g} seconds; ask again, or send fewer texts", "late",
                {"Retry-After": str(self.batcher.retry_after)},
            ) from None  # fmt: skip
        except Stopped:
            raise Refused(503, "the service is stopping; ask again", "stopping", {"Retry-After": "1"}) from None
        except LongtailError as error:
            raise Refused(422, str(error), "values") from None
