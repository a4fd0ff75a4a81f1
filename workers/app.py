"""The Celery application: `celery -A workers.app worker` and `celery -A workers.app beat`."""

from app.bootstrap import celery_app
from app.config.logs import configure_logs
from app.config.settings import Settings

configure_logs()
settings = Settings()
if not settings.redis_url.get_secret_value():
    raise SystemExit("set MNEMA_REDIS_URL to the broker's URL")
app = celery_app(settings)
app.conf.update(imports=("workers.tasks",))
