#!/usr/bin/env bash
# Prints .changelog/*.txt as a section for CHANGELOG.md, sorted into kinds. A
# line of such a file is "KIND: part: what users notice".
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob

bad="$(grep -nHvE '^(feature|improvement|bug|change): [a-z0-9 -]+: .+$' .changelog/*.txt /dev/null || true)"
if [ -n "$bad" ]; then
	echo "not of the form \"feature|improvement|bug|change: part: what users notice\":" >&2
	echo "$bad" >&2
	exit 1
fi
for kind in change feature improvement bug; do
	lines="$(sed -n "s/^$kind: /- /p" .changelog/*.txt /dev/null | sort)"
	if [ -n "$lines" ]; then
		printf '### %s\n\n%s\n\n' "$(case "$kind" in
			change) echo Changes ;;
			feature) echo Features ;;
			improvement) echo Improvements ;;
			bug) echo Bugs fixed ;;
		esac)" "$lines"
	fi
done
