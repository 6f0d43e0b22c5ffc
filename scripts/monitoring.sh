#!/usr/bin/env bash
# Checks the rules and the dashboard of examples/monitoring: Prometheus parses all
# expressions, and redis_exporter or the hook shows each metric in them.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/common.sh

need_package jq
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Not installed, because that would start Prometheus.
unpack_package prometheus "$work"

cd examples/monitoring
rules=prometheus/alerts.yml dashboard=grafana/funnel.json
# Grafana replaces its variables. Those within strings may stay.
jq '{groups: [{name: "dashboard", rules: [.panels[].targets[]?.expr
    | {record: "panel", expr: gsub("\\$__rate_interval"; "5m")}]}]}' $dashboard >"$work/dashboard.yml"
"$work/usr/bin/promtool" check rules --lint=none $rules "$work/dashboard.yml"

names=$(grep -ohE '(redis|funnel)_[a-z_]+[a-z]' $rules $dashboard | sed 's/_bucket$//' | sort -u)
[ -n "$names" ] || die "no metrics are named in $rules and $dashboard"
for name in $names; do
    grep -qw "$name" prometheus/hook.go prometheus/testdata/redis_exporter.txt ||
        die "$rules or $dashboard names $name, which neither redis_exporter nor the hook shows"
done
