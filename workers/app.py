"""The Celery application: `celery -A workers.app worker` and `celery -A workers.app beat`."""

from app.bootstrap import celery_app
from app.config.logs import configure_logs
from app.config.settings import Settings

configure_logs()
app = celery_app(Settings())
app.conf.update(imports=("workers.tasks",))
