// Shell lines run in a Debian that systemd-nspawn has booted, with the units that its packages
// bring. scripts/machine.sh says what that needs.
//
// FUNNEL_BOOT=1 asks for it: the first time, a machine is made out of packages, which takes a
// minute. Without the variable, and where no machine can be booted, these tests are skipped.
package release_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A machine ends with its test, and so does all that was written in it.
type machine struct{ init string }

// needMachine skips a test unless FUNNEL_BOOT asks for it.
func needMachine(t testing.TB) {
	if os.Getenv("FUNNEL_BOOT") == "" {
		t.Skip("boots a Debian, as root: FUNNEL_BOOT=1")
	}
}

// bootDebian boots a Debian of a suite with packages installed.
func bootDebian(t testing.TB, suite string, packages ...string) *machine {
	t.Helper()
	needMachine(t)
	var complaint bytes.Buffer
	script := exec.Command("../../scripts/machine.sh", append([]string{suite}, packages...)...)
	script.Stderr = &complaint
	// The machine stops when this end of the pipe is closed, which the kernel does for a process
	// that dies.
	stop, err := script.StdinPipe()
	require.NoError(t, err)
	output, err := script.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, script.Start())
	init, _ := bufio.NewReader(output).ReadString('\n')
	machine := &machine{strings.TrimSpace(init)}
	t.Cleanup(func() {
		if t.Failed() && machine.init != "" {
			logs, _ := machine.try("journalctl --no-pager --lines 20; tail -n 20 /var/log/*/*.log")
			t.Logf("ends of the journal and of the servers' logs:\n%s", logs)
		}
		stop.Close()
		script.Wait()
	})
	if machine.init == "" {
		script.Wait()
		if script.ProcessState.ExitCode() == 3 {
			t.Skip(complaint.String())
		}
		t.Fatal(complaint.String())
	}
	return machine
}

// shell runs lines as root, and returns what they print. The test fails if a line does.
func (m *machine) shell(t testing.TB, lines string) string {
	t.Helper()
	output, err := m.try(lines)
	require.NoError(t, err, "%s\n%s", lines, output)
	return output
}

// try is shell for lines that may fail.
func (m *machine) try(lines string) (string, error) {
	command := exec.Command("nsenter", "--all", "--target", m.init, "bash", "-ec", "cd\n"+lines)
	command.Env = []string{"HOME=/root", "LANG=C.UTF-8",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	output, err := command.CombinedOutput()
	return string(output), err
}

// path returns the path on this machine of a file in the booted one.
func (m *machine) path(path string) string { return "/proc/" + m.init + "/root" + path }
