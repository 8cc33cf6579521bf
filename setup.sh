# Sourced by ./demo and ./test: makes .venv and installs cleargrad into it, once per change of pyproject.toml.
extra=$1
unset PYTHONDONTWRITEBYTECODE # tests start many processes; without cached bytecode each would compile the package
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "cleargrad needs Python 3.11 or newer; '$python' is $("$python" --version 2>&1 || echo missing)." >&2
  echo "Set PYTHON to a newer one, for example: PYTHON=python3.12 $0" >&2
  exit 1
fi
stamp=.venv/installed-$extra-$(cksum < pyproject.toml | cut -d' ' -f1)
if [ ! -f "$stamp" ]; then
  echo "Setting up .venv ($extra) ..."
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  if [ "$extra" = run ]; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e .
  else
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".[$extra]"
  fi
  touch "$stamp"
fi
