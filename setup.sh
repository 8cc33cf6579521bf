# Sourced by ./demo and ./test: makes .venv and installs cleargrad into it, once per change of pyproject.toml.
extra=$1
unset PYTHONDONTWRITEBYTECODE # tests start many processes; without cached bytecode each would compile the package
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "cleargrad needs Python 3.11 or newer; '$python' is $("$python" --version 2>&1 || echo missing)." >&2
  echo "Set PYTHON to a newer one, for example: PYTHON=python3.12 $0" >&2
  exit 1
fi
# On a terminal one line says what pip is doing; its errors come through in any case.
install() {
  if [ -t 1 ]; then
    .venv/bin/python -m pip install --disable-pip-version-check --progress-bar off "$@" |
      while IFS= read -r line; do
        case $line in Collecting* | Downloading* | Building* | Preparing* | Installing*) printf '\r\033[K  %.76s' "$line" ;; esac
      done
    printf '\r\033[K'
  else
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
  fi
}

stamp=.venv/installed-$extra-$(cksum < pyproject.toml | cut -d' ' -f1)
if [ ! -f "$stamp" ]; then
  echo "Setting up .venv ($extra), once; this downloads packages and may take a minute ..."
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  if [ "$extra" = run ]; then install -e .; else install -e ".[$extra]"; fi
  touch "$stamp"
fi
