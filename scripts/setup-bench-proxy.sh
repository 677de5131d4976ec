#!/usr/bin/env bash
# Installs what `make bench-proxy` and `make bench-failover` compare with, as far as
# it is missing and can be had. HAProxy is what all others are compared with, and
# nginx the instances; without Caddy they go on.
set -euo pipefail
caddy=github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9
bin="${XDG_CACHE_HOME:-$HOME/.cache}/rondel-bench/bin"

PATH="$PATH:/usr/sbin:/usr/local/sbin"
missing=()
command -v haproxy >/dev/null || missing+=(haproxy)
command -v nginx >/dev/null || missing+=(nginx)
command -v taskset >/dev/null || missing+=(util-linux)
if [ ${#missing[@]} -gt 0 ]; then
	sudo=
	[ "$(id -u)" -eq 0 ] || sudo=sudo
	$sudo apt-get update -q
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
	# Debian starts what it installs; the benches start their own.
	for name in haproxy nginx; do
		case " ${missing[*]} " in
		*" $name "*) [ ! -d /run/systemd/system ] || $sudo systemctl disable --now -q "$name" || true ;;
		esac
	done
fi
[ -x "$bin/caddy" ] || command -v caddy >/dev/null || {
	mkdir -p "$bin"
	GOBIN="$bin" "${GO:-go}" install "$caddy" || echo "Caddy could not be built, so it is left out" >&2
}
