#!/usr/bin/env bash
# Installs what building and testing need, or says what is missing: Go, a C
# compiler for the race detector, the modules of go.sum.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted="$(awk '$1 == "go" { print $2 }' go.mod)"
if ! command -v go >/dev/null; then
	echo "Go $wanted or newer is needed: https://go.dev/dl/" >&2
	exit 1
fi
have="$(go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')"
if [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" != "$wanted" ]; then
	echo "Go $wanted or newer is needed, this is $have: https://go.dev/dl/" >&2
	exit 1
fi

cc="$(go env CC)"
if ! command -v "${cc%% *}" >/dev/null; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		apt-get update -q
		DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends gcc libc6-dev
	else
		echo "a C compiler is needed for the race detector; install gcc" >&2
		exit 1
	fi
fi

go mod download
