// Package dist_test checks what ./build.sh dist makes: the checksums, the archive, what
// its README says, and the module in a server.
package dist_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// made is the date of the files in the archives.
var made = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// checkout copies the sources to a new folder, and nothing that was built.
func checkout(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("releases are packed on Linux")
	}
	top, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // other tests come and go
			return err
		}
		relative, _ := filepath.Rel(top, name)
		switch {
		case entry == nil:
			return nil
		case relative == "build", relative == "dist", relative == ".git":
			if entry.IsDir() { // .git is a file in a worktree
				return fs.SkipDir
			}
			return nil
		case relative == "funnel.so":
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(folder, relative), 0o755)
		}
		content, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		information, statErr := entry.Info()
		if err = errors.Join(err, statErr); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, relative), content, information.Mode())
	}))
	return folder
}

// dist runs ./build.sh dist in a folder, and returns its folder dist.
func dist(t *testing.T, folder string, environment ...string) string {
	t.Helper()
	command := exec.Command("./build.sh", "dist")
	command.Dir = folder
	command.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", made.Unix()))
	command.Env = append(command.Env, environment...)
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
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

// unpack unpacks an archive into a new folder and returns its one top folder.
// Every entry must belong to root, be of the time made, and be readable for all.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	compressed, err := gzip.NewReader(strings.NewReader(archive))
	require.NoError(t, err)
	require.True(t, compressed.ModTime.IsZero(), "gzip has written the time of packing")
	folder, top := t.TempDir(), ""
	for entries := tar.NewReader(compressed); ; {
		entry, err := entries.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.True(t, entry.ModTime.Equal(made), "%s is of %s", entry.Name, entry.ModTime)
		require.Zero(t, entry.Uid+entry.Gid, entry.Name)
		require.Empty(t, entry.Uname+entry.Gname, entry.Name)
		name := filepath.Join(folder, entry.Name)
		if entry.Typeflag == tar.TypeDir {
			require.EqualValues(t, 0o755, entry.Mode, entry.Name)
			require.NoError(t, os.Mkdir(name, 0o755))
			if top == "" {
				top = name
			}
			continue
		}
		require.EqualValues(t, 0o444, entry.Mode&0o444, entry.Name)
		content, err := io.ReadAll(entries)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, content, fs.FileMode(entry.Mode)))
	}
	return top
}

// TestRelease is the way from the download to the first call: the checksums, the
// files, and what the README of the archive says.
func TestRelease(t *testing.T) {
	sources := checkout(t)
	folder := dist(t, sources)
	name := fmt.Sprintf("funnel-%s-linux-%s", versionOf(t), runtime.GOARCH)
	made := files(t, folder)
	require.Len(t, made, 2)

	check := exec.Command("sha256sum", "-c", "--strict", "SHA256SUMS")
	check.Dir = folder
	output, err := check.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Equal(t, fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256([]byte(made[name+".tar.gz"])), name), made["SHA256SUMS"])

	release := unpack(t, made[name+".tar.gz"])
	require.Equal(t, name, filepath.Base(release))
	var names []string
	for name := range files(t, release) {
		names = append(names, name)
	}
	require.ElementsMatch(t, []string{"CHANGELOG.md", "LICENSE", "README.md", "funnel.so"}, names)
	requireSymbols(t, filepath.Join(release, "funnel.so"))
	t.Run("README", func(t *testing.T) { followReadme(t, sources, release) })
}

// readme returns the README of an unpacked archive, and its blocks of shell commands
// and of lines for the server's configuration.
func readme(t *testing.T, release string) (text string, shell, configuration []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(release, "README.md"))
	require.NoError(t, err)
	text = string(page)
	for _, match := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		switch match[1] {
		case "sh":
			shell = append(shell, match[2])
		case "conf":
			configuration = append(configuration, match[2])
		default:
			t.Fatalf("a block of %s, which this test does not run", match[1])
		}
	}
	return text, shell, configuration
}

