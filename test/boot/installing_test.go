package boot_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/boot"
	"funnel/test/page"
)

const (
	top        = "../.."
	installing = top + "/docs/installing.md"
)

// built is the module that the page's first step makes of a new clone with this version.
func built(t *testing.T, version string) []byte {
	t.Helper()
	clone := page.Clone(t, top)
	header, err := os.ReadFile(clone + "/module/version.h")
	require.NoError(t, err)
	lines := strings.Split(string(header), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "#define FUNNEL_VERSION ") {
			lines[i] = `#define FUNNEL_VERSION "` + version + `"`
		}
	}
	require.NoError(t, os.WriteFile(clone+"/module/version.h", []byte(strings.Join(lines, "\n")), 0o644))
	page.Shell(t, clone, 0, page.Marked(t, installing, "install, build"))
	module, err := os.ReadFile(clone + "/funnel.so")
	require.NoError(t, err)
	return module
}

// download puts the module where the lines of the pages are run.
func download(t *testing.T, machine *boot.Machine, module []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(machine.Path("/root/funnel.so"), module, 0o644))
}

// marked are lines of the page.
func marked(t *testing.T, name string) string { return page.Marked(t, installing, name) }

// TestInstalling follows the page within the units of Debian's packages, for Valkey with
// the names that the page gives.
func TestInstalling(t *testing.T) {
	for _, test := range []struct{ suite, kind string }{{"bookworm", "redis"}, {"trixie", "redis"}, {"trixie", "valkey"}} {
		t.Run(test.suite+" "+test.kind, func(t *testing.T) {
			machine := boot.Debian(t, test.suite, test.kind+"-server")
			named := strings.NewReplacer("redis-cell", "redis-cell", "redis", test.kind).Replace
			shell := func(lines string) string { return machine.Shell(t, named(lines)) }
			ask := func(line string) string {
				shell("cp -p redis.conf /etc/redis/redis.conf; echo '" + line + "' >>/etc/redis/redis.conf; redis-cli del user:42")
				return shell(marked(t, "install, ask"))
			}
			download(t, machine, built(t, "1.2.3"))
			shell("cp -p /etc/redis/redis.conf .")
			for range 2 { // the second time over the first
				shell(marked(t, "install, put"))
			}
			require.Equal(t, "0\n15\n14\n-1\n2\n", ask(marked(t, "install, load")))
			require.Equal(t, "0\n16\n15\n-1\n2\n", ask(marked(t, "install, compat")))
			require.Equal(t, marked(t, "install, compat"), page.Marked(t, top+"/docs/moving-from-redis-cell.md", "compat"))

			// Elsewhere: the upgrade's trial says what the unit forbids.
			elsewhere := strings.NewReplacer("/usr/lib/redis/modules", "/usr/local/lib/redis").Replace
			shell(elsewhere(marked(t, "install, put")))
			see := named(elsewhere(marked(t, "upgrade, see")))
			output, err := machine.Try(see)
			require.Error(t, err)
			require.Contains(t, output, "failed to map segment from shared object")
			shell(marked(t, "install, elsewhere"))
			require.Equal(t, "0\n15\n14\n-1\n2\n", ask(elsewhere(marked(t, "install, load"))))
			require.Contains(t, machine.Shell(t, see), "funnel 1.2.3 (unknown commit) loaded")
		})
	}
}

// A unit is a server of one machine.
type unit struct {
	name string
	port int
}

// TestUpgrading follows the page with a primary and a replica, there and back: the funnel
// stays as it is, and both always know the command.
func TestUpgrading(t *testing.T) {
	machine := boot.Debian(t, "bookworm", "redis-server")
	shell := func(lines string) string { return strings.TrimSpace(machine.Shell(t, lines)) }
	cli := func(server unit, words string) string {
		return shell(fmt.Sprint("redis-cli -p ", server.port, " ", words))
	}
	await := func(server unit, want string) {
		servertest.Eventually(t, want, func() bool { return strings.Contains(cli(server, "info replication"), want) })
	}
	download(t, machine, built(t, "1.0.0"))
	shell(marked(t, "install, put"))
	shell("printf '%s\n' '" + marked(t, "install, load") + "' 'repl-diskless-sync-delay 0' >>/etc/redis/redis.conf")
	shell(`sed -e 's/^port .*/port 6380/' -e 's/^dbfilename .*/dbfilename replica.rdb/' \
		-e 's/redis-server\./redis-server-replica./' /etc/redis/redis.conf >/etc/redis/redis-replica.conf
		echo 'replicaof 127.0.0.1 6379' >>/etc/redis/redis-replica.conf
		chown redis:redis /etc/redis/redis-replica.conf
		systemctl restart redis-server redis-server@replica`)
	primary, replica := unit{"redis-server", 6379}, unit{"redis-server@replica", 6380}
	cli(primary, "cl.charge user:42 15 30 3600 7")
	tat := cli(primary, "get user:42")

	requireVersion := func(version string) {
		for _, server := range []unit{primary, replica} {
			require.Contains(t, cli(server, "info funnel"), "funnel_version:"+version)
			require.Equal(t, tat, cli(server, "get user:42"))
			require.Regexp(t, `^0\n0\n0\n15\n8\n`, cli(server, "cl.peek user:42 15 30 3600 1"))
		}
	}
	// restartAndFailOver is steps 3 to 5.
	restartAndFailOver := func() {
		for range 2 {
			shell("systemctl restart " + replica.name)
			await(replica, "master_link_status:up")
			cli(primary, "failover")
			await(replica, "role:master")
			cli(primary, "config rewrite")
			cli(replica, "config rewrite")
			primary, replica = replica, primary
		}
		await(replica, "master_link_status:up")
	}
	await(replica, "master_link_status:up")

	download(t, machine, built(t, "2.0.0"))
	shell(marked(t, "upgrade, put"))
	requireVersion("1.0.0")
	require.Contains(t, shell(marked(t, "upgrade, see")), "funnel 2.0.0 (unknown commit) loaded")
	restartAndFailOver()
	requireVersion("2.0.0")
	shell(marked(t, "upgrade, back"))
	restartAndFailOver()
	requireVersion("1.0.0")
}
