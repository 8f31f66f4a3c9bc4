# A server for trained runs, from the package alone:
#
#   docker build -t seq2seq-attn .
#   docker run -p 5000:5000 -v "$PWD/runs:/runs:ro" -v "$PWD/keys.txt:/keys.txt:ro" seq2seq-attn /runs/mine
#
# It listens on all addresses of the container, so it asks for a key; for a closed network give another command:
#   docker run -p 127.0.0.1:5000:5000 -v "$PWD/runs:/runs:ro" --entrypoint seq2seq-attn seq2seq-attn \
#       serve --host 0.0.0.0 --insecure /runs/mine
#
# Training on an NVIDIA GPU, with torch's libraries for CUDA:
#   docker build --target train --build-arg TORCH=https://download.pytorch.org/whl/cu126 -t seq2seq-attn:train .
#   docker run --gpus all --user "$(id -u):$(id -g)" -v "$PWD:/tmp" seq2seq-attn:train train mine.yaml --output runs/mine
FROM python:3.12-slim AS build
ARG TORCH=https://download.pytorch.org/whl/cpu
COPY . /source
RUN python -m venv /opt/seq2seq_attn \
    && /opt/seq2seq_attn/bin/pip install --no-cache-dir --extra-index-url "$TORCH" \
        --constraint /source/constraints.txt "/source[neighbors]"

FROM python:3.12-slim AS installed
# The kernels are compiled for the processor that they run on, when the server starts.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/seq2seq_attn /opt/seq2seq_attn
ENV PATH=/opt/seq2seq_attn/bin:$PATH XDG_CACHE_HOME=/tmp/cache
USER 65534:65534
WORKDIR /tmp

FROM installed AS train
ENTRYPOINT ["seq2seq-attn"]

FROM installed
EXPOSE 5000
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5000/health', timeout=5)"]
ENTRYPOINT ["seq2seq-attn", "serve", "--host", "0.0.0.0", "--api-key-file", "/keys.txt"]
