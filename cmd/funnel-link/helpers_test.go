package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// top is the top of the repository.
func top(t *testing.T) string {
	path, err := filepath.Abs("../..")
	must(t, err)
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// crossCompilers are the compilers of architectures that are not this machine's.
var crossCompilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// build builds the module as build.sh does, for an architecture, with sources replaced: the map
// has contents by paths below the top. It returns the path of the file and what was printed.
func build(t *testing.T, arch string, sources map[string]string, environment ...string) (path, printed string, err error) {
	t.Helper()
	folder := t.TempDir()
	replaced := map[string]string{}
	for i, source := range slices.Sorted(maps.Keys(sources)) {
		file := filepath.Join(folder, string(rune('a'+i))+filepath.Base(source))
		must(t, os.WriteFile(file, []byte(sources[source]), 0o644))
		replaced[filepath.Join(top(t), source)] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o644))

	path = filepath.Join(folder, "funnel.so")
	const script = `. scripts/common.sh; . scripts/compile.sh; need_compilers; compile "$@"`
	command := exec.Command("bash", "-euc", script, "test", path, "-overlay", filepath.Join(folder, "overlay.json"))
	command.Dir, command.Env = top(t), append(os.Environ(), environment...)
	if arch != runtime.GOARCH {
		if _, err := exec.LookPath(crossCompilers[arch]); err != nil {
			t.Skipf("%s is not installed", crossCompilers[arch])
		}
		command.Env = append(command.Env, "GOARCH="+arch, "CC="+crossCompilers[arch])
	}
	output, err := command.CombinedOutput()
	return path, string(output), err
}
