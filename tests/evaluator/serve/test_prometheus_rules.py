"""The rules for Prometheus and Alertmanager on the page on production: read, about metrics that there are."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import promql_parser
import pytest
import yaml
from paths import ROOT

from spangrade.evaluator.apps.server.grade.failures import Failed
from spangrade.evaluator.apps.server.grade.prometheus import TotalsCollector
from spangrade.evaluator.apps.server.grade.totals import SESSIONS, Total

PAGE = (ROOT / "docs" / "production.md").read_text()
RULES, ROUTES = (
    one
    for one in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    if one.startswith(("groups:", "route:"))
)
METRIC = re.compile(r"\bspangrade_\w+")


def test_the_rules_are_read_and_name_metrics_and_labels_that_a_server_has() -> None:
    expressions = [one["expr"] for group in yaml.safe_load(RULES)["groups"] for one in group["rules"]]
    read = [str(promql_parser.parse(one)) for one in expressions]
    with pytest.raises(ValueError, match="unclosed"):
        promql_parser.parse(expressions[0].removesuffix(">= 30") + "(")
    totals = {(SESSIONS, "{}"): Total(0, 1)}
    given = TotalsCollector(lambda: totals, lambda: {Failed("shop", "desk-api", "x"): 1})
    samples = [sample for family in given.collect() for sample in family.samples]
    gauges = METRIC.findall((ROOT / "evaluator/apps/server/serve.py").read_text())
    named = {name for one in read for name in METRIC.findall(one)}
    assert len(named) == 4
    assert named <= {sample.name for sample in samples} | {*gauges}
    labels = {
        name for one in read for group in re.findall(r"by \((.*?)\)", one) for name in group.split(", ")
    }
    assert labels == {"service", "cause"}
    assert all("service" in sample.labels for sample in samples)


@pytest.mark.parametrize(
    ("command", "text"), [(("promtool", "check", "rules"), RULES), (("amtool", "check-config"), ROUTES)]
)
def test_prometheus_and_alertmanager_accept_what_is_on_the_page(
    command: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}, of Debian's packages prometheus and prometheus-alertmanager")
    file = tmp_path / "checked.yml"
    file.write_text(text)
    done = subprocess.run([*command, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    file.write_text(text.replace("receiver: people", "receiver: nobody").replace(">= 30", ">= 30 ("))
    assert subprocess.run([*command, file], capture_output=True, check=False).returncode != 0
