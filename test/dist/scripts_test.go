// What packages say when they are installed and removed: the line that loads the module is found
// however it is spelled, and files that the server's user has put there neither hang the scripts
// nor reach the terminal.

package dist_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScriptsOfPackages(t *testing.T) {
	root := t.TempDir()
	folder, configuration := root+"/usr/lib/redis/modules", root+"/etc/redis"
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.MkdirAll(configuration, 0o755))
	require.NoError(t, os.Symlink("usr/lib", root+"/lib"))
	require.NoError(t, os.WriteFile(folder+"/funnel.so", nil, 0o644))
	require.NoError(t, syscall.Mkfifo(configuration+"/fifo.conf", 0o644))
	require.NoError(t, os.Symlink("/dev/zero", configuration+"/zero.conf"))

	says := func(script, line string) string {
		require.NoError(t, os.WriteFile(configuration+"/redis.conf", []byte("\x1b[31m\nport 6379\n"+line), 0o644))
		text := strings.NewReplacer("@LOADS@\n", read(t, top, "packages/loads.sh"), "/etc/@SERVER@", configuration,
			"@CONFIGURATION@", configuration+"/redis.conf", "@DROP_IN@", "", "@NAME@", "redis-funnel",
			"@VERSION@", "1.2.3", "@RESTART@", "restart").Replace(read(t, top, "packages/"+script))
		text = strings.ReplaceAll(text, "@FOLDER@", folder)
		path := filepath.Join(t.TempDir(), script)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
		output, err := exec.CommandContext(t.Context(), "sh", path).CombinedOutput()
		require.NoError(t, err, string(output))
		require.NotContains(t, string(output), "\x1b")
		return string(output)
	}
	for _, line := range []string{
		"loadmodule FOLDER/funnel.so",
		" \tLoadModule  \"FOLDER/funnel.so\" compat redis-cell",
		"loadmodule 'FOLDER/funnel.so' \x1b[31m\n",
		"loadmodule ROOT/lib//redis/./modules/../modules/funnel.so\n",
	} {
		line = strings.NewReplacer("FOLDER", folder, "ROOT", root).Replace(line)
		require.Equal(t, "redis-funnel: a running server loads version 1.2.3 when you restart it: restart\n", says("postinstall.sh", line))
		require.Contains(t, says("remove.sh", line), "take these lines out", line)
	}
	for _, line := range []string{"", "# loadmodule FOLDER/funnel.so", "loadmodule FOLDER/funnel.so.new", "loadmodule ROOT/funnel.so"} {
		line = strings.NewReplacer("FOLDER", folder, "ROOT", root).Replace(line)
		require.Contains(t, says("postinstall.sh", line), "add this line to "+configuration+"/redis.conf", line)
		require.Empty(t, says("remove.sh", line), line)
	}
}
