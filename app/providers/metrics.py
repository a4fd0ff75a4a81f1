"""Metrics of an application for Prometheus. They name no tenant, user, key or id."""

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.domain.reflection.model_usage import Usage

LabelledValue: TypeAlias = tuple[tuple[str, ...], float]
CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
UNMATCHED = "unmatched"


class Metrics:
    """The metrics of one application, so that several can live in one process.

    `registry` has what this process counts. `shared_registry` has what is the same in all processes of an installation.
    """

    def __init__(self, version: str, worker: int | None = None) -> None:
        """`worker`: the number that the metrics of this process have as their label, if several serve one address."""
        self.registry = CollectorRegistry()
        self.shared_registry = CollectorRegistry()
        self._worker = worker
        build = Info("mnema_build", "Version of Mnema and of Python.", registry=self.registry)
        build.info({"version": version, "python": platform.python_version()})
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._requests = Counter(
            "mnema_http_requests", "Requests answered.", ("route", "method", "status"), registry=self.registry
        )
        self._durations = Histogram(
            "mnema_http_request_duration_seconds",
            "Seconds from the first byte read to the last byte sent.",
            ("route", "method"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._texts = Counter("mnema_embedder_texts", "Texts to embed.", ("of",), registry=self.registry)
        self._failures = Counter("mnema_embedder_failures", "Failed embedding calls.", ("of",), registry=self.registry)
        self._embedding = Histogram(
            "mnema_embedder_duration_seconds", "Seconds of a call.", ("of",), buckets=SECONDS, registry=self.registry
        )
        self._rerank_failures = Counter("mnema_reranker_failures", "Failed reranker calls.", registry=self.registry)
        self._reranking = Histogram(
            "mnema_reranker_duration_seconds", "Seconds of a call.", buckets=SECONDS, registry=self.registry
        )
        self._asking = Histogram(
            "mnema_llm_duration_seconds", "Seconds of a call.", ("prompt",), buckets=SECONDS, registry=self.registry
        )
        self._ask_failures = Counter("mnema_llm_failures", "Failed calls.", ("prompt",), registry=self.registry)
        self._llm_tokens = Counter("mnema_llm_tokens", "Tokens used.", ("prompt", "of"), registry=self.registry)
        # to look a child up by its labels costs more than to count
        self._of_request: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._of_model = {of: (self._texts.labels(of), self._embedding.labels(of)) for of in ("texts", "query")}

    def record_request(self, route: str | None, method: str, status: int, seconds: float) -> None:
        """Count a response. `route` is the path template, None if no route matched."""
        place = (route or UNMATCHED, method if method in METHODS else "other", status)
        children = self._of_request.get(place)
        if children is None:
            labelled = (self._requests.labels(*map(str, place)), self._durations.labels(*place[:2]))
            children = self._of_request.setdefault(place, labelled)
        children[0].inc()
        children[1].observe(seconds)

    def record_embedding_call(self, of: Literal["texts", "query"], count: int, seconds: float, *, failed: bool) -> None:
        """Record a call of the embedding model for `count` texts."""
        texts, durations = self._of_model[of]
        texts.inc(count)
        durations.observe(seconds)
        if failed:
            self._failures.labels(of).inc()

    def record_rerank_call(self, seconds: float, *, failed: bool) -> None:
        """Record a call of the reranker."""
        self._reranking.observe(seconds)
        if failed:
            self._rerank_failures.inc()

    def record_model_call(self, prompt: str, seconds: float, usage: Usage | None) -> None:
        """Record a call of the chat model by its prompt's version. A `usage` of None means that it failed."""
        self._asking.labels(prompt).observe(seconds)
        if usage is None:
            self._ask_failures.labels(prompt).inc()
        else:
            self._llm_tokens.labels(prompt, "input").inc(usage.input_tokens)
            self._llm_tokens.labels(prompt, "output").inc(usage.output_tokens)

    def register_collector(
        self,
        kind: Literal["counter", "gauge"],
        name: str,
        what: str,
        read: Callable[[], Iterable[LabelledValue]],
        labels: Sequence[str] = (),
        *,
        shared: bool = False,
    ) -> None:
        """Call `read` for values, each with its labels, whenever the metrics are read. `what` is the help text.

        `shared`: the values are the same in all processes.
        """
        registry = self.shared_registry if shared else self.registry
        registry.register(_CallbackCollector(kind, name, what, labels, read))

    def render_text(self) -> bytes:
        """Return the metrics of this process in Prometheus' text format (CONTENT_TYPE)."""
        labelled = self.registry if self._worker is None else _LabelledCollector(self.registry, str(self._worker))
        return generate_latest(labelled)

    def render_shared(self) -> bytes:
        """Return the metrics that all processes share, in the same format."""
        return generate_latest(self.shared_registry)


class _LabelledCollector(Collector):
    """The metrics of a registry with the number of the worker as one more label."""

    def __init__(self, registry: CollectorRegistry, worker: str) -> None:
        self._registry = registry
        self._label = {"worker": worker}

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with the label."""
        for metric in self._registry.collect():
            metric.samples = [sample._replace(labels=sample.labels | self._label) for sample in metric.samples]
            yield metric


class _CallbackCollector:
    """A collector for prometheus_client that calls a function for its values."""

    def __init__(
        self, kind: str, name: str, what: str, labels: Sequence[str], read: Callable[[], Iterable[LabelledValue]]
    ) -> None:
        self._family = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
        self._about = (name, what)
        self._labels = labels
        self._read = read

    def describe(self) -> Iterator[Metric]:
        """Yield the metric without values, so that the registry refuses a second one of the same name."""
        yield self._family(*self._about, labels=self._labels)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric with its current values."""
        family = self._family(*self._about, labels=self._labels)
        for labels, value in self._read():
            family.add_metric(labels, value)
        yield family
