# An image with all commands (docs/install.md): docker build -t gtransformer .
# .ci/check_docker.sh tries what is written here without Docker's engine.
#
# fairseq-fixed comes compiled for Python 3.12 on x86-64, so that the slim image, which has no compiler, is enough; on
# other processors begin with python:3.12.
FROM python:3.12-slim

# PyTorch: of PyPI, for GPUs and CPUs. TORCH_INDEX: another index, for example one of builds for the CPU alone.
ARG TORCH="torch==2.13.0"
ARG TORCH_INDEX=""

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1

WORKDIR /opt/gtransformer
COPY requirements requirements
RUN pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$TORCH"
RUN pip install -r requirements/build.txt
RUN pip install --no-build-isolation -r requirements/runtime.txt -r requirements/train.txt "$TORCH" && pip uninstall --yes torchaudio

COPY setup.py pyproject.toml MANIFEST.in LICENSE README.md ./
COPY configs configs
COPY gtransformer gtransformer
RUN pip install --no-build-isolation --no-deps .
# Of the installed package: the sources are not where Python looks now.
WORKDIR /data
RUN gtransformer info && fairseq-train --help >/dev/null

CMD ["gtransformer", "info"]
