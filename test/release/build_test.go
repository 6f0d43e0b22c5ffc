// If something is missing, wrong or not allowed, build.sh fails, and says what was wrong and what
// to do. These tests compile nothing.

package release_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// runScript runs a line in a folder with the sources that build.sh needs to begin, and returns what
// it prints. The PATH is the folder programs alone. It has what scripts take for granted, and the
// given programs. A name with "=" is a program with that script.
func runScript(t *testing.T, line string, programs []string, variables ...string) (output string, err error) {
	folder := t.TempDir()
	for _, name := range []string{"sources", "programs", "home"} {
		require.NoError(t, os.Mkdir(filepath.Join(folder, name), 0o755))
	}
	for _, source := range []string{"build.sh", "scripts", "go.mod"} {
		require.NoError(t, exec.Command("cp", "-R", filepath.Join("../..", source), filepath.Join(folder, "sources")).Run())
	}
	for _, program := range append(strings.Fields("bash cat dirname env id mkdir mktemp readlink rm sed"), programs...) {
		name, script, isScript := strings.Cut(program, "=")
		there := filepath.Join(folder, "programs", name)
		if isScript {
			os.Remove(there) // otherwise it may be a link, and writing would change what it leads to
			require.NoError(t, os.WriteFile(there, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
			continue
		}
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skip(err)
		}
		require.NoError(t, os.Symlink(path, there))
	}
	command := exec.Command(filepath.Join(folder, "programs/bash"), "-c", line)
	command.Dir = folder
	// Go's telemetry goes on when the test is over: it gets no folder.
	command.Env = append(variables, "GOTOOLCHAIN=local", "XDG_CONFIG_HOME=/dev/null",
		"PATH="+filepath.Join(folder, "programs"), "HOME="+filepath.Join(folder, "home"))
	if !slices.Contains(programs, "go") {
		command.Env = append(command.Env, "GOROOT=/nonexistent") // else build.sh looks where Go is usually unpacked
	}
	printed, err := command.CombinedOutput()
	return string(printed), err
}

func TestWhatIsMissingOrWrong(t *testing.T) {
	server, err := exec.LookPath(servertest.Program())
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() }) // after the rows, which are parallel
	taken := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)

	const build, start = "sources/build.sh build", "sources/build.sh run"
	const installGCC = "install gcc (apt-get install gcc libc6-dev; dnf install gcc), or name another compiler in CC"
	const sudo = `sudo=[ "$1" != -n ] || shift; "$@"`
	onlyGo, compilers := []string{"go"}, []string{"go", "gcc"}
	for name, c := range map[string]struct {
		line     string
		programs []string
		variable string
		says     string
	}{
		"no Go": {build, nil, "", "Go is missing: install Go 1.26.0 or newer, from https://go.dev/dl/"},
		"called by a link, in another shell": {"ln -s sources/build.sh link; dash ./link build", []string{"dash", "ln"}, "",
			"Go is missing: "},
		"a Go that is too old": {"sed -i '/^toolchain/d; s/^go 1.26.*/go 1.99.0/' sources/go.mod; " + build, onlyGo, "",
			"build.sh: this Go cannot build funnel, for the reason above: install Go 1.99.0 or newer"},
		"flags that may take away checks": {build, onlyGo, "GOFLAGS=-gcflags=funnel/gcra=-B",
			"build.sh: GOFLAGS is '-gcflags=funnel/gcra=-B': funnel.so is built without -gcflags; leave it out"},
		"no gcc": {build, onlyGo, "", "build.sh: the C compiler 'gcc' is missing: " + installGCC},
		"a compiler that is none": {build, []string{"go", "true"}, "CC=true",
			"the C compiler 'true' compiles for , but GOARCH is"},
		"no header files": {build, compilers, "CC=gcc -nostdinc",
			"the C compiler 'gcc -nostdinc' finds no header files of the C library: " + installGCC},
		"another architecture": {build, compilers, "GOARCH=riscv64",
			"GOARCH is 'riscv64': funnel is built for amd64 and arm64"},
		"port 65536": {start, nil, "PORT=65536", "build.sh: PORT must be a number from 1 to 65535, not '65536'"},
		"a port that is taken, by a server beside the caller": {
			"ln -s " + server + " programs/s; export FUNNEL_SERVER=programs/s; " + start, append(compilers, "ln"),
			"PORT=" + taken, "build.sh: port " + taken + " is taken"},
		"a server that is none": {start, append(compilers, "true"), "FUNNEL_SERVER=true",
			"which is no redis-server or valkey-server that runs here: name one"},
		"no package manager": {start, compilers, "",
			"build.sh: redis-server is missing: install Redis 6.2.8 or newer, or Valkey, or name one in FUNNEL_SERVER"},
		"apt-get fails": {start, append(compilers, sudo, "apt-get=echo E: no such package; exit 100"), "",
			"E: no such package\nbuild.sh: apt-get cannot install redis-server, for the reason above"},
		"dnf has Valkey only": {start, append(compilers, "ln", sudo,
			`dnf=[ "$*" = "-q -y install valkey" ] && ln -s `+server+` "${0%/*}/valkey-server"`), "PORT=" + taken, "is taken"},
		"nobody may install": {start, append(compilers, "id=echo 1000", "apt-get="), "",
			"build.sh: redis-server is missing, and only root may install it: sudo apt-get install redis-server\n"},
		"a folder build that is none": {"echo >sources/build; " + build, nil, "", "build.sh: cannot write to "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := runScript(t, c.line, c.programs, c.variable)
			require.Error(t, err)
			require.Contains(t, output, c.says)
			require.NotRegexp(t, `(?m)^\S*\.sh: line \d+:`, output, "a message of the shell's own")
		})
	}
}
