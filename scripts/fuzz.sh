#!/usr/bin/env bash
# Runs every fuzz test for a while: scripts/fuzz.sh 10s
set -euo pipefail
cd "$(dirname "$0")/.."
go="${GO:-go}"

# A file is FOLDER/name_test.go; its fuzz tests are found by their signature.
git ls-files --cached --others --exclude-standard '*_test.go' | while read -r file; do
	{ grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" || true; } | while read -r _ name; do
		echo "--- $name in ./$(dirname "$file")"
		"$go" test -run '^$' -fuzz "^$name\$" -fuzztime "${1:-10s}" "./$(dirname "$file")" </dev/null
	done
done
