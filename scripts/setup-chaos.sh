#!/usr/bin/env bash
# Installs what `make chaos` makes its networks with, if it is missing.
set -euo pipefail
command -v ip >/dev/null && exit 0
sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo
$sudo apt-get update -q
$sudo apt-get install -qy --no-install-recommends iproute2
