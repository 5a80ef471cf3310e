# Two images: `service` for the API, the worker and the reaper (docker-compose.yml says which it runs as),
# and `validator`, which brings ns-3 and a compiler besides, for packet-level replays.
# Debian slim, not Alpine: the solvers', Valkey's and ns-3's wheels need glibc.
FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY monkeytree ./monkeytree
COPY service ./service
COPY workers ./workers
COPY validation ./validation
COPY cli ./cli
COPY examples ./examples
RUN python -m venv /opt/monkeytree \
    && /opt/monkeytree/bin/pip install --no-cache-dir -c constraints.txt ".[postgresql]"

FROM build AS build-validator
RUN apt-get update && apt-get install -y --no-install-recommends g++
RUN /opt/monkeytree/bin/pip install --no-cache-dir -c constraints.txt ".[postgresql,validation]"

FROM python:3.12-slim-bookworm AS base
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin monkeytree \
    && install -d -o monkeytree -g monkeytree -m 0700 /data
ENV PATH=/opt/monkeytree/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MONKEYTREE_DATA=/data
WORKDIR /data
VOLUME /data

FROM base AS validator
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY --from=build-validator /opt/monkeytree /opt/monkeytree
USER 10001:10001
CMD ["celery", "-A", "monkeytree.workers.main", "worker", "-Q", "validate", "--pool", "prefork", \
     "--concurrency", "1", "--without-gossip", "--without-mingle"]

FROM base AS service
COPY --from=build /opt/monkeytree /opt/monkeytree
USER 10001:10001
EXPOSE 8080
CMD ["gunicorn", "monkeytree.service.main:create_app()", "--bind", "0.0.0.0:8080", \
     "--worker-class", "monkeytree.service.server.Worker", "--threads", "64", "--no-control-socket", \
     "--worker-tmp-dir", "/dev/shm", "--log-level", "warning"]
