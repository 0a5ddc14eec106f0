# Two images, both for an unprivileged user, with the project mounted at /project:
#   docker build --tag embercoach .                                 linter and language server
#   docker build --tag embercoach:simulator --target simulator .    also MLX and the simulator's compiler
# docs/integrations.md has the commands that run them.
ARG PYTHON=python:3.13-slim-bookworm

FROM ${PYTHON} AS source
WORKDIR /source
COPY . .
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/embercoach && /opt/embercoach/bin/python -m pip install ".[server]"

FROM source AS source-simulator
RUN /opt/embercoach/bin/python -m pip install ".[simulator]"

FROM ${PYTHON} AS runtime
RUN useradd --create-home --uid 1000 embercoach
ENV PATH=/opt/embercoach/bin:$PATH PYTHONDONTWRITEBYTECODE=1
WORKDIR /project
USER 1000
ENTRYPOINT ["embercoach"]

FROM runtime AS simulator
COPY --from=source-simulator /opt/embercoach /opt/embercoach

FROM runtime AS linter
COPY --from=source /opt/embercoach /opt/embercoach
