"""Look the pinned releases of constraints.txt up among the known vulnerabilities, with pip-audit.

    python .ci/audit.py [OPTION OF PIP-AUDIT ...]

Exit code 1 means that a pinned release has a known vulnerability: raise its pin, or pass `--ignore-vuln ID`. Without a
network, behind a mirror that has no vulnerability data, or after a minute, nothing can be said: one line says so, and
the exit code is 0. pip-audit alone would report "no known vulnerabilities" behind such a mirror, so a release that is
known to be vulnerable is looked up first.
"""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
SECONDS = 60

# Each service of pip-audit: where it finds Jinja2 2.11.2 (CVE-2020-28493), and what is sent there.
QUERY = {"package": {"name": "jinja2", "ecosystem": "PyPI"}, "version": "2.11.2"}
SERVICES = {
    "pypi": ("https://pypi.org/pypi/jinja2/2.11.2/json", None),
    "osv": ("https://api.osv.dev/v1/query", json.dumps(QUERY).encode()),
}


class SkippedError(Exception):
    """Nothing can be said, for this reason."""


def find_service() -> str:
    """The first service that can be reached and knows the vulnerable release."""
    reasons = {name: why_not(*known) for name, known in SERVICES.items()}
    usable = [name for name, reason in reasons.items() if reason is None]
    if not usable:
        raise SkippedError("; ".join(f"{name}: {reason}" for name, reason in reasons.items()))
    return usable[0]


def why_not(address: str, query: bytes | None) -> str | None:
    """Why a service cannot be used; None if it can."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data=query), timeout=5) as answer:
            known = json.load(answer)
    except (OSError, ValueError) as error:
        return str(error)
    return None if known.get("vulnerabilities") or known.get("vulns") else "has no vulnerability data"


def audit(service: str, options: list[str], folder: Path) -> dict[str, list[dict]]:
    """The answer of pip-audit for each pinned release, run in an environment of its own."""
    end = time.monotonic() + SECONDS
    venv.create(folder / "venv", with_pip=True)
    python, answer = folder / "venv" / "bin" / "python", folder / "answer.json"
    install = ["-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS, "pip-audit"]
    look_up = ["-m", "pip_audit", "--requirement", CONSTRAINTS, "--no-deps", "--disable-pip", "--timeout", "5"]
    look_up += ["--vulnerability-service", service, "--progress-spinner", "off", "--format", "json"]
    try:
        for arguments in install, [*look_up, "--output", answer, *options]:
            left = max(1.0, end - time.monotonic())
            done = subprocess.run([python, *arguments], capture_output=True, text=True, timeout=left)
        return json.loads(answer.read_text(encoding="utf-8"))["dependencies"]
    except subprocess.TimeoutExpired:
        raise SkippedError(f"not done within {SECONDS} s") from None
    except FileNotFoundError:  # no answer
        raise SkippedError((done.stderr.strip() or "no answer").splitlines()[-1]) from None


def report(dependencies: list[dict]) -> int:
    """Print what was found, and return the exit code."""
    found = [each for each in dependencies if "skip_reason" not in each]
    if not found:
        raise SkippedError("the service knows none of the pinned releases")
    vulnerable = [(each, vulnerability) for each in found for vulnerability in each["vulns"]]
    for each, vulnerability in vulnerable:
        fixed = ", ".join(vulnerability["fix_versions"]) or "none yet"
        print(f"{each['name']} {each['version']}: {vulnerability['id']}; fixed in: {fixed}")
    unknown = f", {len(dependencies) - len(found)} unknown to the service" if len(found) < len(dependencies) else ""
    print(f"audit: {len(found)} releases looked up{unknown}, {len(vulnerable)} known vulnerabilities")
    return 1 if vulnerable else 0


def main(options: list[str]) -> int:
    try:
        service = find_service()
        with tempfile.TemporaryDirectory() as folder:
            return report(audit(service, options, Path(folder)))
    except SkippedError as reason:
        print(f"audit skipped, so known vulnerabilities were not looked up: {reason}")
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
