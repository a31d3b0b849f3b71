set -euo pipefail

step=0 wrong=0

fail() {
  echo "$0: $*" >&2
  exit 1
}

complain() {
  echo "WRONG: $*" >&2
  wrong=1
}

# Say which step comes now; those before the one to begin with are passed over.
step() { # NUMBER TEXT
  step=$1
  [ "$step" -lt "$from" ] || echo "== $1. $2" >&2
}
