// Package build_test runs build.sh where something is missing, wrong or not allowed: it
// must fail, and say what was wrong and what to do. Nothing is compiled.
package build_test

import (
	"errors"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// top is the repository.
const top = "../.."

// nobody is a user who owns nothing.
const nobody = 65534

// A place is a copy of what build.sh needs to begin, and a folder of programs that is all
// of its PATH.
type place struct {
	sources, programs, home string
	variables               map[string]string
	user                    int // who runs it; 0: who runs the test
}

// newPlace makes a place with the programs that scripts take for granted, and those named.
func newPlace(t *testing.T, programs ...string) *place {
	t.Helper()
	// Not t.TempDir, which other users cannot enter.
	folder, err := os.MkdirTemp("", "funnel-build-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	require.NoError(t, os.Chmod(folder, 0o755))
	p := &place{
		sources: filepath.Join(folder, "sources"), programs: filepath.Join(folder, "programs"), home: filepath.Join(folder, "home"),
		variables: map[string]string{"GOTOOLCHAIN": "local"},
	}
	if !slices.Contains(programs, "go") {
		p.variables["GOROOT"] = "/nonexistent" // else build.sh looks where Go is usually unpacked
	}
	for _, folder := range []string{p.sources, p.programs, p.home} {
		require.NoError(t, os.Mkdir(folder, 0o755))
	}
	for _, source := range []string{"build.sh", "scripts", "go.mod"} {
		output, err := exec.Command("cp", "-R", filepath.Join(top, source), p.sources).CombinedOutput()
		require.NoError(t, err, string(output))
	}
	for _, program := range append([]string{"bash", "cat", "dirname", "env", "id", "mkdir", "mktemp", "readlink", "rm", "sed"}, programs...) {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skip(err)
		}
		require.NoError(t, os.Symlink(path, filepath.Join(p.programs, program)))
	}
	return p
}

// script adds a program.
func (p *place) script(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(p.programs, name), []byte("#!/bin/sh\n"+text), 0o755))
}

// server is the one that tests run on.
func server(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath(servertest.Program())
	require.NoError(t, err)
	return path
}

// hand gives all of it to nobody, who runs build.sh from now on, without sudo. Where the
// test is not run by root, its user has none either: no sudo is in the PATH.
func (p *place) hand(t *testing.T) {
	t.Helper()
	if os.Getuid() == 0 {
		p.user = nobody
		require.NoError(t, filepath.WalkDir(filepath.Dir(p.sources), func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, nobody, nobody)
		}))
	}
}

// run runs a program in a folder, and returns what it prints and its exit code.
func (p *place) run(t *testing.T, folder, program string, arguments ...string) (output string, code int) {
	t.Helper()
	command := exec.Command(program, arguments...)
	command.Dir = folder
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "FUNNEL_") && !slices.Contains([]string{"PATH", "HOME", "PORT", "CC", "GOARCH", "GOROOT"}, name) {
			command.Env = append(command.Env, variable)
		}
	}
	command.Env = append(command.Env, "PATH="+p.programs, "HOME="+p.home)
	for name, value := range p.variables {
		command.Env = append(command.Env, name+"="+value)
	}
	if p.user != 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.user), Gid: uint32(p.user)}}
	}
	printed, err := command.CombinedOutput()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err, "%s", printed)
	}
	return string(printed), command.ProcessState.ExitCode()
}

// requireFailure requires that build.sh fails and says all that.
func (p *place) requireFailure(t *testing.T, arguments []string, says ...string) {
	t.Helper()
	output, code := p.run(t, p.sources, filepath.Join(p.sources, "build.sh"), arguments...)
	require.Equal(t, 1, code, output)
	for _, text := range says {
		require.Contains(t, output, text)
	}
	require.NotRegexp(t, `(?m)^\S*\.sh: line \d+:`, output, "a message of the shell's own")
}

// takenPort is a port on which somebody listens.
func takenPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// goIsMissing says so, and names the version that is in go.mod.
const goIsMissing = "Go is missing: install Go 1.26.0 or newer, from https://go.dev/dl/"

// TestOtherShells: `sh build.sh` is bash's sooner or later.
func TestOtherShells(t *testing.T) {
	p := newPlace(t)
	for _, shell := range [][]string{{"dash"}, {"busybox", "sh"}, {"bash", "--posix"}} {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			path, err := exec.LookPath(shell[0])
			if err != nil {
				t.Skip(err)
			}
			line := append(shell[1:], "build.sh")
			output, code := p.run(t, p.sources, path, append(line, "help")...)
			require.Zero(t, code, output)
			require.True(t, strings.HasPrefix(output, "usage: ./build.sh COMMAND\n"), output)
			output, code = p.run(t, p.sources, path, append(line, "build")...)
			require.Equal(t, 1, code, output)
			require.Contains(t, output, goIsMissing)
		})
	}
	t.Run("without bash", func(t *testing.T) {
		path, err := exec.LookPath("dash")
		if err != nil {
			t.Skip(err)
		}
		p := newPlace(t)
		require.NoError(t, os.Remove(filepath.Join(p.programs, "bash")))
		output, code := p.run(t, p.sources, path, "build.sh", "help")
		require.Equal(t, 1, code, output)
		require.Contains(t, output, "build.sh: bash is missing: install it")
	})
}

