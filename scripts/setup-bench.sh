#!/usr/bin/env bash
# Installs what `make bench-sessions` compares with, if it is missing.
set -euo pipefail
command -v redis-server >/dev/null && exit 0
sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo
$sudo apt-get update -q
$sudo apt-get install -qy --no-install-recommends redis-server
