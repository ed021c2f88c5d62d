# An image that serves run folders; see docs/serve.md.
FROM python:3.12-slim

WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# For a much smaller image without GPU libraries, pass the index of the CPU builds of torch.
ARG TORCH_INDEX=
RUN pip install --no-cache-dir --constraint constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch \
 && pip install --no-cache-dir --constraint constraints.txt '.[serve]' \
 && useradd --system --no-create-home tempograph

USER tempograph
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health')"]
ENTRYPOINT ["tempograph", "serve", "--host", "0.0.0.0", "--port", "8000"]