// TestAnyWayToBuildSh: by whatever path it is called, it finds its own folder.
func TestAnyWayToBuildSh(t *testing.T) {
	p := newPlace(t)
	elsewhere := t.TempDir()
	script := filepath.Join(p.sources, "build.sh")
	relative, err := filepath.Rel(elsewhere, script)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(script, filepath.Join(elsewhere, "absolute")))
	require.NoError(t, os.Symlink(relative, filepath.Join(elsewhere, "relative")))
	require.NoError(t, os.Symlink("relative", filepath.Join(elsewhere, "link-to-a-link")))
	for _, way := range []string{script, relative, "./absolute", "./relative", "./link-to-a-link"} {
		output, code := p.run(t, elsewhere, "bash", way, "build")
		require.Equal(t, 1, code, "%s: %s", way, output)
		require.Contains(t, output, goIsMissing, way)
	}
}

// TestFoldersThatCannotBeWritten: a checkout of another user's, and one in which root has
// built before.
func TestFoldersThatCannotBeWritten(t *testing.T) {
	for name, forbid := range map[string]func(p *place) error{
		"the checkout": func(p *place) error { return os.Chmod(p.sources, 0o555) },
		"the checkout, but not the folder build": func(p *place) error {
			return errors.Join(os.Mkdir(filepath.Join(p.sources, "build"), 0o777), os.Chmod(filepath.Join(p.sources, "build"), 0o777), os.Chmod(p.sources, 0o555))
		},
		"the folder build": func(p *place) error {
			return os.Mkdir(filepath.Join(p.sources, "build"), 0o555)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.hand(t)
			require.NoError(t, forbid(p))
			t.Cleanup(func() { os.Chmod(p.sources, 0o755) })
			for _, command := range []string{"build", "run", "test", "dist"} {
				p.requireFailure(t, []string{command}, "build.sh: cannot write to "+p.sources, "copy the sources to a folder of your own")
			}
		})
	}
}

// TestCompilers that are missing, too old, or do not compile for a server.
func TestCompilers(t *testing.T) {
	const installGCC = "install gcc (apt-get install gcc libc6-dev; dnf install gcc), or name another compiler in CC"
	for name, c := range map[string]struct {
		programs  []string
		goMod     string
		variables map[string]string
		says      []string
	}{
		"no Go": {nil, "", nil, []string{goIsMissing}},
		"a Go that is too old": {[]string{"go"}, "module funnel\n\ngo 1.99.0\n", nil, []string{
			"go.mod requires go >= 1.99.0", "build.sh: this Go cannot build funnel, for the reason above: install Go 1.99.0 or newer",
		}},
		"no gcc":           {[]string{"go"}, "", nil, []string{"build.sh: the C compiler 'gcc' is missing: " + installGCC}},
		"no such compiler": {[]string{"go"}, "", map[string]string{"CC": "gcc-0"}, []string{"the C compiler 'gcc-0' is missing: " + installGCC}},
		"a compiler that is none": {[]string{"go", "true"}, "", map[string]string{"CC": "true"}, []string{
			"the C compiler 'true' compiles for , but GOARCH is", installGCC,
		}},
		"no header files": {[]string{"go", "gcc"}, "", map[string]string{"CC": "gcc -nostdinc"}, []string{
			"the C compiler 'gcc -nostdinc' finds no header files of the C library: " + installGCC,
		}},
		"another architecture": {[]string{"go", "gcc"}, "", map[string]string{"GOARCH": "riscv64"}, []string{
			"GOARCH is 'riscv64': funnel is built for amd64 and arm64",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, c.programs...)
			maps.Copy(p.variables, c.variables)
			if c.goMod != "" {
				require.NoError(t, os.WriteFile(filepath.Join(p.sources, "go.mod"), []byte(c.goMod), 0o644))
			}
			p.requireFailure(t, []string{"build"}, c.says...)
		})
	}
}

// TestPort: a port that is none, and one that somebody else has.
func TestPort(t *testing.T) {
	p := newPlace(t, "go", "gcc")
	p.variables["FUNNEL_SERVER"] = server(t)
	for _, port := range []string{"0", "65536", "-1", "6379x", " "} {
		p.variables["PORT"] = port
		p.requireFailure(t, []string{"run"}, "build.sh: PORT must be a number from 1 to 65535, not '"+port+"'")
	}
	p.variables["PORT"] = takenPort(t)
	p.requireFailure(t, []string{"run"}, "build.sh: port "+p.variables["PORT"]+" is taken", "choose another port")
}

