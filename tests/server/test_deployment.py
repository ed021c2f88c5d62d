"""The docs of the service are true: routes, metrics, the client, and files to deploy it with."""

from __future__ import annotations

import re
import shlex
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.main import get_command

import tempograph
from live_service import live_service
from tempograph import Predictor
from tempograph.cli import app as commands
from tempograph.data.synthetic.world import make_world

pytest_plugins = ("serving_fixtures",)
ROOT = Path(__file__).parents[2]
SERVE, DEPLOY = ((ROOT / "docs" / name).read_text() for name in ("serve.md", "deploy.md"))


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", DEPLOY, re.DOTALL)


def serve_arguments(*arguments: str) -> dict[str, Any]:
    """The parameters of `tempograph serve` with these arguments."""
    command = get_command(commands).commands["serve"]  # type: ignore[attr-defined]
    parameters: dict[str, Any] = command.make_context("serve", list(arguments)).params
    return parameters


def entrypoint() -> list[str]:
    (line,) = re.findall(r"^ENTRYPOINT (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    program, command, *options = re.findall(r'"([^"]*)"', line)
    assert (program, command) == ("tempograph", "serve")
    return options


def test_every_route_and_metric_is_in_the_docs(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    documented = set(re.findall(r"`(?:GET|POST) (/[^`?]*)", SERVE))
    assert documented - {"/docs", "/openapi.json"} == set(paths)
    metrics = re.findall(r"^# TYPE (\w+) ", client.get("/metrics").text, re.MULTILINE)
    ours = {name for name in metrics if name.startswith("tempograph_")}
    assert set(re.findall(r"`(tempograph_\w+)`", DEPLOY)) == ours


def test_every_option_in_the_docs_exists() -> None:
    known = {word for each in get_command(commands).commands["serve"].params for word in each.opts}  # type: ignore[attr-defined]
    lines = [line.strip() for line in f"{SERVE}\n{DEPLOY}".splitlines()]
    calls = [shlex.split(line)[2:] for line in lines if line.startswith("tempograph serve ")]
    assert len(calls) >= 6
    for arguments in calls:
        serve_arguments(*arguments)
    named = set(re.findall(r"`(--[a-z-]+)", DEPLOY)) - {"--build-arg", "--gpus"}
    assert named and named <= known


def test_the_container_takes_the_arguments_of_its_files() -> None:
    yaml = pytest.importorskip("yaml")
    compose, kubernetes = blocks("yaml")
    service = yaml.safe_load(compose)["services"]["tempograph"]
    deployment, _ = yaml.safe_load_all(kubernetes)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    for arguments in (service["command"], container["args"]):
        parameters = serve_arguments(*entrypoint(), *arguments)
        assert parameters["runs"] == ["mine=/runs/mine"] and parameters["host"] == "0.0.0.0"
    assert parameters["port"] == container["ports"][0]["containerPort"] == 8000
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    user = container["securityContext"]["runAsUser"]
    assert f"--uid {user} " in (ROOT / "Dockerfile").read_text()


def test_probes_ask_paths_that_need_no_token(client: TestClient) -> None:
    probes = set(re.findall(r"path: (/\S+),", DEPLOY))
    probes |= set(re.findall(r"8000(/\w+/\w+)'", (ROOT / "Dockerfile").read_text()))
    assert probes == {"/health/live", "/health/ready"}
    paths = client.get("/openapi.json").json()["paths"]
    assert all(paths[probe]["get"]["security"] == [] for probe in probes)


def test_the_unit_starts_the_service() -> None:
    (unit,) = blocks("ini")
    parser = RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit)
    _, command, *arguments = shlex.split(parser["Service"]["ExecStart"])
    assert command == "serve"
    assert serve_arguments(*arguments)["token_file"] == Path("%d/token")
    assert parser["Service"]["ExecReload"].endswith("kill -HUP $MAINPID")


@pytest.mark.usefixtures("short_fits")
def test_the_client_in_the_docs_works() -> None:
    start = SERVE.index("    from tempograph import Client")
    program = SERVE[start : SERVE.index("`AsyncClient`", start)].replace("\n    ", "\n").strip()
    run = tempograph.train(make_world(facts=1500).graph, "ted", device="cpu")
    # Fitted before, because a busy machine may need longer for it than a request may take.
    run.questions.heads()
    with live_service({"ted": Predictor(run)}) as url:
        names: dict[str, Any] = {}
        exec(program.replace("http://localhost:8000", url), names)
    assert [len(names[name].answers) for name in ("answers", "when")] == [3, 10]
    assert min(answer.name for answer in names["when"].answers) >= "2030-02-01"
    assert len(names["table"]) == 3 and len(names["missing"]) == 20
