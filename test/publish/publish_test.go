// Package publish_test publishes a copy of the sources, under a path that exists nowhere else.
package publish_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/test/page"
)

const (
	path  = "example.com/An-Owner/some.funnel-1"
	image = "registry.example.com:5000/An-Owner/some.funnel-1"
)

// TestPublishing: with the command of CONTRIBUTING.md, a copy builds, with its proof, its pages
// pass their checks, and a program elsewhere gets its packages without a replace line.
func TestPublishing(t *testing.T) {
	t.Parallel()
	read := func(file string) string {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(content)
	}
	command := "scripts/publish-as.sh github.com/OWNER/funnel ghcr.io/OWNER/funnel"
	require.Contains(t, read("../../CONTRIBUTING.md"), "1. `"+command+"`")
	command = strings.NewReplacer("github.com/OWNER/funnel", path, "ghcr.io/OWNER/funnel", image).Replace(command)
	clone := page.Clone(t, "../..")
	in := func(lines string) string { return page.Shell(t, clone, 0, lines) }

	in("git init -q && git add -A && scripts/publish-as.sh example.org/first example.org/first")
	in("git add -A && scripts/publish-as.sh example.org/first/deeper example.org/first.deeper")
	in(command + "&& git add -A && " + command)
	require.Empty(t, in("git diff"), "the second time, nothing changes")
	require.Empty(t, in("git grep -nE 'example.org/first|<!-- until published|(require|replace)=funnel' -- ':!test/publish' ':!scripts/publish-as.sh' || true"))
	require.NotContains(t, read(clone+"/examples/monitoring/go.mod"), path+" v0.0.0")
	for _, readme := range []string{"README.md", "README.zh-CN.md"} {
		text, name := read(filepath.Join(clone, readme)), strings.ToLower(image)
		require.Contains(t, text, "\n    docker pull "+name+"\n    docker run -p 127.0.0.1:6379:6379 "+name+"\n")
		require.Contains(t, text, "\n    go get "+path+"/limiter\n")
	}
	// All imports are found, and the pages, whose first command builds, and so proves.
	in(`for file in $(git ls-files '*go.mod'); do go -C "${file%go.mod}." list -deps -test ./... >/dev/null; done`)
	in("go -C test test -count=1 ./docs")

	outside := t.TempDir()
	program, names := "package main\n", []string{"limiter", "examples/monitoring/prometheus"}
	nested, err := filepath.Glob(clone + "/limiter/*/go.mod")
	require.NoError(t, err)
	for _, file := range nested {
		names = append(names, filepath.Join("limiter", filepath.Base(filepath.Dir(file))))
	}
	for _, name := range names {
		program += "\nimport _ \"" + path + "/" + name + "\"\n"
	}
	require.NoError(t, os.WriteFile(outside+"/main.go", []byte(program+"\nfunc main() {}\n"), 0o644))
	page.Shell(t, outside, 0, page.Proxy(t, clone)+"go mod init outside && go get . && go vet .")
	require.NotContains(t, read(outside+"/go.mod"), "replace")
}
