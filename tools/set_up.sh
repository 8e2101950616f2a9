#!/usr/bin/env bash
# Create or refresh the Python environment that `make` works in: tools/set_up.sh FOLDER
# Does nothing when the folder already holds what pyproject.toml and constraints.txt ask for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=$1
python=$venv/bin/python
stamp=$venv/.normkit-set-up
names="python3.11 python3.12 python3.13 python3.14 python3 python"

# The place counts too: an environment shared by two checkouts imports only one of them.
key="$(pwd) $(cat pyproject.toml constraints.txt "$0" | cksum)"
if [[ -f $stamp && $(<"$stamp") == "$key" ]] && "$python" -c "" 2>/dev/null; then
  exit 0
fi

stop() {
  echo "$1" >&2
  exit 2
}

is_new_enough() { # a Python that runs and is 3.11 or newer
  "$1" -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null
}

create() {
  local name found=""
  for name in $names; do
    if is_new_enough "$name"; then
      found=${found:-$name}
      if "$name" -c "import ensurepip, venv" 2>/dev/null; then
        echo "Creating $venv with $("$name" --version)."
        "$name" -m venv "$venv"
        return
      fi
    fi
  done
  if [[ -n $found ]]; then
    stop "$found cannot create environments: install its venv module (Debian: apt-get install python3-venv), then run make again."
  fi
  stop "normkit needs Python 3.11 or newer, and none of these is one: $names. Install it, then run make again."
}

torch_version() { # nothing where torch is missing or too old for normkit
  "$python" - <<'PYTHON'
from importlib.metadata import PackageNotFoundError, version

try:
    found = version("torch")
except PackageNotFoundError:
    found = ""
if found and tuple(int(part) for part in found.split(".")[:2]) >= (2, 10):
    print(found)
PYTHON
}

say_size() {
  local pin size
  pin=$(grep '^torch==' constraints.txt)
  case "$(uname -s) $(uname -m)" in
    "Linux x86_64") size="0.2 GB as a build for CPUs, about 3 GB as the CUDA build that pip may choose" ;;
    *) size="0.1 to 0.2 GB" ;;
  esac
  echo "$venv has no torch yet: pip now downloads $pin ($size) and about 0.2 GB of other packages."
  echo "To use a torch that you have, name the environment it is in: make VENV=/path/to/environment VERB."
}

if [[ -e $python ]] || [[ -L $python ]]; then
  is_new_enough "$python" ||
    stop "$python does not run, or is older than Python 3.11. Remove $venv or name another: make VENV=/path/to/environment VERB."
else
  create
fi

constraints=constraints.txt
torch=$(torch_version)
if [[ -n $torch ]]; then
  echo "Installing normkit and its development packages into $venv; torch $torch, which is there, stays."
  constraints=$venv/normkit-constraints.txt
  { grep -v '^torch==' constraints.txt; echo "torch==$torch"; } >"$constraints"
else
  say_size
fi

quiet="" # a person watches the download; a log needs none of it
[[ -t 1 ]] || quiet=--quiet
"$python" -m pip --version >/dev/null 2>&1 || "$python" -m ensurepip
# Installing a dependency group by name came with pip 25.1.
"$python" -m pip install --help | grep -q -- --group ||
  "$python" -m pip install $quiet --upgrade "pip>=25.1"
"$python" -m pip install $quiet --constraint "$constraints" --editable ".[cli]" --group dev
echo "$key" >"$stamp"
echo "$venv is ready."
