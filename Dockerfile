# One image for the API, the worker and the reaper; docker-compose.yml says which it runs as.
# Debian slim, not Alpine: the solvers' and Valkey's wheels need glibc.
FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY monkeytree ./monkeytree
COPY service ./service
COPY workers ./workers
COPY cli ./cli
COPY examples ./examples
RUN python -m venv /opt/monkeytree \
    && /opt/monkeytree/bin/pip install --no-cache-dir -c constraints.txt ".[postgresql]"

FROM python:3.12-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin monkeytree \
    && install -d -o monkeytree -g monkeytree -m 0700 /data
COPY --from=build /opt/monkeytree /opt/monkeytree
ENV PATH=/opt/monkeytree/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MONKEYTREE_DATA=/data
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
CMD ["gunicorn", "monkeytree.service.main:create_app()", "--bind", "0.0.0.0:8080", \
     "--worker-class", "monkeytree.service.server.Worker", "--threads", "64", "--no-control-socket", \
     "--worker-tmp-dir", "/dev/shm", "--log-level", "warning"]
