package page

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// Proxy returns a line of shell: after it, go gets the modules of a clone from a module proxy,
// by the paths in their go.mod, at a version of their own. It gets all other modules as usual.
// The line is empty as long as these paths name no host, and so cannot be got.
func Proxy(t testing.TB, clone string) string {
	t.Helper()
	main := modulePath(t, clone)
	if !strings.Contains(main, ".") {
		return ""
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	proxy, version := t.TempDir(), fmt.Sprintf("v0.0.0-test.%d", time.Now().UnixNano())
	require.NoError(t, filepath.WalkDir(clone, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(path) == "go.mod" {
			serve(t, proxy, strings.TrimSpace(string(cache)), filepath.Dir(path), main, version)
		}
		return err
	}))
	return fmt.Sprintf("export GOPROXY=file://%s,$(go env GOPROXY) GOFLAGS=\"$(go env GOFLAGS) -modcacherw\" GONOSUMDB=%s\n", proxy, main)
}

// serve adds the module in a folder to a proxy, and removes it from the cache when the test ends.
// What it requires of the clone has its own version.
func serve(t testing.TB, proxy, cache, folder, main, version string) {
	t.Helper()
	path, err := module.EscapePath(modulePath(t, folder))
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	require.NoError(t, err)
	file, err := modfile.Parse(folder, content, nil)
	require.NoError(t, err)
	for _, required := range file.Require {
		if required.Mod.Path == main || strings.HasPrefix(required.Mod.Path, main+"/") {
			require.NoError(t, file.AddRequire(required.Mod.Path, version))
		}
	}
	content, err = file.Format()
	require.NoError(t, err)
	files := filepath.Join(proxy, path, "@v")
	require.NoError(t, os.MkdirAll(files, 0o755))
	for name, text := range map[string]string{"list": version, version + ".mod": string(content), version + ".info": fmt.Sprintf(`{"Version": %q}`, version)} {
		require.NoError(t, os.WriteFile(filepath.Join(files, name), []byte(text), 0o644))
	}
	archive, err := os.Create(filepath.Join(files, version+".zip"))
	require.NoError(t, err)
	defer archive.Close()
	require.NoError(t, zip.CreateFromDir(archive, module.Version{Path: modulePath(t, folder), Version: version}, folder))
	t.Cleanup(func() {
		sources, downloads := filepath.Join(cache, path+"@"+version), filepath.Join(cache, "cache/download", path, "@v")
		require.NoError(t, os.RemoveAll(sources))
		downloaded, _ := filepath.Glob(filepath.Join(downloads, version+".*"))
		for _, file := range append(downloaded, filepath.Join(downloads, "list")) {
			os.Remove(file)
		}
		for _, folder := range []string{filepath.Dir(sources), downloads} {
			for os.Remove(folder) == nil { // as long as nothing else is in it
				folder = filepath.Dir(folder)
			}
		}
	})
}

// modulePath is the path of the module in a folder.
func modulePath(t testing.TB, folder string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	require.NoError(t, err)
	return modfile.ModulePath(content)
}
