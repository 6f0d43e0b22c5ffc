#!/usr/bin/env bash
# Runs the tests of cmd/funnel-ratelimit. Then runs integration tests of github.com/envoyproxy/ratelimit with the
# same server, in a copy of its sources whose runner makes that server. These tests use fixed ports.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." >/dev/null
. scripts/common.sh

reference=github.com/envoyproxy/ratelimit
# Other tests expect that refused requests count, or expect statistics of a cache of windows.
tests='^TestBasicConfig$/Overlimit|^TestShareThreshold$|^TestBasicReloadConfig$'
skip='^TestBasicConfig$/LocalCache'

need_server
top=$PWD
cd cmd/funnel-ratelimit
# Not with the race detector: the reference reads its settings while another of its goroutines reloads them.
go test -count=1 ./...
for port in 6380 6383 8082 8083 8084; do
    ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || die "port $port is taken, and these tests need it: stop its program"
done
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
ln -s "$FUNNEL_SERVER" "$copy/redis-server"
cp -r "$(go list -m -f '{{.Dir}}' "$reference")" "$copy/ratelimit"
chmod -R u+w "$copy/ratelimit"
# Its runner runs this program's server.
sed -i -e 's|srv \+server\.Server$|srv interface{ Stop() }|' \
    -e 's|^func (runner \*Runner) Run() {|&\nrunner.serve()\n}\n\nfunc (runner *Runner) unused() {|' "$copy/ratelimit/src/service_cmd/runner/runner.go"
cat >"$copy/ratelimit/src/service_cmd/runner/serve.go" <<'GO'
package runner

import (
	"funnel/cmd/funnel-ratelimit/backend"
	"funnel/cmd/funnel-ratelimit/service"
)

func (runner *Runner) serve() {
	decider, err := backend.New(runner.settings, backend.Events{Failed: func() {}, NotAsked: func() {}})
	if err != nil {
		panic(err)
	}
	srv, err := service.New(runner.settings, decider, runner.statsManager)
	if err != nil {
		panic(err)
	}
	runner.mu.Lock()
	runner.srv = srv
	runner.mu.Unlock()
	err = srv.Start()
	if err != nil {
		panic(err)
	}
}
GO
# This test stops counting over the limit, as the selected parts of TestBasicConfig do.
stop=WithStopCacheKeyIncrementWhenOverlimit
sed -i "/^func testBasicConfigWithoutWatchRoot(/,/^}/s/RedisSettings(/RedisSettings$stop(/" \
    "$copy/ratelimit/test/integration/integration_test.go"
sed "s|=> ../..|=> $top|" go.mod >"$copy/go.mod"
cp go.sum "$copy/go.sum"
go mod edit -replace "$reference=$copy/ratelimit" "$copy/go.mod"
PATH=$copy:$PATH go test -count=1 -vet=off -mod=mod -modfile "$copy/go.mod" -tags integration \
    -run "$tests" -skip "$skip" "$reference/test/integration"
