// A reader who follows docs/installing.md gets a server with the module, upgrades it and goes back,
// with Debian's packages and units. Removing a package leaves nothing behind.

package release_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/pages/page"
)

const installing = top + "/docs/installing.md"

// built is the folder dist that the page's first step makes of a copy of the sources: of a commit,
// its time, and its tag.
func built(t *testing.T, commit, seconds, tag string) string {
	needMachine(t)
	clone := page.Clone(t, top)
	variables := fmt.Sprintf("export FUNNEL_COMMIT=%s SOURCE_DATE_EPOCH=%s FUNNEL_TAG=%s\n", commit, seconds, tag)
	page.Shell(t, clone, 0, variables+page.Marked(t, installing, "install, build"))
	return clone + "/dist"
}

// download copies a folder dist to the folder in which the lines of the pages run. apt asks nothing
// there, and shows what packages print unchanged.
func download(t *testing.T, machine *machine, dist, folder string) {
	require.NoError(t, os.CopyFS(machine.path("/root/"+folder), os.DirFS(dist)))
	machine.shell(t, `echo 'APT::Get::Assume-Yes "true"; Dpkg::Use-Pty "false";' >/etc/apt/apt.conf.d/yes`)
}

// installLines are lines of the page.
func installLines(t *testing.T, name string) string { return page.Marked(t, installing, name) }

// TestBootedInstalling follows the page within the units of Debian's packages, for Valkey with the
// names that the page gives: with the package, and with the file alone.
func TestBootedInstalling(t *testing.T) {
	t.Parallel()
	dist, version := built(t, "", "1767323045", "v"+versionOf(t)), versionOf(t)
	for _, test := range []struct{ suite, kind, more string }{
		// With rpm, the machine is TestBootedRPM's.
		{"bookworm", "redis", ""}, {"trixie", "redis", ""}, {"trixie", "valkey", "rpm"},
	} {
		t.Run(test.suite+" "+test.kind, func(t *testing.T) {
			t.Parallel()
			machine := bootDebian(t, test.suite, strings.Fields(test.kind+"-server "+test.more)...)
			named := strings.NewReplacer("redis-cell", "redis-cell", "redis", test.kind).Replace
			shell := func(lines string) string { return machine.shell(t, named(lines)) }
			ask := func(line string) string {
				shell("cp -p redis.conf /etc/redis/redis.conf; echo '" + line + "' >>/etc/redis/redis.conf; redis-cli del user:42")
				return shell(installLines(t, "install, ask"))
			}
			download(t, machine, dist, "dist")
			shell("cp -p /etc/redis/redis.conf .")
			load := installLines(t, "install, load")
			require.Contains(t, shell(installLines(t, "install, package")), named("loads version "+version+" at its next start "+
				"(systemctl restart redis-server), by this line in /etc/redis/redis.conf:\n"+load))
			require.Equal(t, "0\n15\n14\n-1\n2\n", ask(load))
			require.Equal(t, "0\n16\n15\n-1\n2\n", ask(installLines(t, "install, compat")))
			require.Equal(t, installLines(t, "install, compat"), page.Marked(t, top+"/docs/moving-from-redis-cell.md", "compat"))

			require.Contains(t, shell(installLines(t, "install, remove")),
				named("redis-funnel: the server does not start any more with the line "+strings.TrimSpace(load)+": take it out"))
			requireGone(t, machine)
			_, err := machine.try(named("systemctl restart redis-server"))
			require.Error(t, err)
			shell("cp -p redis.conf /etc/redis/redis.conf; systemctl reset-failed; systemctl restart redis-server")

			shell("tar -xzf dist/funnel-" + version + "-linux-*.tar.gz --strip-components 1")
			for range 2 { // the second time over the first
				shell(installLines(t, "install, put"))
			}
			require.Equal(t, "0\n15\n14\n-1\n2\n", ask(load))

			// Elsewhere: the upgrade's trial says what the unit forbids.
			elsewhere := strings.NewReplacer("/usr/lib/redis/modules", "/usr/local/lib/redis").Replace
			shell(elsewhere(installLines(t, "install, put")))
			see := named(elsewhere(installLines(t, "upgrade, see")))
			output, err := machine.try(see)
			require.Error(t, err)
			require.Contains(t, output, "failed to map segment from shared object")
			shell(installLines(t, "install, elsewhere"))
			require.Equal(t, "0\n15\n14\n-1\n2\n", ask(elsewhere(load)))
			require.Contains(t, machine.shell(t, see), "funnel "+version+" (unknown commit) loaded")
		})
	}
}

// requireGone requires that a removed package has left only the named files.
func requireGone(t *testing.T, machine *machine, but ...string) {
	found := machine.shell(t,
		`find / -xdev -path '*funnel*' ! -path '/root/*'; dpkg-query -W '*-funnel' 2>/dev/null || true`)
	require.ElementsMatch(t, but, strings.Fields(found))
}