// followReadme runs all that the README of the archive says, in a folder of its own
// in the place of /usr/local, and without root.
func followReadme(t *testing.T, sources, release string) {
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("needs redis-cli: ", err)
	}
	text, shell, configuration := readme(t, release)
	require.Len(t, shell, 2, "install and check")
	require.Len(t, configuration, 2, "loadmodule without and with compat")
	require.NotContains(t, text, "](", "a link")
	require.NotRegexp(t, "@[A-Z]+@", text, "a placeholder")
	require.Contains(t, text, fmt.Sprintf("# funnel %s for Linux on %s\n", versionOf(t), runtime.GOARCH))
	for _, page := range regexp.MustCompile(`"([A-Z]\w+ .*?|Security)"`).FindAllStringSubmatch(text, -1) {
		require.True(t, titled(t, sources, page[1]), "no page has the title %q", page[1])
	}

	prefix := t.TempDir()
	run := func(script string, functions ...string) string {
		command := exec.Command("bash", "-e", "-c", strings.Join(functions, "\n")+"\n"+strings.ReplaceAll(script, "/usr/local", prefix))
		command.Dir = release
		output, err := command.CombinedOutput()
		require.NoError(t, err, string(output))
		return string(output)
	}
	sudo := `sudo() { "$@"; }`
	run(shell[0], sudo)
	run(shell[0], sudo) // as for a new version

	for i, want := range []string{"0\n15\n14\n-1\n2\n", "0\n16\n15\n-1\n2\n"} {
		line := strings.Fields(strings.ReplaceAll(configuration[i], "/usr/local", prefix))
		require.Equal(t, "loadmodule", line[0])
		server := servertest.Start(t, servertest.Options{Module: line[1], ModuleArguments: line[2:]})
		output := run(shell[1], fmt.Sprintf(`redis-cli() { command redis-cli -p %d "$@"; }`, server.Port))
		require.Contains(t, output, "funnel_version:"+versionOf(t))
		require.Contains(t, output, "funnel_compat:"+[]string{"none", "redis-cell"}[i])
		require.True(t, strings.HasSuffix(output, want), output)
	}
}

// titled says whether a page of the project has that title.
func titled(t *testing.T, sources, title string) bool {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(sources, "docs", "*.md"))
	require.NoError(t, err)
	for _, page := range append(pages, filepath.Join(sources, "SECURITY.md")) {
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		if strings.HasPrefix(string(content), "# "+title+"\n") {
			return true
		}
	}
	return false
}

// requireSymbols checks that an offset in a crash report can be looked up.
func requireSymbols(t *testing.T, module string) {
	t.Helper()
	file, err := elf.Open(module)
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.Symbols()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, symbol := range symbols {
		names[symbol.Name] = true
	}
	require.True(t, names["throttle_command"], "a function of C has no symbol")
	require.True(t, names["funnel/module/throttle.decide"], "a function of Go has no symbol")
	require.NotNil(t, file.Section(".debug_line"), "there are no line numbers")
}

// versionOf is the version that the sources name.
func versionOf(t *testing.T) string {
	t.Helper()
	header, err := os.ReadFile(filepath.Join("..", "..", "module", "version.h"))
	require.NoError(t, err)
	version := regexp.MustCompile(`FUNNEL_VERSION "(.*)"`).FindSubmatch(header)
	require.NotNil(t, version)
	return string(version[1])
}

// TestReleaseIsReproducible: another folder, another folder for temporary files,
// and a cache that holds nothing make the same bytes.
func TestReleaseIsReproducible(t *testing.T) {
	if os.Getenv("FUNNEL_LONG") == "" {
		t.Skip("compiles all of Go's library: set FUNNEL_LONG")
	}
	folders, err := exec.Command("go", "env", "GOMODCACHE", "GOROOT", "GOCACHE").Output()
	require.NoError(t, err)
	cache, temporary := t.TempDir(), t.TempDir()
	here, there := dist(t, checkout(t)), dist(t, checkout(t), "GOCACHE="+cache, "TMPDIR="+temporary)
	made, again := files(t, here), files(t, there)
	require.Len(t, again, len(made))
	for name := range made {
		require.Equal(t, sha256.Sum256([]byte(made[name])), sha256.Sum256([]byte(again[name])), "%s differs", name)
		if path.Ext(name) != ".gz" {
			continue
		}
		module := filepath.Join(unpack(t, made[name]), "funnel.so")
		for _, folder := range append(strings.Fields(string(folders)), here, there, cache, temporary) {
			require.Empty(t, sectionsWith(t, module, strings.TrimSuffix(folder, "/dist")), "%s is in funnel.so", folder)
		}
	}
}

// sectionsWith are the sections of a program that hold a text, be they compressed
// or not.
func sectionsWith(t *testing.T, program, text string) (sections []string) {
	t.Helper()
	file, err := elf.Open(program)
	require.NoError(t, err)
	defer file.Close()
	for _, section := range file.Sections {
		if section.Type == elf.SHT_NOBITS {
			continue
		}
		content, err := section.Data()
		require.NoError(t, err)
		if bytes.Contains(content, []byte(text)) {
			sections = append(sections, section.Name)
		}
	}
	return sections
}
