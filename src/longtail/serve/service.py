"""The service behind the paths: models, batcher, metrics, and whether it is ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

from longtail import __version__
from longtail.errors import DataError, LongtailError, ModelError, WriteError
from longtail.memory import resident_bytes
from longtail.serve import schema
from longtail.serve.batcher import Batcher
from longtail.serve.connections import Connections
from longtail.serve.counters import Counters
from longtail.serve.guarded_calls import WorkFailed, in_thread
from longtail.serve.journal import Entry
from longtail.serve.logs import Log
from longtail.serve.models import IdTaken, Served
from longtail.serve.queue import Asked, Busy, Gone, ModelFailed, Stopped, TooLate
from longtail.serve.refusal import Refused
from longtail.serve.settings import Settings
from longtail.serve.shared_labels import NotStored
from longtail.serve.similar_examples import TrainingExamples
from longtail.serve.totals import EVERY, Totals

MAX_ADDING = 16  # requests that add labels and wait for one another
POLL = 0.3  # seconds between two checks for labels that others have added
STUCK = 2  # a batch that takes this many times the time limit of a request will hardly end
CLOSED = 499  # status of a request whose client has gone, for the log; nobody receives it

_Key = tuple[str, int, float, bool, str]  # what texts of a batch share: model, k, dial, whether to say why, language


class Service:
    """The state of the service; lives on one event loop, from `life` on.

    Args:
        settings: of the service.
        models: by name; the first is the default.
        examples: training examples that `/examples` shows; None shows none.
        log: where events are logged; None means standard error.
    """

    def __init__(
        self,
        settings: Settings,
        models: Mapping[str, Served],
        examples: TrainingExamples | None = None,
        log: Log | None = None,
    ) -> None:
        self.settings, self.models, self.examples, self.log = settings, models, examples, log or Log()
        self.state: Literal["starting", "ready", "stopping"] = "starting"
        self.failure: Exception | None = None  # why the service ends by itself
        self.on_failure: Callable[[], None] = lambda: None
        self.under_way = 0  # requests; the guard counts them
        self.connections = Connections(settings, settings.connections)
        self.counters = Counters()
        self.counters.start.set(round(time.time(), 3))
        self.batcher = Batcher(
            self._predict, batch_size=settings.batch_size, queue=settings.queue, wait=settings.wait, watch=self._watch,
            pace_of=lambda key: key[0], probe=lambda key: self.models[key[0]].probe(),
        )  # fmt: skip
        self.batcher.on_death = self._die
        self.totals: Totals | None = None  # where other workers answer, too
        self._adding = 0

    @asynccontextmanager
    async def life(self, app: Any) -> AsyncIterator[None]:
        """Runs the batcher while the server runs, and warms up the models before requests are answered."""
        try:
            self.batcher.start()
        except RuntimeError as error:  # the operating system gives no thread
            self.batcher.dead = error
            self._die()
        tasks = [asyncio.create_task(self._warm_up())] if self.state == "starting" else []
        tasks += [
            asyncio.create_task(self._follow(model)) for model in self.models.values() if model.shared is not None
        ]
        if self.totals is not None:
            tasks.append(asyncio.create_task(self._share_metrics(self.totals)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await self.batcher.stop()

    async def _warm_up(self) -> None:
        started = time.perf_counter()
        try:
            for model in self.models.values():
                await in_thread(model.warm_up)
        except Exception as error:  # whatever a model raised: `serve` stops and raises it
            self.failure = error
            self.on_failure()
            return
        if self.state == "starting":
            self.state = "ready"
        self.log.write("ready", seconds=round(time.perf_counter() - started, 3), models=list(self.models))

    async def _follow(self, model: Served) -> None:
        """Takes in the labels that other processes add. While that fails the model goes on with those it has."""
        fine = True
        while True:
            self.counters.database.set(float(fine))
            await asyncio.sleep(POLL)
            try:
                await in_thread(model.catch_up)
            except Exception as error:
                if fine and isinstance(error, NotStored):
                    self.log.write("database", level="error", model=model.name, message=str(error))
                elif fine:
                    self.log.failed(error, model=model.name)
                fine = False
            else:
                if not fine:
                    self.log.write("database", model=model.name, message="it answers again, and nothing is missing")
                fine = True

    def _die(self) -> None:
        """Nothing can be computed any more: the service ends with an error, so that it can be started again."""
        cause = self.batcher.dead
        assert cause is not None
        self.log.failed(cause)
        self.failure = ModelError(
            f"the thread that predicts ended ({type(cause).__name__}) and cannot be started again; start the service "
            "again, and give it more memory or threads if the log names them"
        )
        self.on_failure()

    @property
    def trouble(self) -> str | None:
        """Why predictions are not answered now; None where they are."""
        if self.state != "ready":
            return f"the service is {self.state}"
        since, broken = self.batcher.computing_since, self.batcher.broken
        if broken is not None:
            return (
                f"the model {broken[0][0]} fails on a text that it answered at the start ({type(broken[1]).__name__})"
            )
        if since is not None:
            seconds = asyncio.get_running_loop().time() - since
            if seconds > STUCK * self.settings.timeout:
                return f"a batch has been computed for {seconds:.0f} s"
        return None

    def _predict(self, key: _Key, texts: list[str]) -> list[Any]:
        name, k, dial, why, language = key
        model = self.models[name]
        return (model.explained if why else model.predict)(texts, k, dial, language)

    def _watch(self, key: _Key, texts: int, seconds: float) -> None:
        self.counters.texts.add(texts, model=key[0])
        self.counters.batches.observe(texts, model=key[0])
        self.counters.computing.observe(seconds, model=key[0])

    def model(self, name: str | None) -> Served:
        """Finds a model.

        Args:
            name: of the model; None means the first.

        Returns:
            The model.

        Raises:
            Refused: 404, there is no such model.
        """
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise Refused(404, f"there is no model of this name; the models are {', '.join(self.models)}", "model")
        return self.models[name]

    async def predict(self, asked: schema.PredictRequest, facts: dict[str, Any]) -> dict[str, Any]:
        """Answers `POST /predict`.

        Args:
            asked: the request.
            facts: of the request; has its deadline, and takes what is logged.

        Returns:
            JSON values of `schema.Answers`.

        Raises:
            Refused: wrong values, a full queue, or the deadline has passed.
        """
        model = self.model(asked.model)
        if (asked.text is None) == (asked.texts is None):
            raise Refused(422, "give text (one) or texts (a list), and not both", "values")
        texts = asked.texts if asked.text is None else [asked.text]
        assert texts is not None
        if asked.why and asked.text is None:
            raise Refused(422, "why explains one text; give text", "values")
        cutoff = model.now.model.cutoff
        given = asked.model_fields_set
        stored = cutoff is not None and "threshold" not in given
        k = asked.k if "k" in given or cutoff is None or not stored else cutoff.most or schema.ABOVE_THRESHOLD
        threshold = cutoff.threshold if cutoff is not None and stored else asked.threshold
        most = next(texts for places, texts in schema.TEXTS_BY_K if k <= places)
        if len(texts) > most:
            raise Refused(422, f"{len(texts)} texts are too many: k {k} takes at most {most}", "values")
        if asked.language is not None and model.now.model.language_field is None:
            raise Refused(409, f"{model.name} learned no languages from a column; leave language out", "language")
        try:
            dial = model.now.model.check_dial(asked.dial)
        except DataError as error:
            raise Refused(422, str(error), "values") from None
        facts.update(model=model.name, texts=len(texts), k=k)
        answers = await self._answers((model.name, k, dial, asked.why, asked.language or ""), texts, facts)
        if threshold > 0:
            answers = [
                {**one, "labels": [label for label in one["labels"] if label["score"] >= threshold]} for one in answers
            ]
        return {"model": model.name, "answers": answers}

    async def add(self, given: schema.NewLabels, facts: dict[str, Any]) -> dict[str, Any]:
        """Answers `POST /labels`.

        Args:
            given: the request.
            facts: of the request; takes what is logged.

        Returns:
            JSON values of `schema.LabelsAdded`.

        Raises:
            Refused: the model takes no labels or fails on one, an id is taken, or the disk cannot be written.
        """
        model = self.model(given.model)
        entries = [Entry(label.id or label.text, label.text) for label in given.labels]
        if self._adding >= MAX_ADDING:
            raise Refused(429, "other labels are being added; try again", "adding", {"Retry-After": "1"})
        facts.update(model=model.name, labels=len(entries))
        self._adding += 1
        try:
            # Without a time limit: a thread cannot be stopped, and it will write to the disk what it started.
            new, known = await in_thread(model.add, entries)
        except IdTaken as error:
            raise Refused(409, str(error), "taken") from None
        except DataError as error:
            raise Refused(422, str(error), "values") from None
        except WriteError as error:
            self.log.write("journal", level="error", model=model.name, message=str(error))
            raise Refused(503, "the labels could not be written; none was added, the log says why", "disk") from None
        except NotStored as error:
            self.log.write("database", level="error", model=model.name, message=str(error))
            raise Refused(
                503, "the database did not confirm the labels; send them again, which does no harm if it has them",
                "database", {"Retry-After": "1"},
            ) from None  # fmt: skip
        except Exception as error:  # a panic of the tokenizer, or whatever else the model raised on these texts
            raise self._broke(error, facts["id"], "none of the labels was added") from None
        finally:
            self._adding -= 1
        self.counters.added.add(len(new), model=model.name)
        return {"model": model.name, "added": new, "known": known, "labels": len(model.now.model.labels)}

    async def find(self, name: str | None, query: str, limit: int, offset: int) -> dict[str, Any]:
        """Answers `GET /labels`.

        Args:
            name: of the model; None means the first.
            query: words that the labels must have.
            limit: the most labels to return.
            offset: how many to skip.

        Returns:
            JSON values of `schema.LabelPage`.

        Raises:
            Refused: there is no such model.
        """
        model = self.model(name)
        version = model.now
        total, rows = await in_thread(version.finder.find, query, limit, offset)
        return {"model": model.name, "total": total, "labels": [version.label(row) for row in rows]}

    async def nearest(self, asked: schema.ExamplesRequest, facts: dict[str, Any]) -> dict[str, Any]:
        """Answers `POST /examples`.

        Args:
            asked: the request.
            facts: of the request; takes what is logged.

        Returns:
            JSON values of `schema.Examples`.

        Raises:
            Refused: the service has no training examples.
        """
        if self.examples is None:
            raise Refused(
                404, "the service has no training examples; start it with: longtail serve --examples DATA", "examples"
            )
        facts.update(labels=len(asked.labels))
        found = await in_thread(self.examples.nearest, asked.text, asked.labels, asked.limit)
        return {"examples": {label: [one._asdict() for one in near] for label, near in found.items()}}

    def facts(self) -> dict[str, Any]:
        """Answers `GET /models`: JSON values of `schema.Models`."""
        name = None if self.examples is None else self.examples.name
        return {"version": __version__, "models": [model.facts() for model in self.models.values()], "examples": name}

    def metrics(self) -> str:
        """Answers `GET /metrics`, in the text format of Prometheus; of all workers where there are several."""
        self._measure()
        return self.counters.text() if self.totals is None else self.totals.text()

    async def _share_metrics(self, totals: Totals) -> None:
        while True:
            self._measure()
            await in_thread(totals.write)
            await asyncio.sleep(EVERY)

    def _measure(self) -> None:
        self.counters.waiting.set(self.batcher.waiting)
        self.counters.under_way.set(self.under_way)
        self.counters.connections.set(len(self.connections))
        self.counters.ready.set(float(self.trouble is None))
        self.counters.memory.set(resident_bytes())
        for model in self.models.values():
            self.counters.labels.set(len(model.now.model.labels), model=model.name)

    def overloaded(self, address: str) -> None:
        """Refuses a prediction before its body is read.

        Args:
            address: of the client.

        Raises:
            Refused: 429, the queue has no place for this client.
        """
        if self.batcher.full(address):
            raise self._busy(self.batcher.retry_after)

    async def _answers(self, key: _Key, texts: list[str], facts: dict[str, Any]) -> list[Any]:
        try:
            asked: Asked = self.batcher.enter(key, texts, facts["deadline"], facts.get("address"))
            facts["on_disconnect"] = asked.leave  # the connection calls it
            return await self.batcher.answers(asked)
        except Busy as busy:
            raise self._busy(busy.retry_after) from None
        except TooLate:
            raise Refused(
                503, f"not done within {self.settings.timeout:g} s; try again, or send fewer texts", "late",
                {"Retry-After": str(self.batcher.retry_after)},
            ) from None  # fmt: skip
        except Stopped:
            raise Refused(503, "the service is stopping; try again", "stopping", {"Retry-After": "1"}) from None
        except Gone:
            raise Refused(CLOSED, "the client has gone", "gone") from None
        except ModelFailed as failed:
            if isinstance(failed.error, LongtailError) and not isinstance(failed.error, ModelError):
                raise Refused(422, str(failed.error), "values") from None
            raise self._broke(failed.error, facts["id"], "other requests are not affected") from None

    def _broke(self, error: BaseException, name: str, besides: str) -> Refused:
        cause = error.__cause__ if isinstance(error, WorkFailed) and error.__cause__ is not None else error
        self.log.failed(cause, id=name)
        return Refused(
            500,
            f"the model failed on this request ({type(cause).__name__}); the log of the service says where; {besides}",
            "failed",
        )

    def _busy(self, retry_after: int) -> Refused:
        return Refused(429, "the queue is full; try again later", "queue", {"Retry-After": str(retry_after)})
