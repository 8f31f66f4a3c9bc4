"""List what the package depends on, from the metadata of the installed distributions.

    python .ci/dependencies.py licenses    write docs/licenses.md
    python .ci/dependencies.py sbom        write dist/sbom.cdx.json: a bill of materials, CycloneDX 1.6

The page lists the extras as well, as far as they are installed; the bill of materials what every installation has.
"""

import json
import re
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGE = "seq2seq_attn"
EXTRAS = ("tensorboard", "torchtext", "align", "export", "neighbors")

# Distributions whose metadata give no license, or its full text, with the place that states it.
STATED = {"sentencepiece": "Apache-2.0"}  # the LICENSE of its repository

HEAD = """\
# Licenses

The package is MIT, its embedded corpus CC0 (`data/LICENSE`), and its font is under the SIL Open Font License
(`seq2seq_attn/report/fonts/OFL.txt`). The page of `serve` and that of a report contain Lit (BSD-3-Clause) and modules
of D3 (ISC); the notices are in `seq2seq_attn/serve/page/licenses.md` and at the end of a report. The page of
`export --to html` and `report --live` also contains onnxruntime-web (MIT,
`seq2seq_attn/export/page/onnxruntime.LICENSE`), and all of these notices. The tables list what is installed with the
package, and the licenses that the distributions state in their metadata (for sentencepiece: in its repository).
`make licenses` writes this page, here for Python {python} on Linux and the releases of `constraints.txt`.
`make sbom` writes `dist/sbom.cdx.json`, a bill of materials (CycloneDX 1.6) of every installation.

eflomal is under the GPL. It is an extra: no part of the package imports or contains it, and `align --aligner eflomal`
runs its program `eflomal-align`.

The build of torch that PyPI has for Linux on x86-64 also installs NVIDIA's CUDA libraries, which are proprietary
([CUDA EULA](https://docs.nvidia.com/cuda/eula/)), and Triton (MIT). The CPU build of torch has neither.
"""


class Needed(NamedTuple):
    """A distribution that is needed, and the names of those that it needs itself."""

    installed: Distribution | None  # None: not installed here
    needs: set[str]


def closure(requirements: Iterable[str]) -> dict[str, Needed]:
    """The distributions that these requirements install on this machine, by canonical name."""
    found: dict[str, Needed] = {}
    waiting = [Requirement(each) for each in requirements]
    done: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in found:
            found[name] = Needed(_installed(name), set())
        for extra in {"", *requirement.extras}:
            if (name, extra) not in done:
                done.add((name, extra))
                further = _required(found[name].installed, extra)
                found[name].needs.update(canonicalize_name(each.name) for each in further)
                waiting += further
    return dict(sorted(found.items()))


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _required(installed: Distribution | None, extra: str) -> list[Requirement]:
    """What a distribution requires on this machine, with an extra or (an empty text) without."""
    environment = default_environment() | {"extra": extra}
    requirements = [Requirement(each) for each in (installed.requires if installed else None) or ()]
    return [each for each in requirements if each.marker is None or each.marker.evaluate(environment)]


def own_requirements(extra: str = "") -> list[str]:
    """Those of setup.cfg, because the metadata of an editable installation may be older."""
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    key = extra or "install_requires"
    lines = re.search(rf"^{key} =\n((?:    .+\n)+)", text, flags=re.MULTILINE)
    assert lines is not None, key
    return lines[1].split("\n")[:-1]


def license(installed: Distribution) -> str:
    """The license as its metadata state it: an SPDX expression, else a short text, else its classifiers."""
    metadata = installed.metadata
    if expression := metadata.get("License-Expression"):
        return expression
    text = (metadata.get("License") or "").strip()
    if text and "\n" not in text and len(text) < 60:
        return text
    classified = [each for each in metadata.get_all("Classifier") or () if each.startswith("License ::")]
    names = [each.rpartition(" :: ")[2] for each in classified]
    return " AND ".join(names) or STATED.get(canonicalize_name(installed.name), "not stated")


def rows(names: dict[str, Needed], direct: set[str]) -> list[str]:
    lines = ["| package | release | license | named in setup.cfg |", "| --- | --- | --- | --- |"]
    for name, (installed, _) in names.items():
        if installed is not None:
            named = "yes" if name in direct else "no"
            lines.append(f"| {name} | {public(installed.version)} | {license(installed)} | {named} |")
    return lines


def public(version: str) -> str:
    """Without the label of a build, such as `+cpu`."""
    return version.partition("+")[0]


def canonical(requirements: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


def licenses() -> str:
    """The page."""
    required = own_requirements()
    every = closure(required)
    parts = [HEAD.format(python=f"{sys.version_info.major}.{sys.version_info.minor}"), "## Every installation\n"]
    parts += [*rows(every, canonical(required)), ""]
    for extra in EXTRAS:
        wanted = own_requirements(extra)
        more = {name: each for name, each in closure(wanted).items() if name not in every}
        parts += [f"## The extra `[{extra}]`\n", *rows(more, canonical(wanted)), ""]
    return "\n".join(parts)


def sbom() -> dict:
    """A CycloneDX document: the package, what it needs, and which needs which."""
    from seq2seq_attn import __version__

    every = closure(own_requirements())
    purls = {name: purl(name, each.installed.version) for name, each in every.items() if each.installed is not None}
    own = {"type": "library", "bom-ref": purl(PACKAGE, __version__), "name": PACKAGE, "version": __version__}
    own |= {"purl": own["bom-ref"], "licenses": [{"license": {"id": "MIT"}}]}
    needs = {own["bom-ref"]: canonical(own_requirements())} | {purls[name]: every[name].needs for name in purls}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": [component(name, every[name].installed, each) for name, each in purls.items()],
        "dependencies": [
            {"ref": reference, "dependsOn": sorted(purls[name] for name in names & purls.keys())}
            for reference, names in needs.items()
        ],
    }


def component(name: str, installed: Distribution, reference: str) -> dict:
    stated = license(installed)
    is_expression = installed.metadata.get("License-Expression") is not None
    licenses = [{"expression": stated} if is_expression else {"license": {"name": stated}}]
    about = {"type": "library", "bom-ref": reference, "name": name, "version": installed.version}
    return about | {"purl": reference, "licenses": licenses}


def purl(name: str, version: str) -> str:
    return f"pkg:pypi/{canonicalize_name(name)}@{version.replace('+', '%2B')}"


def main(task: str) -> None:
    texts = {
        "licenses": (ROOT / "docs" / "licenses.md", licenses),
        "sbom": (ROOT / "dist" / "sbom.cdx.json", lambda: json.dumps(sbom(), indent=2) + "\n"),
    }
    if task not in texts:
        sys.exit(f"usage: python .ci/dependencies.py {'|'.join(texts)}")
    path, text = texts[task]
    path.parent.mkdir(exist_ok=True)
    path.write_text(text(), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main("".join(sys.argv[1:]))
