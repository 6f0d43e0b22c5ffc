// Package dist_test checks what ./build.sh dist makes: the checksums, the archive, what
// its README says, the module in a server, and the packages; with FUNNEL_LONG, because dist
// compiles everything. test/boot installs the packages.
package dist_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/page"
)

// top is the repository.
const top = "../.."

// made is the date of the files in the archives.
var made = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// run runs a program in a folder, with further variables, and returns what it prints.
func run(t *testing.T, folder string, variables []string, program string, arguments ...string) string {
	t.Helper()
	command := exec.Command(program, arguments...)
	command.Dir, command.Env = folder, append(os.Environ(), variables...)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", program, arguments, output)
	return string(output)
}

// dist runs ./build.sh dist in a new copy of the sources, and returns its folder dist.
func dist(t *testing.T, variables ...string) string {
	t.Helper()
	folder := page.Clone(t, top)
	run(t, folder, append(variables, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", made.Unix())), "./build.sh", "dist")
	return filepath.Join(folder, "dist")
}

// files are the names and the contents in a folder.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	files := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		require.NoError(t, err)
		files[entry.Name()] = string(content)
	}
	return files
}

// unpack unpacks an archive into a new folder, and returns it. Every entry must belong to
// root, be of the time made, and be readable for all.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	file, err := os.Open(archive)
	require.NoError(t, err)
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	require.NoError(t, err)
	require.True(t, compressed.ModTime.IsZero(), "gzip has written the time of packing")
	for entries := tar.NewReader(compressed); ; {
		entry, err := entries.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.True(t, entry.ModTime.Equal(made), "%s is of %s", entry.Name, entry.ModTime)
		require.Zero(t, entry.Uid+entry.Gid, entry.Name)
		require.Empty(t, entry.Uname+entry.Gname, entry.Name)
		require.EqualValues(t, 0o444, entry.Mode&0o444, entry.Name)
		require.Equal(t, entry.Typeflag == tar.TypeDir || filepath.Ext(entry.Name) == ".so", entry.Mode&0o111 == 0o111, entry.Name)
	}
	folder := t.TempDir()
	run(t, folder, nil, "tar", "-xf", archive)
	return folder
}

// TestRelease is the way from the download to the first call: the checksums, the files, and
// what the README of the archive says. Another folder, another folder for temporary files and
// an empty cache make the same bytes.
func TestRelease(t *testing.T) {
	if os.Getenv("FUNNEL_LONG") == "" {
		t.Skip("compiles all of Go's library: set FUNNEL_LONG")
	}
	folder := dist(t)
	name := fmt.Sprintf("funnel-%s-linux-%s", versionOf(t), runtime.GOARCH)
	made := files(t, folder)
	require.Len(t, made, 2+2*len(formats()))
	run(t, folder, nil, "sha256sum", "-c", "--strict", "SHA256SUMS")
	sums := ""
	for _, file := range slices.Sorted(maps.Keys(made)) {
		if file != "SHA256SUMS" {
			sums += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(made[file])), file)
		}
	}
	require.Equal(t, sums, made["SHA256SUMS"])
	again := files(t, dist(t, "GOCACHE="+t.TempDir(), "TMPDIR="+t.TempDir()))
	require.Equal(t, sums, again["SHA256SUMS"])

	release := filepath.Join(unpack(t, filepath.Join(folder, name+".tar.gz")), name)
	content := files(t, release)
	require.Len(t, content, 4)
	for _, file := range []string{"CHANGELOG.md", "LICENSE"} {
		require.Equal(t, source(t, file), content[file])
	}
	requireSymbols(t, filepath.Join(release, "funnel.so"))
	requireNoOtherModule(t, filepath.Join(release, "funnel.so"))
	for _, format := range formats() {
		for _, server := range []string{"redis", "valkey"} {
			t.Run(server+" "+format.name, func(t *testing.T) {
				requirePackage(t, format, server, folder, release)
			})
		}
	}
	t.Run("README", func(t *testing.T) { followReadme(t, release, content["README.md"]) })
}

// followReadme runs all that the README of the archive says, with a folder of its own
// in place of /usr/lib, and without root.
func followReadme(t *testing.T, release, text string) {
	page.NeedRedisCLI(t)
	require.NotContains(t, text, "](", "a link")
	require.NotRegexp(t, "@[A-Z]+@", text, "a placeholder")
	require.Contains(t, text, fmt.Sprintf("# funnel %s for Linux on %s\n", versionOf(t), runtime.GOARCH))
	prefix := t.TempDir()
	blocks := map[string][]string{}
	for _, match := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks[match[1]] = append(blocks[match[1]], strings.ReplaceAll(match[2], "/usr/lib/", prefix+"/"))
	}
	require.NotContains(t, fmt.Sprint(blocks), "/usr/")
	require.Len(t, blocks, 2, "commands, and lines for the server's configuration")
	require.Len(t, blocks["sh"], 2, "install and check")
	require.Len(t, blocks["conf"], 1, "loadmodule")

	for range 2 { // the second time as for a new version
		page.Shell(t, release, 0, blocks["sh"][0])
	}
	server := servertest.Start(t, page.WithModule(t, blocks["conf"][0]))
	output := page.Shell(t, release, server.Port, blocks["sh"][1])
	require.Contains(t, output, "funnel_version:"+versionOf(t))
	require.True(t, strings.HasSuffix(output, "0\n15\n14\n-1\n2\n"), output)
}

// requireSymbols checks that an offset in a crash report can be looked up.
func requireSymbols(t *testing.T, module string) {
	t.Helper()
	file, err := elf.Open(module)
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.Symbols()
	require.NoError(t, err)
	for _, name := range []string{"throttle_command", "funnel/module/answer.decide"} { // of C, and of Go
		require.True(t, slices.ContainsFunc(symbols, func(symbol elf.Symbol) bool { return symbol.Name == name }), name)
	}
	require.NotNil(t, file.Section(".debug_line"), "there are no line numbers")
}

// requireNoOtherModule requires that `go version -m` says what SECURITY.md says of it.
func requireNoOtherModule(t *testing.T, module string) {
	t.Helper()
	information, err := buildinfo.ReadFile(module)
	require.NoError(t, err)
	require.Equal(t, []any{runtime.Version(), "funnel"}, []any{information.GoVersion, information.Main.Path})
	require.Empty(t, information.Deps)
}

// versionOf is the version that the sources name.
func versionOf(t *testing.T) string {
	t.Helper()
	version := regexp.MustCompile(`FUNNEL_VERSION "(.*)"`).FindStringSubmatch(source(t, "module/version.h"))
	require.NotNil(t, version)
	return version[1]
}
