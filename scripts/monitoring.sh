#!/usr/bin/env bash
# Checks the rules of examples/monitoring: Prometheus parses every expression, and
# redis_exporter or the hook exports each metric that the expressions name.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/common.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Unpacked only: installing the package would start Prometheus.
unpack_package prometheus "$work"

cd examples/monitoring
rules=prometheus/alerts.yml
"$work/usr/bin/promtool" check rules --lint=none $rules

names=$(grep -ohE '(redis|funnel)_[a-z_]+[a-z]' $rules | sed 's/_bucket$//' | sort -u)
[ -n "$names" ] || die "no metrics are named in $rules"
for name in $names; do
    grep -qw "$name" prometheus/hook.go prometheus/testdata/redis_exporter.txt ||
        die "$rules names $name, which neither redis_exporter nor the hook exports"
done
