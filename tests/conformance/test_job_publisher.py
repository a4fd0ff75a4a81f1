"""The publisher of jobs: it sends messages from a thread of its own, which loads the broker's client."""

from uuid import uuid4

from app.providers.broker import BrokerSettings, JobPublisher
from tests.background import until
from tests.redis_server import RedisServer


def settings_of(url: str, queue: str) -> BrokerSettings:
    return BrokerSettings(url=url, queue=queue, job_soft_limit_s=60, sweep_s=10, schedule_s=60)


async def test_each_published_job_becomes_a_message(redis: RedisServer) -> None:
    queue = f"jobs-{uuid4()}"
    publisher = JobPublisher(settings_of(redis.url, queue))
    for _ in range(3):
        publisher.publish_job(uuid4(), uuid4())

    async def are_sent() -> bool:
        with redis.client() as client:
            return client.llen(queue) == 3

    await until(are_sent, "three messages")
    publisher.close()


def test_without_a_broker_nothing_waits() -> None:
    publisher = JobPublisher(settings_of("", "jobs"))
    publisher.publish_job(uuid4(), uuid4())
    publisher.close()