// TestServerThatIsNone: what FUNNEL_SERVER names must be a server that runs.
func TestServerThatIsNone(t *testing.T) {
	p := newPlace(t, "go", "gcc", "true")
	for _, server := range []string{"/nonexistent/redis-server", "redis-server", p.home, filepath.Join(p.sources, "go.mod"), "true", "help"} {
		p.variables["FUNNEL_SERVER"] = server
		p.requireFailure(t, []string{"run"}, "build.sh: FUNNEL_SERVER is '"+server+"', which is no redis-server or valkey-server that runs here: name one")
	}
}

// TestServerBesideTheCaller: FUNNEL_SERVER may be a path from where build.sh is called.
func TestServerBesideTheCaller(t *testing.T) {
	p := newPlace(t, "go", "gcc")
	require.NoError(t, os.Symlink(server(t), filepath.Join(p.programs, "server")))
	p.variables["PORT"] = takenPort(t)
	p.variables["FUNNEL_SERVER"] = "programs/server"
	output, code := p.run(t, filepath.Dir(p.programs), "bash", filepath.Join(p.sources, "build.sh"), "run")
	require.Equal(t, 1, code, output)
	require.Contains(t, output, "is taken", "what is looked at after the server")
}

// sudo is what it is for root.
const sudo = `[ "$1" != -n ] || shift` + "\nexec \"$@\"\n"

// TestInstallations that fail show why, and with what.
func TestInstallations(t *testing.T) {
	for name, c := range map[string]struct {
		scripts map[string]string
		says    []string
	}{
		"apt-get fails": {
			map[string]string{"apt-get": "case $* in *install*) echo 'E: Unable to locate package'; exit 100 ;; esac\n"},
			[]string{"redis-server is missing: apt-get install redis-server\n", "E: Unable to locate package\n", "build.sh: apt-get cannot install redis-server, for the reason above: mend that, or install redis-server yourself"},
		},
		"apt-get cannot reach its sources either": {
			map[string]string{"apt-get": "echo \"E: $* fails\" >&2; exit 100\n"},
			[]string{"E: -qq update fails\n", "install --no-install-recommends redis-server fails\n", "build.sh: apt-get cannot install redis-server"},
		},
		"dnf fails": {
			map[string]string{"dnf": "[ \"$2\" = info ] || { echo 'Error: No space left on device'; exit 1; }\n"},
			[]string{"redis-server is missing: dnf install redis\n", "Error: No space left on device\n", "build.sh: dnf cannot install redis, for the reason above"},
		},
		"dnf knows neither Redis nor Valkey": {
			map[string]string{"dnf": "echo 'Error: Unable to find a match'; exit 1\n"},
			[]string{"valkey-server is missing: dnf install valkey\n", "Error: Unable to find a match\n", "build.sh: dnf cannot install valkey"},
		},
		"what is installed is not in the PATH": {
			map[string]string{"apt-get": ""},
			[]string{"build.sh: redis-server was installed, but is not in the PATH: name it in FUNNEL_SERVER"},
		},
		"no package manager": {nil, []string{"build.sh: redis-server is missing: install Redis 6.2.8 or newer, or Valkey, or name one in FUNNEL_SERVER"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, "go", "gcc")
			p.script(t, "sudo", sudo)
			for program, text := range c.scripts {
				p.script(t, program, text)
			}
			p.requireFailure(t, []string{"run"}, c.says...)
		})
	}
}

// TestToolsThatAreMissing, and that cannot be installed: `bench` wants valgrind.
func TestToolsThatAreMissing(t *testing.T) {
	p := newPlace(t, "go", "gcc")
	p.variables["FUNNEL_SERVER"] = server(t)
	p.requireFailure(t, []string{"bench"}, "build.sh: valgrind is missing, and there is neither apt-get nor dnf to install it with: install it")
}

// TestFedoraWithoutRedis gets Valkey: what comes after the installation is reached.
func TestFedoraWithoutRedis(t *testing.T) {
	p := newPlace(t, "go", "gcc", "ln")
	p.script(t, "sudo", sudo)
	p.script(t, "dnf", `[ "$*" = "-q -y install valkey" ] && ln -s `+server(t)+` "${0%/*}/valkey-server"`+"\n")
	p.variables["PORT"] = takenPort(t)
	p.requireFailure(t, []string{"run"}, "valkey-server is missing: dnf install valkey\n", "is taken")
}

// TestNobodyInstalls: who is not root and has no sudo is told what root would do.
func TestNobodyInstalls(t *testing.T) {
	p := newPlace(t, "go", "gcc")
	p.script(t, "apt-get", "echo 'apt-get was called'\n")
	p.hand(t)
	p.requireFailure(t, []string{"run"}, "build.sh: redis-server is missing, and only root may install it: sudo apt-get install redis-server\n")
}
