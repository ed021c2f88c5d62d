# An image that serves run folders; see docs/deploy.md.
FROM python:3.12-slim

WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# The CPU builds of torch, for a much smaller image. For a GPU, pass an empty TORCH_INDEX.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# That index has few other packages, so the next command installs what torch needs.
RUN pip install --no-cache-dir --no-deps --constraint constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch \
 && pip install --no-cache-dir --constraint constraints.txt '.[serve]' \
 && useradd --system --no-create-home --uid 10001 tempograph

USER tempograph
EXPOSE 8000
HEALTHCHECK --start-period=5m CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health/ready')"]
ENTRYPOINT ["tempograph", "serve", "--host", "0.0.0.0", "--port", "8000", "--log-format", "json"]
