# A CPU image by default. For GPUs: `docker build --build-arg EXTRAS=gpu .`, then `docker run --gpus all ...`:
# the driver comes from the host (NVIDIA's container toolkit), everything else from Python packages.

FROM node:24-slim AS browser
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund
COPY static static
RUN node static/build.mjs

FROM python:3.12-slim AS python
ARG EXTRAS=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/explorer
WORKDIR /app
COPY pyproject.toml constraints.txt README.md ./
COPY explorer explorer
RUN /opt/explorer/bin/pip install --constraint constraints.txt --editable ".${EXTRAS:+[$EXTRAS]}"
# The user of the image cannot write bytecode beside the sources, and every run's process imports them.
# hadolint ignore=DL3059
RUN /opt/explorer/bin/python -m compileall -q --invalidation-mode unchecked-hash explorer

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 explorer
COPY --from=python /opt/explorer /opt/explorer
WORKDIR /app
COPY --from=python /app ./
COPY examples examples
COPY --from=browser /app/static static
ENV PATH="/opt/explorer/bin:$PATH" \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/home/explorer/numba \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
# By number, which an orchestrator can tell from root's without the image's list of users.
USER 10001
# The simulator's machine code, so that nobody's first run waits for it; a processor of another kind makes its own.
RUN python -c 'from explorer.runtime.workers.worker import warm_run; warm_run()' && mkdir -m 700 /home/explorer/store
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["explorer", "serve", "--host", "0.0.0.0", "--port", "8000"]
