// Package build_test runs build.sh where something is missing, wrong or not allowed: it
// must fail, and say what was wrong and what to do. Nothing is compiled.
package build_test

import (
	"errors"
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

// top is the repository.
const top = "../.."

// newPlace makes a copy of what build.sh needs to begin, in the folder sources, and a folder
// that is all of its PATH, programs: what scripts take for granted, and those named. A name
// with "=" is a program with that script.
func newPlace(t *testing.T, programs ...string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, name := range []string{"sources", "programs", "home"} {
		require.NoError(t, os.Mkdir(filepath.Join(folder, name), 0o755))
	}
	for _, source := range []string{"build.sh", "scripts", "go.mod"} {
		require.NoError(t, exec.Command("cp", "-R", filepath.Join(top, source), filepath.Join(folder, "sources")).Run())
	}
	// Scripts first, into an empty folder: to write over a link would write to what it leads to.
	for _, program := range append(programs, "bash", "cat", "dirname", "env", "id", "mkdir", "mktemp", "readlink", "rm", "sed") {
		name, script, isScript := strings.Cut(program, "=")
		there := filepath.Join(folder, "programs", name)
		if isScript {
			file, err := os.OpenFile(there, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
			require.NoError(t, err)
			_, err = file.WriteString("#!/bin/sh\n" + script + "\n")
			require.NoError(t, errors.Join(err, file.Close()))
		} else if _, err := os.Lstat(there); err != nil {
			path, err := exec.LookPath(program)
			if err != nil {
				t.Skip(err)
			}
			require.NoError(t, os.Symlink(path, there))
		}
	}
	return folder
}

// run runs a line in the folder of the place, with further variables, and returns what it
// prints.
func run(t *testing.T, place, line string, variables ...string) (output string, err error) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	command := exec.Command(bash, "-c", line)
	command.Dir = place
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "FUNNEL_") && !slices.Contains([]string{"PORT", "CC", "GOARCH", "GOROOT"}, name) {
			command.Env = append(command.Env, variable)
		}
	}
	programs := filepath.Join(place, "programs")
	if _, err := os.Stat(filepath.Join(programs, "go")); err != nil {
		variables = append(variables, "GOROOT=/nonexistent") // else build.sh looks where Go is usually unpacked
	}
	command.Env = append(command.Env, "GOTOOLCHAIN=local", "PATH="+programs, "HOME="+filepath.Join(place, "home"))
	// Go's telemetry goes on when the test is over: it gets no folder.
	command.Env = append(append(command.Env, "XDG_CONFIG_HOME=/dev/null"), variables...)
	printed, err := command.CombinedOutput()
	return string(printed), err
}

// TestWhatIsMissingOrWrong is named, with what to do.
func TestWhatIsMissingOrWrong(t *testing.T) {
	server, err := exec.LookPath(servertest.Program())
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() }) // after the rows, which are parallel
	taken := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)

	const build, start = "sources/build.sh build", "sources/build.sh run"
	const goIsMissing = "Go is missing: install Go 1.26.0 or newer, from https://go.dev/dl/"
	const installGCC = "install gcc (apt-get install gcc libc6-dev; dnf install gcc), or name another compiler in CC"
	const sudo = `sudo=[ "$1" != -n ] || shift; "$@"`
	onlyGo, compilers := []string{"go"}, []string{"go", "gcc"}
	for name, c := range map[string]struct {
		line      string
		programs  []string
		variables []string
		says      string
	}{
		"no Go":                   {build, nil, nil, goIsMissing},
		"called by a link":        {"ln -s sources/build.sh link; ./link build", []string{"ln"}, nil, goIsMissing},
		"called by another shell": {"dash sources/build.sh build", []string{"dash"}, nil, goIsMissing},
		"a Go that is too old": {
			"sed -i '/^toolchain/d; s/^go 1.26.*/go 1.99.0/' sources/go.mod; " + build, onlyGo, nil,
			"build.sh: this Go cannot build funnel, for the reason above: install Go 1.99.0 or newer",
		},
		"flags that no file names": {
			build, onlyGo, []string{"GOFLAGS=-gcflags=all=-wb=false -gcflags=funnel/gcra=-l"},
			"build.sh: GOFLAGS is '-gcflags=all=-wb=false -gcflags=funnel/gcra=-l': the finished file names one",
		},
		"no gcc": {build, onlyGo, nil, "build.sh: the C compiler 'gcc' is missing: " + installGCC},
		"a compiler that is none": {
			build, []string{"go", "true"}, []string{"CC=true"}, "the C compiler 'true' compiles for , but GOARCH is",
		},
		"no header files": {
			build, compilers, []string{"CC=gcc -nostdinc"},
			"the C compiler 'gcc -nostdinc' finds no header files of the C library: " + installGCC,
		},
		"another architecture": {
			build, compilers, []string{"GOARCH=riscv64"}, "GOARCH is 'riscv64': funnel is built for amd64 and arm64",
		},
		"port 65536": {
			start, nil, []string{"PORT=65536"}, "build.sh: PORT must be a number from 1 to 65535, not '65536'",
		},
		"a port that is taken, by a server beside the caller": {
			"ln -s " + server + " programs/s; " + start, append(compilers, "ln"),
			[]string{"PORT=" + taken, "FUNNEL_SERVER=programs/s"}, "build.sh: port " + taken + " is taken",
		},
		"a server that is none": {
			start, append(compilers, "true"), []string{"FUNNEL_SERVER=true"},
			"which is no redis-server or valkey-server that runs here: name one",
		},
		"no package manager": {
			start, compilers, nil,
			"build.sh: redis-server is missing: install Redis 6.2.8 or newer, or Valkey, or name one in FUNNEL_SERVER",
		},
		"apt-get fails": {
			start, append(compilers, sudo, "apt-get=echo E: no such package; exit 100"), nil,
			"E: no such package\nbuild.sh: apt-get cannot install redis-server, for the reason above",
		},
		"dnf has Valkey only": {
			start, append(compilers, "ln", sudo,
				`dnf=[ "$*" = "-q -y install valkey" ] && ln -s `+server+` "${0%/*}/valkey-server"`),
			[]string{"PORT=" + taken}, "is taken",
		},
		"nobody may install": {
			start, append(compilers, "id=echo 1000", "apt-get="), nil,
			"build.sh: redis-server is missing, and only root may install it: sudo apt-get install redis-server\n",
		},
		"a folder build that is none": {"echo >sources/build; " + build, nil, nil, "build.sh: cannot write to "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := run(t, newPlace(t, c.programs...), c.line, c.variables...)
			require.Error(t, err)
			require.Contains(t, output, c.says)
			require.NotRegexp(t, `(?m)^\S*\.sh: line \d+:`, output, "a message of the shell's own")
		})
	}
}