// TestBootedRPM installs a build between releases, upgrades it to the release and removes it, in
// Valkey with the lines that Fedora's configuration has: the file of the package loads the module,
// and stays as the user wrote it.
func TestBootedRPM(t *testing.T) {
	t.Parallel()
	machine := bootDebian(t, "trixie", "valkey-server", "rpm")
	download(t, machine, built(t, "", "1767323045", ""), "old")
	download(t, machine, built(t, "", "1767323045", "v"+versionOf(t)), "dist")
	shell := func(lines string) string { return machine.shell(t, lines) }
	restarted := func() string { return shell("systemctl restart valkey-server; valkey-cli info funnel") }
	shell(`echo 'include /etc/valkey/modules/*.conf' >>/etc/valkey/valkey.conf
		mkdir /etc/systemd/system/valkey-server.service.d
		printf '[Service]\nExecPaths=/usr/lib64\n' >/etc/systemd/system/valkey-server.service.d/lib64.conf
		systemctl daemon-reload`)
	require.Contains(t, shell("rpm -K old/*.rpm; rpm -i --nodeps old/valkey-*.rpm"),
		"loads version "+packedVersion(t)+" at its next start (systemctl restart valkey), "+
			"by this line in /etc/valkey/modules/funnel.conf:\n")
	require.Contains(t, restarted(), "funnel_version:"+versionOf(t)+"-dev")
	require.Equal(t, "640 root:valkey\n", shell("stat -c '%a %U:%G' /etc/valkey/modules/funnel.conf"))

	shell(`sed -i 's/$/ compat redis-cell/' /etc/valkey/modules/funnel.conf`)
	require.NotContains(t, shell("rpm -U --nodeps dist/valkey-*.rpm"), "does not start any more")
	require.Contains(t, shell("valkey-cli info funnel"), "funnel_version:"+versionOf(t)+"-dev")
	require.Regexp(t, `funnel_version:`+versionOf(t)+`\s(?s:.*)funnel_compat:redis-cell`, restarted())

	require.Contains(t, shell("rpm -e valkey-funnel"), "does not start any more")
	requireGone(t, machine, "/etc/valkey/modules/funnel.conf.rpmsave")
	require.Empty(t, strings.TrimSpace(restarted()))
}

// A unit is a server of one machine.
type unit struct{ name, port string }

// TestBootedUpgrading follows the page from a build between releases to the release and back, with
// a primary and a replica: the funnel stays as it is, and both always know the command.
func TestBootedUpgrading(t *testing.T) {
	t.Parallel()
	machine := bootDebian(t, "bookworm", "redis-server")
	shell := func(lines string) string { return strings.TrimSpace(machine.shell(t, lines)) }
	cli := func(server unit, words string) string {
		return shell("redis-cli -p " + server.port + " " + words)
	}
	await := func(server unit, want string) {
		servertest.Eventually(t, want, func() bool { return strings.Contains(cli(server, "info replication"), want) })
	}
	download(t, machine, built(t, "111111111111", "1767323045", ""), "old")
	shell("cp -R old dist; " + installLines(t, "install, package"))
	shell("printf '%s\n' '" + installLines(t, "install, load") + "' 'repl-diskless-sync-delay 0' >>/etc/redis/redis.conf")
	shell(`sed -e 's/^port .*/port 6380/' -e 's/^dbfilename .*/dbfilename replica.rdb/' \
		-e 's/redis-server\./redis-server-replica./' /etc/redis/redis.conf >/etc/redis/redis-replica.conf
		echo 'replicaof 127.0.0.1 6379' >>/etc/redis/redis-replica.conf
		chown redis:redis /etc/redis/redis-replica.conf
		systemctl restart redis-server redis-server@replica`)
	primary, replica := unit{"redis-server", "6379"}, unit{"redis-server@replica", "6380"}
	cli(primary, "cl.charge user:42 15 30 3600 7")
	tat := cli(primary, "get user:42")

	requireCommit := func(commit string) {
		for _, server := range []unit{primary, replica} {
			require.Contains(t, cli(server, "info funnel"), "funnel_commit:"+commit)
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

	shell("rm -r dist")
	download(t, machine, built(t, "222222222222", "1767323046", "v"+versionOf(t)), "dist")
	said := shell(installLines(t, "install, package"))
	require.Contains(t, said, "loads version "+versionOf(t)+" at its next start (systemctl restart redis-server)")
	require.NotContains(t, said, "does not start any more")
	requireCommit("111111111111")
	require.Contains(t, shell(installLines(t, "upgrade, see")), "funnel "+versionOf(t)+" (222222222222) loaded")
	restartAndFailOver()
	requireCommit("222222222222")
	shell(installLines(t, "upgrade, back"))
	restartAndFailOver()
	requireCommit("111111111111")
}
