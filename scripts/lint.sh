#!/usr/bin/env bash
# What style asks for and no other tool looks for. Prints every place that is
# wrong and fails if there is one.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0

# find REASON PATTERN FILES...
find() {
	local reason="$1" pattern="$2"
	shift 2
	[ $# -gt 0 ] || return 0
	local found
	found="$(grep -nHE -- "$pattern" "$@" || true)"
	if [ -n "$found" ]; then
		echo "$reason:"
		echo "$found"
		failed=1
	fi
}

mapfile -t all < <(git ls-files --cached --others --exclude-standard '*.go')
product=() tests=() awake=()
for file in "${all[@]}"; do
	[ -f "$file" ] || continue
	if [[ "$file" == *_test.go ]]; then
		tests+=("$file")
		# Inside a bubble of testing/synctest, which some packages enter by a
		# helper named inBubble, sleeping takes no time.
		grep -qE '"testing/synctest"|inBubble\(' "$file" || awake+=("$file")
	else
		product+=("$file")
	fi
done

find "errors are told apart by errors.Is, errors.As or a code, not by their words" 'strings\.(Contains|HasPrefix|HasSuffix)\([a-z]*[eE]rr\.Error\(\)' "${product[@]}"
find "tests wait for what they want instead of sleeping" 'time\.Sleep\(' "${awake[@]}"
find "no init functions: nothing happens by import" '^func init\(\)' "${product[@]}"
find "unfinished work belongs into an issue" '\b(TODO|FIXME|XXX|HACK)\b' "${product[@]}" "${tests[@]}"
find "tests are not skipped" '\bt\.Skip(f|Now)?\(' "${tests[@]}"
find "log messages are constant, with pairs behind them" '[lL]og(ger)?\.(Trace|Debug|Info|Warn|Error)\((fmt\.Sprintf|[^"]*"[^"]*" *\+)' "${product[@]}"
exit "$failed"
